//! When an acknowledgement is due (RFC 9000, section 13.2; design: adaptive threshold).
//! - at once: for a gap, a late packet, a request of the peer (ACK-NOW), a congestion mark (CE), and the first packet
//!   after a pause;
//! - for each [`AckPolicy::threshold`] packets: 2, then an eighth of the packets in a round trip, so that a path has
//!   about 8 acknowledgements in a round trip at any rate. A packet larger than Ethernet's counts as many packets of
//!   Ethernet's size, so that at most 94 KB wait, whatever the size;
//! - otherwise when the timer expires: a quarter of the round trip, from 1 to 25 ms.
//!
//! After a gap the threshold is 2 for a while, because packets behind the gap decide whether the sender declares a
//! loss.

use std::time::Duration;

use super::received::Arrival;
use crate::Instant;

/// Decides when the packets received on a path are acknowledged.
#[derive(Debug)]
pub(crate) struct AckPolicy {
    due: Due,
    /// Ack-eliciting packets since the last acknowledgement was sent, large ones counted several times.
    waiting: u64,
    threshold: u64,
    /// Packets after a gap that are still subject to the minimum threshold.
    alert: u64,
    /// In ns.
    smoothed_rtt: u64,
    round: Option<Round>,
    last_packet: Option<Instant>,
}

/// The acknowledgement that a packet elicits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Demand {
    /// The packet is not ack-eliciting.
    None,
    /// It elicits a delayed acknowledgement.
    Normal,
    /// It elicits an immediate acknowledgement: ACK-NOW, or a congestion mark.
    Immediate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Never,
    At(Instant),
    Now,
}

/// Packets counted over a round trip.
#[derive(Debug, Clone, Copy)]
struct Round {
    started: Instant,
    packets: u64,
}

const LEAST_THRESHOLD: u64 = 2;
const MOST_THRESHOLD: u64 = 64;
/// Acknowledgements in a round trip.
const ACKS_A_ROUND: u64 = 8;
/// Packets after a gap that are acknowledged closely.
const ALERT_PACKETS: u64 = 8;
/// A packet counts once for each of these bytes.
const ORDINARY: usize = 1472;
// In ns.
const PAUSE: u64 = 100 * MILLI;
const LEAST_DELAY: u64 = MILLI;
const MOST_DELAY: u64 = 25 * MILLI;
const INITIAL_RTT: u64 = 100 * MILLI;
const MILLI: u64 = 1_000_000;

impl Default for AckPolicy {
    fn default() -> Self {
        Self {
            due: Due::Never,
            waiting: 0,
            threshold: LEAST_THRESHOLD,
            alert: 0,
            smoothed_rtt: INITIAL_RTT,
            round: None,
            last_packet: None,
        }
    }
}

impl AckPolicy {
    /// The longest time that a packet waits for its acknowledgement, as advertised in the transport parameters.
    pub(crate) const MAX_ACK_DELAY: Duration = Duration::from_nanos(MOST_DELAY);

    /// Makes an acknowledgement due at once, even if no new packet arrived: the last one may have taken another path.
    pub(crate) fn force(&mut self) {
        self.waiting = self.waiting.max(1);
        self.due = Due::Now;
    }

    /// Records a packet.
    pub(crate) fn on_packet(&mut self, now: Instant, arrival: Arrival, demand: Demand, size: usize) {
        let after_pause = self.last_packet.is_none_or(|last| now.nanos_since(last) >= PAUSE);
        self.last_packet = Some(now);
        let count = u64::try_from(size / ORDINARY).unwrap_or(u64::MAX).max(1);
        self.count_round(now, count);
        if arrival == Arrival::OpensGap {
            self.alert = ALERT_PACKETS;
        }
        let immediate = match (demand, arrival) {
            // A packet that is not ack-eliciting must not be answered, or two ends would answer each other for ever.
            (Demand::None, _) => return,
            (Demand::Immediate, _) => true,
            (Demand::Normal, Arrival::OpensGap | Arrival::Late) => true,
            (Demand::Normal, Arrival::InOrder) => after_pause,
        };
        self.waiting += count;
        let threshold = if self.alert > 0 { LEAST_THRESHOLD } else { self.threshold };
        self.alert = self.alert.saturating_sub(1);
        if immediate || self.waiting >= threshold {
            self.due = Due::Now;
        } else if self.due == Due::Never {
            self.due = Due::At(now + self.delay());
        }
    }

    fn count_round(&mut self, now: Instant, count: u64) {
        let Some(round) = &mut self.round else {
            self.round = Some(Round { started: now, packets: count });
            return;
        };
        round.packets += count;
        let elapsed = now.nanos_since(round.started);
        if elapsed < self.smoothed_rtt.max(LEAST_DELAY) {
            return;
        }
        let in_rtt = u128::from(round.packets) * u128::from(self.smoothed_rtt) / u128::from(elapsed.max(1));
        let share = u64::try_from(in_rtt).unwrap_or(u64::MAX) / ACKS_A_ROUND;
        self.threshold = share.clamp(LEAST_THRESHOLD, MOST_THRESHOLD);
        self.round = Some(Round { started: now, packets: 0 });
    }

    fn delay(&self) -> Duration {
        Duration::from_nanos((self.smoothed_rtt / 4).clamp(LEAST_DELAY, MOST_DELAY))
    }

