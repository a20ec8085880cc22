//! Sending on a stream carrier, such as TCP (spec 6.79, 6.140): the system below retransmits and controls congestion, so this
//! end neither declares packets lost nor has a window and a pacer of its own. The figures of the system take their
//! place.
//!
//! What is sent counts as delivered only when the peer acknowledges it: the system's own acknowledgement does not mean
//! that the peer has read it.

use std::time::Duration;

use crate::{ByteCount, Rate};

/// The window before the first report: ten segments, as TCP begins (RFC 6928).
const FIRST_WINDOW: ByteCount = ByteCount(14_600);
/// How much may wait in the carrier beyond its window, so that it never runs out before the next report. Bounded
/// because what waits there can no longer take another path.
const LEAST_AHEAD: ByteCount = ByteCount(16 * 1024);
const MOST_AHEAD: ByteCount = ByteCount(128 * 1024);
const AHEAD_TIME: Duration = Duration::from_millis(5);

/// What the system knows of a stream carrier, for example by Linux's `TCP_INFO`.
///
/// ```
/// use std::time::Duration;
/// use manyway_proto::{ByteCount, CarrierFigures, Rate};
///
/// let mut figures = CarrierFigures::new(Duration::from_millis(20), ByteCount(64_000));
/// figures.delivery_rate = Rate::from_bits_per_second(20_000_000);
/// figures.outstanding = ByteCount(10_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CarrierFigures {
    /// Smoothed RTT, without the wait in the send buffer (`tcpi_rtt`).
    pub rtt: Duration,
    /// Mean deviation of the RTT (`tcpi_rttvar`).
    pub rtt_variation: Duration,
    /// Smallest RTT (`tcpi_min_rtt`).
    pub minimum_rtt: Duration,
    /// How many bytes may be on their way: the lesser of the congestion window and what is left of the peer's receive window
    /// after the bytes that arrived behind a gap.
    pub window: ByteCount,
    /// Bytes that have not arrived: those on their way, those lost, and those not sent yet. Bytes that arrived behind a gap
    /// (RFC 2018) do not count, so that the carrier has data to send while it repairs a loss.
    pub outstanding: ByteCount,
    /// RTT as the receiver of data sees it; zero before the first measurement (`tcpi_rcv_rtt`). That of an end which sends
    /// little contains the delay of acknowledgements.
    pub receive_rtt: Duration,
    /// Payload of a full segment that the peer sends; zero if none came (`tcpi_rcv_mss`).
    pub receive_segment: ByteCount,
    /// Measured delivery rate; zero before the first measurement (`tcpi_delivery_rate`).
    pub delivery_rate: Rate,
}

impl CarrierFigures {
    /// The figures of an idle carrier with constant RTT, to be filled in.
    pub fn new(rtt: Duration, window: ByteCount) -> Self {
        Self {
            rtt,
            rtt_variation: Duration::ZERO,
            minimum_rtt: rtt,
            window,
            outstanding: ByteCount::ZERO,
            receive_rtt: Duration::ZERO,
            receive_segment: ByteCount::ZERO,
            delivery_rate: Rate::ZERO,
        }
    }
}

/// How much may be sent on a stream carrier.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StreamControl {
    figures: Option<CarrierFigures>,
    /// Bytes sent since the last report.
    sent_since: ByteCount,
}

impl StreamControl {
    pub(super) fn on_figures(&mut self, figures: CarrierFigures) {
        *self = Self { figures: Some(figures), sent_since: ByteCount::ZERO };
    }

    pub(super) fn on_sent(&mut self, bytes: ByteCount) {
        self.sent_since += bytes;
    }

    pub(super) fn figures(&self) -> Option<&CarrierFigures> {
        self.figures.as_ref()
    }

    pub(super) fn window(&self) -> ByteCount {
        self.figures.map_or(FIRST_WINDOW, |figures| figures.window)
    }

    pub(super) fn delivery_rate(&self) -> Rate {
        self.figures.map_or(Rate::ZERO, |figures| figures.delivery_rate)
    }

    /// Bytes in the carrier, of which the peer has not acknowledged `unacknowledged` yet. A report that is too old
    /// holds nothing back: whatever the peer has acknowledged has left the carrier.
    pub(super) fn in_flight(&self, unacknowledged: ByteCount) -> ByteCount {
        let reported = self.figures.map(|figures| figures.outstanding + self.sent_since);
        reported.map_or(unacknowledged, |reported| reported.min(unacknowledged))
    }

    /// Bytes that the carrier may be given now.
    pub(super) fn room(&self, unacknowledged: ByteCount) -> ByteCount {
        let ahead = (self.delivery_rate() * AHEAD_TIME).clamp(LEAST_AHEAD, MOST_AHEAD);
        self.window() + ahead - self.in_flight(unacknowledged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_carrier_is_given_its_window_and_five_milliseconds_more() {
        let mut stream = StreamControl::default();
        let unacknowledged = ByteCount(1_000_000);
        assert_eq!(stream.room(ByteCount::ZERO), FIRST_WINDOW + LEAST_AHEAD);
        let mut figures = CarrierFigures::new(Duration::from_millis(20), ByteCount(100_000));
        figures.delivery_rate = Rate::from_bytes_per_second(10_000_000);
        figures.outstanding = ByteCount(60_000);
        stream.on_figures(figures);
        assert_eq!(stream.room(unacknowledged), ByteCount(90_000));
        stream.on_sent(ByteCount(70_000));
        assert_eq!(stream.in_flight(unacknowledged), ByteCount(130_000));
        assert_eq!(stream.room(unacknowledged), ByteCount(20_000));
        stream.on_sent(ByteCount(30_000));
        assert_eq!(stream.room(unacknowledged), ByteCount::ZERO);
        // The peer has acknowledged nearly everything: the report is old.
        assert_eq!(stream.in_flight(ByteCount(10_000)), ByteCount(10_000));
    }
}
