//! Losses and deliveries of a round trip, and whether the loss exceeds chance.
//!
//! The draft calls a flight too large once it loses more than 2 %. Of a flight of 90 packets those are two, and a
//! radio link that loses one in a hundred loses two in every fourth flight, so each bandwidth probe would fail there.
//! Therefore, besides their share, the number of gaps has to exceed the average of 2 % by more than three standard
//! deviations. With more packets this approaches the rule of the draft.
//!
//! Gaps are counted instead of packets, because a burst lost on a radio link is one event, while a full queue drops
//! excess packets one by one. But a full queue that receives bursts drops their ends, many packets in few gaps. So in
//! a flight that is large enough, fewer gaps suffice if much of it was lost.

use super::{AckSample, LostPacketSample};
use crate::{ByteCount, Rate};

/// `BBR.LossThresh`: this part of a flight may be lost, 2 %.
const TOLERATED: u64 = 50;
/// The loss of more than an eighth of a flight in this many gaps is excessive, ...
const MUCH: (u64, u64) = (8, 5);
/// and so is that of more than a quarter in this many gaps.
const VERY_MUCH: (u64, u64) = (4, 3);
/// Both rules need this many packets: a path that loses 5 % at random loses an eighth of twenty in every sixth
/// flight.
const MUCH_OF: u64 = 32;
/// `BBRStartupFullLossCnt`: gaps in a round trip that end Startup.
const STARTUP_GAPS: u64 = 6;

/// Whether losing this many bytes of a flight, in this many gaps, shows that it was too large.
pub(super) fn is_excessive(lost: ByteCount, flight: ByteCount, gaps: u64, datagram: ByteCount) -> bool {
    let packets = flight.get() / datagram.get().max(1);
    // gaps > 1 + n·p + 3·√(n·p) with p = 1/50, times 50
    let deviation = packets.saturating_mul(9 * TOLERATED).isqrt();
    let by_chance = TOLERATED.saturating_add(packets).saturating_add(deviation);
    let is_often = gaps.saturating_mul(TOLERATED) > by_chance;
    let is_much = |(part, in_gaps): (u64, u64)| lost * part > flight && gaps >= in_gaps;
    let is_often = is_often || packets >= MUCH_OF && (is_much(MUCH) || is_much(VERY_MUCH));
    lost * TOLERATED > flight && is_often
}

/// Bytes in flight when the losses exceeded the threshold: the flight of the lost packet, less the excess of the loss
/// (`InflightAtLoss`).
pub(super) fn flight_at_loss(sample: &LostPacketSample) -> ByteCount {
    let before = sample.in_flight_at_sent - sample.bytes;
    let lost_before = sample.lost_since_sent - sample.bytes;
    let tolerated = before / TOLERATED;
    // Divided by 1 − 1/50: the bytes that fit are fewer by the losses among them.
    let scaled = |bytes: ByteCount| bytes * TOLERATED / (TOLERATED - 1);
    before + scaled(tolerated - lost_before) - scaled(lost_before - tolerated)
}

/// Congestion signals of the latest round trip.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Signals {
    /// `BBR.bw_latest`: the largest delivery rate.
    pub(super) rate: Rate,
    /// `BBR.inflight_latest`: most bytes delivered within a round trip.
    pub(super) flight: ByteCount,
    /// Bytes delivered when this round began (`BBR.loss_round_delivered`).
    round_end: ByteCount,
    /// The losses of this round.
    lost: Option<Lost>,
    ended: Ended,
}

#[derive(Debug, Clone, Copy)]
struct Lost {
    /// Bytes delivered when the first loss was detected.
    delivered: ByteCount,
    bytes: ByteCount,
    /// Gaps on the path before the first, and now.
    gaps_before: u64,
    gaps: u64,
    marked: bool,
}

/// Whether a round ended with the last acknowledgement, and its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Ended {
    #[default]
    No,
    /// Few losses, as any path may have.
    Well,
    /// Excessive losses.
    InExcess,
    /// Excessive losses in so many gaps that Startup has to end, or a CE mark.
    InGreatExcess,
}

