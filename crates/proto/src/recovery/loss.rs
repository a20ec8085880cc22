//! Loss detection as a pure function: a packet is lost, or has to be checked again at `t` (RFC 9002, section 6.1).

use std::time::Duration;

use crate::Instant;

/// How much reordering is tolerated before a packet counts as lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// A packet is lost when one this many numbers later has arrived.
    pub(crate) packets: u64,
    /// A packet is lost this long after it was sent, if a later packet has arrived.
    pub(crate) time: Duration,
}

/// The result for one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The packet is lost.
    Lost,
    /// The packet is lost at this instant unless it arrives before.
    DecideAt(Instant),
    /// No later packet has arrived, so nothing is known.
    Unknown,
}

/// Judges a packet that has not been acknowledged.
///
/// For packets in the order of sending the verdicts are ordered too: every packet before a lost one is lost.
pub(crate) fn judge(
    packet_number: u64,
    time_sent: Instant,
    largest_acked: Option<u64>,
    now: Instant,
    thresholds: Thresholds,
) -> Verdict {
    let Some(distance) = largest_acked.and_then(|largest| largest.checked_sub(packet_number)) else {
        return Verdict::Unknown;
    };
    let lost_at = time_sent + thresholds.time;
    if distance >= thresholds.packets || now >= lost_at {
        return Verdict::Lost;
    }
    Verdict::DecideAt(lost_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const THRESHOLDS: Thresholds = Thresholds { packets: 3, time: Duration::from_nanos(90) };

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn a_packet_is_lost_by_distance_or_by_time_but_never_without_a_later_arrival() {
        assert_eq!(judge(7, at(0), Some(10), at(1), THRESHOLDS), Verdict::Lost);
        assert_eq!(judge(8, at(0), Some(10), at(1), THRESHOLDS), Verdict::DecideAt(at(90)));
        assert_eq!(judge(8, at(0), Some(10), at(90), THRESHOLDS), Verdict::Lost);
        assert_eq!(judge(11, at(0), Some(10), at(9000), THRESHOLDS), Verdict::Unknown);
        assert_eq!(judge(0, at(0), None, at(9000), THRESHOLDS), Verdict::Unknown);
    }

    proptest! {
        #[test]
        fn the_packet_is_lost_at_the_time_given_for_the_next_check(
            sent in 0u64..1000, number in 0u64..20, largest in 0u64..20, now in 0u64..2000
        ) {
            if let Verdict::DecideAt(t) = judge(number, at(sent), Some(largest), at(now), THRESHOLDS) {
                prop_assert!(t > at(now));
                prop_assert_eq!(judge(number, at(sent), Some(largest), t, THRESHOLDS), Verdict::Lost);
            }
        }

        #[test]
        fn every_packet_before_a_lost_one_is_lost(
            sent in 0u64..1000, gap in 0u64..100, number in 1u64..20, largest in 0u64..30, now in 0u64..2000
        ) {
            if judge(number, at(sent + gap), Some(largest), at(now), THRESHOLDS) == Verdict::Lost {
                prop_assert_eq!(judge(number - 1, at(sent), Some(largest), at(now), THRESHOLDS), Verdict::Lost);
            }
        }
    }
}
