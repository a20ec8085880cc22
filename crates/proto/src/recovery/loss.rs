//! Lost, or ask again at `t`: the question as a pure function (RFC 9002, section 6.1).

use std::time::Duration;

use crate::Instant;

/// How much reordering is borne before a packet counts as lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// Lost when a packet so many numbers later has arrived.
    pub(crate) packets: u64,
    /// Lost when so much time has passed since it was sent and a later packet has arrived.
    pub(crate) time: Duration,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is lost.
    Lost,
    /// Time has to tell: lost at this moment, if it has not arrived by then.
    AskAgain(Instant),
    /// Nothing later has arrived, so nothing can be said.
    Unknown,
}

/// Judges a packet that has not been acknowledged.
///
/// For packets sent in order the verdicts are ordered too: nothing before a lost packet is not lost.
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
    Verdict::AskAgain(lost_at)
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
        assert_eq!(judge(8, at(0), Some(10), at(1), THRESHOLDS), Verdict::AskAgain(at(90)));
        assert_eq!(judge(8, at(0), Some(10), at(90), THRESHOLDS), Verdict::Lost);
        assert_eq!(judge(11, at(0), Some(10), at(9000), THRESHOLDS), Verdict::Unknown);
        assert_eq!(judge(0, at(0), None, at(9000), THRESHOLDS), Verdict::Unknown);
    }

    proptest! {
        #[test]
        fn asking_again_at_the_given_time_gives_lost(
            sent in 0u64..1000, number in 0u64..20, largest in 0u64..20, now in 0u64..2000
        ) {
            if let Verdict::AskAgain(t) = judge(number, at(sent), Some(largest), at(now), THRESHOLDS) {
                prop_assert!(t > at(now));
                prop_assert_eq!(judge(number, at(sent), Some(largest), t, THRESHOLDS), Verdict::Lost);
            }
        }

        #[test]
        fn nothing_before_a_lost_packet_is_not_lost(
            sent in 0u64..1000, gap in 0u64..100, number in 1u64..20, largest in 0u64..30, now in 0u64..2000
        ) {
            if judge(number, at(sent + gap), Some(largest), at(now), THRESHOLDS) == Verdict::Lost {
                prop_assert_eq!(judge(number - 1, at(sent), Some(largest), at(now), THRESHOLDS), Verdict::Lost);
            }
        }
    }
}