impl Lost {
    /// The result of the round, given the bytes delivered at its end.
    fn verdict(self, delivered: ByteCount, datagram: ByteCount) -> Ended {
        let flight = (delivered - self.delivered) + self.bytes;
        let gaps = self.gaps.saturating_sub(self.gaps_before);
        if self.marked {
            Ended::InGreatExcess
        } else if !is_excessive(self.bytes, flight, gaps, datagram) {
            Ended::Well
        } else if gaps < STARTUP_GAPS {
            Ended::InExcess
        } else {
            Ended::InGreatExcess
        }
    }
}

impl Signals {
    /// A packet was lost. The first loss of a round trip restarts the round, so that it covers all losses of one
    /// flight.
    pub(super) fn on_packet_lost(&mut self, sample: &LostPacketSample) {
        let lost = self.note(sample.delivered, sample.gaps.saturating_sub(1));
        lost.bytes += sample.bytes;
        lost.gaps = sample.gaps;
    }

    /// A packet arrived with a CE mark.
    pub(super) fn on_mark(&mut self, delivered: ByteCount) {
        self.note(delivered, 0).marked = true;
    }

    fn note(&mut self, delivered: ByteCount, gaps_before: u64) -> &mut Lost {
        if self.lost.is_none() {
            self.round_end = delivered;
        }
        let new = Lost { delivered, bytes: ByteCount::ZERO, gaps_before, gaps: gaps_before, marked: false };
        self.lost.get_or_insert(new)
    }

    /// First call for an acknowledgement (`UpdateLatestDeliverySignals`).
    pub(super) fn on_ack(&mut self, sample: &AckSample, datagram: ByteCount) {
        self.rate = self.rate.max(sample.delivery_rate.unwrap_or_default());
        self.flight = self.flight.max(sample.delivered - sample.delivered_at_sent);
        self.ended = Ended::No;
        if sample.delivered_at_sent < self.round_end {
            return;
        }
        self.round_end = sample.delivered;
        self.ended = self.lost.take().map_or(Ended::Well, |lost| lost.verdict(sample.delivered, datagram));
    }

    /// Last call for an acknowledgement (`AdvanceLatestDeliverySignals`).
    pub(super) fn end_ack(&mut self, sample: &AckSample) {
        if self.ended != Ended::No {
            self.rate = sample.delivery_rate.unwrap_or_default();
            self.flight = sample.delivered - sample.delivered_at_sent;
        }
    }

    /// Whether this acknowledgement ended a round with excessive loss.
    pub(super) fn ended_in_excess(&self) -> bool {
        matches!(self.ended, Ended::InExcess | Ended::InGreatExcess)
    }

    /// Whether the loss was so large that Startup has to end.
    pub(super) fn ended_in_great_excess(&self) -> bool {
        self.ended == Ended::InGreatExcess
    }

    /// The phase changes: earlier measurements no longer count (`ResetCongestionSignals`).
    pub(super) fn reset(&mut self) {
        self.lost = None;
        self.rate = Rate::ZERO;
        self.flight = ByteCount::ZERO;
    }

    /// The losses of this round were spurious.
    pub(super) fn forget_losses(&mut self) {
        self.lost = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the loss of `lost` of `packets` packets of 1000 bytes, in `gaps` gaps, is excessive.
    fn excessive(packets: u64, lost: u64, gaps: u64) -> bool {
        is_excessive(ByteCount(lost * 1000), ByteCount(packets * 1000), gaps, ByteCount(1000))
    }

    #[test]
    fn few_random_losses_are_not_excessive_and_many_are() {
        assert!(!excessive(100, 5, 5));
        assert!(excessive(100, 8, 8));
        assert!(!excessive(1000, 20, 20));
        assert!(excessive(1000, 40, 40));
    }

    #[test]
    fn a_lost_burst_is_one_event_but_the_lost_ends_of_many_bursts_are_a_full_queue() {
        assert!(!excessive(100, 30, 1));
        assert!(!excessive(100, 12, 5));
        assert!(!excessive(100, 24, 4));
        assert!(excessive(100, 24, 5));
        assert!(excessive(100, 30, 3));
        assert!(excessive(280, 183, 7));
    }

    #[test]
    fn a_large_share_of_a_small_flight_may_be_chance() {
        assert!(!excessive(20, 4, 3));
        assert!(!excessive(31, 10, 3));
        assert!(excessive(32, 10, 3));
    }
}