    /// Whether an acknowledgement is due now.
    pub(crate) fn due(&self, now: Instant) -> bool {
        match self.due {
            Due::Never => false,
            Due::At(at) => at <= now,
            Due::Now => true,
        }
    }

    /// When a delayed acknowledgement will be due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.due {
            Due::At(at) => Some(at),
            Due::Never | Due::Now => None,
        }
    }

    /// Whether a packet waits for its acknowledgement, due or not: other content may carry it.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// An acknowledgement of all received packets was sent.
    pub(crate) fn on_ack_sent(&mut self) {
        self.due = Due::Never;
        self.waiting = 0;
    }

    /// Packets after which an acknowledgement is due.
    #[cfg(test)]
    pub(crate) fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Sets the smoothed RTT of the path.
    pub(crate) fn set_rtt(&mut self, smoothed_rtt: Duration) {
        self.smoothed_rtt = u64::try_from(smoothed_rtt.as_nanos()).unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// A policy that has seen its first packet at 0 ms.
    fn running() -> AckPolicy {
        let mut policy = AckPolicy::default();
        policy.on_packet(at(0), Arrival::InOrder, Demand::Normal, 1200);
        assert!(policy.due(at(0)), "the first packet is acknowledged at once");
        policy.on_ack_sent();
        policy
    }

    #[test]
    fn every_second_packet_is_acknowledged_at_first() {
        let mut policy = running();
        policy.on_packet(at(1), Arrival::InOrder, Demand::Normal, 1200);
        assert!(!policy.due(at(1)));
        policy.on_packet(at(1), Arrival::InOrder, Demand::Normal, 1200);
        assert!(policy.due(at(1)));
    }

    #[test]
    fn a_lone_packet_waits_for_a_quarter_of_the_round_trip() {
        let mut policy = running();
        policy.set_rtt(Duration::from_millis(40));
        policy.on_packet(at(1), Arrival::InOrder, Demand::Normal, 1200);
        assert_eq!(policy.deadline(), Some(at(11)));
        assert!(!policy.due(at(10)) && policy.due(at(11)));
        policy.on_ack_sent();
        assert_eq!(policy.deadline(), None);
    }

    #[test]
    fn urgent_events_are_acknowledged_at_once() {
        let urgent = [
            (Arrival::OpensGap, Demand::Normal, 1),
            (Arrival::Late, Demand::Normal, 1),
            (Arrival::InOrder, Demand::Immediate, 1),
            (Arrival::InOrder, Demand::Normal, 101),
        ];
        for (arrival, demand, millis) in urgent {
            let mut policy = running();
            policy.on_packet(at(millis), arrival, demand, 1200);
            assert!(policy.due(at(millis)), "{arrival:?} {demand:?}");
        }
    }

    #[test]
    fn packets_that_are_not_ack_eliciting_are_never_answered() {
        let mut policy = running();
        for _ in 0..100 {
            policy.on_packet(at(200), Arrival::OpensGap, Demand::None, 1200);
        }
        assert!(!policy.due(at(1_000)) && policy.deadline().is_none());
    }

    #[test]
    fn the_threshold_follows_the_rate_but_not_after_a_gap() {
        let mut policy = running();
        policy.set_rtt(Duration::from_millis(20));
        for millis in 1..100 {
            for _ in 0..20 {
                policy.on_packet(at(millis), Arrival::InOrder, Demand::Normal, 1200);
            }
        }
        assert!((45..=55).contains(&policy.threshold()), "{}", policy.threshold());
        policy.on_packet(at(100), Arrival::OpensGap, Demand::Normal, 1200);
        policy.on_ack_sent();
        policy.on_packet(at(100), Arrival::InOrder, Demand::Normal, 1200);
        policy.on_packet(at(100), Arrival::InOrder, Demand::Normal, 1200);
        assert!(policy.due(at(100)));
    }

    #[test]
    fn large_packets_are_acknowledged_by_their_bytes() {
        let mut policy = running();
        policy.on_packet(at(1), Arrival::InOrder, Demand::Normal, 8972);
        assert!(policy.due(at(1)), "six packets of Ethernet");
        let mut policy = running();
        for millis in 1..1_000 {
            for _ in 0..40 {
                policy.on_packet(at(millis), Arrival::InOrder, Demand::Normal, 8972);
            }
        }
        policy.on_ack_sent();
        let mut waiting = 0;
        while !policy.due(at(1_000)) {
            policy.on_packet(at(1_000), Arrival::InOrder, Demand::Normal, 8972);
            waiting += 8972;
        }
        assert!((64_000..=100_000).contains(&waiting), "{waiting}");
    }

    #[test]
    fn the_threshold_has_bounds() {
        let mut policy = running();
        for millis in 1..1_000 {
            for _ in 0..200 {
                policy.on_packet(at(millis), Arrival::InOrder, Demand::Normal, 1200);
            }
        }
        assert_eq!(policy.threshold(), MOST_THRESHOLD);
        for second in 1..10 {
            policy.on_packet(at(second * 2_000), Arrival::InOrder, Demand::Normal, 1200);
        }
        assert_eq!(policy.threshold(), LEAST_THRESHOLD);
    }
}
