//! The interface of a controller.

use std::fmt::Debug;
use std::time::Duration;

use super::samples::{AckSample, Activity, LossSample, LostPacketSample, SentSample, Subflow};
use crate::{ByteCount, Instant, Rate};

/// Controls the congestion window and the pacing rate of one path.
///
/// Guarantees to the controller:
/// * `on_sent` and `on_packet_lost` come once for each packet, `on_ack` once for each acknowledgement with news.
/// * Losses revealed by an acknowledgement come before its `on_ack`, first each packet, then the event.
/// * `on_loss` comes once in a round trip at most: not for packets sent before the last one.
/// * `on_spurious_loss` comes at most once after an `on_loss`, and only before the next one.
/// * Packets of an abandoned path are not reported at all, nor are losses and rates during a suspect period: they say
///   nothing about the capacity of the path.
///
/// Guarantees of the controller: the window never falls below two datagrams, and no hook panics.
pub trait CongestionController: Debug + Send {
    /// The name by which [`by_name`](super::by_name) finds it.
    fn name(&self) -> &'static str;

    /// A packet left.
    fn on_sent(&mut self, sample: &SentSample) {
        let _ = sample;
    }

    /// The path was just validated, is not the first one, and has carried no data yet. `subflows` are the other live
    /// paths of the connection.
    fn on_validated(&mut self, subflows: &[Subflow]) {
        let _ = subflows;
    }

    /// An acknowledgement arrived; its details follow. `subflows` are the other live paths of the connection.
    fn on_subflows(&mut self, subflows: &[Subflow]) {
        let _ = subflows;
    }

    /// Packets were acknowledged. `subflows` are the other live paths of the connection.
    fn on_ack(&mut self, sample: &AckSample, subflows: &[Subflow]);

    /// A packet was lost; the reaction to losses as such belongs in [`Self::on_loss`].
    fn on_packet_lost(&mut self, sample: &LostPacketSample) {
        let _ = sample;
    }

    /// Packets arrived with a CE mark (RFC 3168), the first in a round trip; a [`LossSample`] follows unless a loss
    /// began a congestion event in it before.
    fn on_mark(&mut self, now: Instant, in_flight: ByteCount) {
        let _ = (now, in_flight);
    }

    /// A congestion event: the window has to shrink.
    fn on_loss(&mut self, sample: &LossSample);

    /// All packets of the last congestion event arrived after all: the event is undone.
    fn on_spurious_loss(&mut self, now: Instant);

    /// Every packet was lost for several timeouts: restart from the smallest window (RFC 9002, section 7.6).
    fn on_persistent_congestion(&mut self, now: Instant);

    /// The path restarts with this window, with nothing in flight.
    fn on_restart(&mut self, now: Instant, window: ByteCount);

    /// The size of datagrams changed, in bytes.
    fn on_max_datagram(&mut self, size: u16);

    /// How many bytes may be in flight.
    fn window(&self) -> ByteCount;

    /// How fast packets may leave, given the smoothed RTT.
    fn pacing_rate(&self, smoothed_rtt: Duration) -> Rate;

    /// Whether the window grows exponentially in slow start.
    fn is_in_slow_start(&self) -> bool;

    /// Reported to the controllers of other paths as [`Subflow::activity`]. While it is [`Activity::Draining`], all
    /// samples count as application-limited. Default [`Activity::Steady`].
    fn activity(&self) -> Activity {
        Activity::Steady
    }

    /// When the window was last reduced for congestion, reported to the controllers of other paths as
    /// [`Subflow::reduced_at`]. Default `None`: only controllers that combine several reductions into one need it.
    fn reduced_at(&self) -> Option<Instant> {
        None
    }
}

/// The rate that spreads a window over a round trip, plus a margin so that pacing does not limit growth: 2 windows in
/// a round trip in slow start, 1.2 after.
pub(super) fn pacing_of_window(window: ByteCount, smoothed_rtt: Duration, is_in_slow_start: bool) -> Rate {
    let rate = window.per(smoothed_rtt);
    if is_in_slow_start { rate.scaled(2, 1) } else { rate.scaled(6, 5) }
}
