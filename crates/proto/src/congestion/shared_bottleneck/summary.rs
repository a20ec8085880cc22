//! Statistics of a path's delays, and whether those of two paths are similar (RFC 8382, sections 3.2 and 3.3).

use super::history::{DelayHistory, Interval, LATELY, REMEMBERED};

/// Fewest recent intervals that suffice.
pub(super) const FEWEST: usize = 20;
/// Parts are in thousandths.
const WHOLE: i64 = 1000;
/// `c_s`: a path with a lower skewness often has a full queue.
const CONGESTED: i64 = 100;
/// `c_h`: the same, for a path that had one.
const STILL_CONGESTED: i64 = 300;
/// `p_l`: this much loss is a sign of congestion by itself.
const LOSSY: i64 = 50;
/// `p_s`: largest difference of skewness.
const SKEWNESS_APART: u64 = 150;
/// `p_f`: largest difference of frequency.
const FREQUENCY_APART: u64 = 100;
/// `p_mad` and `p_d`: largest difference of deviation and loss, as a part of the larger one.
const PART_APART: i64 = 100;
/// `p_v`: a crossing of the mean counts if it exceeds this part of the deviation.
const CROSSING: i64 = 700;

/// Statistics of one path; parts in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Summary {
    /// `skew_est`: how much more often the delay is below its mean than above, from -1000 to 1000.
    pub(super) skewness: i64,
    /// `var_est`: mean absolute deviation in µs.
    pub(super) deviation: i64,
    /// `freq_est`: crossings of the mean delay per interval.
    pub(super) frequency: i64,
    /// `pkt_loss`.
    pub(super) loss: i64,
}

impl Summary {
    /// Statistics of the intervals before `now`; `None` if there are too few.
    pub(super) fn of(history: &DelayHistory, now: u32) -> Option<Self> {
        let lately = || history.last(now, LATELY);
        if lately().count() < FEWEST {
            return None;
        }
        let sum = |value: fn(&Interval) -> i64| lately().map(value).sum::<i64>();
        let samples = sum(|interval| interval.samples.into()).max(1);
        let deviation = sum(|interval| interval.deviation.into()) / samples;
        let all = || history.last(now, REMEMBERED);
        let lost: i64 = all().map(|interval| i64::from(interval.lost)).sum();
        let arrived: i64 = all().map(|interval| i64::from(interval.arrived)).sum();
        Some(Self {
            skewness: sum(|interval| interval.skew.into()) * WHOLE / samples,
            deviation,
            frequency: crossings(all, deviation * CROSSING / WHOLE),
            loss: lost * WHOLE / (arrived + lost).max(1),
        })
    }

    /// Section 3.3.1, step 1: whether the queue is often full.
    fn is_congested(&self, was: bool) -> bool {
        self.skewness < if was { STILL_CONGESTED } else { CONGESTED } || self.loss > LOSSY
    }

    /// Section 3.3.1: whether two paths belong to one group; `were` tells whether they did before.
    pub(super) fn is_like(&self, other: &Self, were: bool) -> bool {
        let part_apart = |a: i64, b: i64| a.abs_diff(b) * 1000 > (a.max(b) * PART_APART).unsigned_abs();
        let lossy = self.loss.max(other.loss) > LOSSY;
        self.is_congested(were)
            && other.is_congested(were)
            && self.frequency.abs_diff(other.frequency) <= FREQUENCY_APART
            && self.skewness.abs_diff(other.skewness) <= SKEWNESS_APART
            && !part_apart(self.deviation, other.deviation)
            && !(lossy && part_apart(self.loss, other.loss))
    }
}

/// How often the interval means cross their mean by more than `margin` µs, per interval.
fn crossings<'a, I: Iterator<Item = &'a Interval>>(intervals: impl Fn() -> I, margin: i64) -> i64 {
    let count = i64::try_from(intervals().count()).unwrap_or(i64::MAX).max(1);
    let mean = intervals().map(|interval| i64::from(interval.mean)).sum::<i64>() / count;
    let sides =
        intervals().map(|interval| i64::from(interval.mean) - mean).filter(|apart| apart.abs() > margin);
    let mut side = 0;
    let mut crossings = 0;
    for apart in sides {
        crossings += i64::from(side == -apart.signum());
        side = apart.signum();
    }
    crossings * WHOLE / count
}

#[cfg(test)]
mod tests {
    use super::Summary;

    /// A queue that is often full, without losses.
    const FULL: Summary = Summary { skewness: 0, deviation: 1000, frequency: 500, loss: 0 };
    /// A path that shows congestion only by its losses.
    const LOSSY: Summary = Summary { skewness: 1000, loss: 100, ..FULL };

    const fn skewed(skewness: i64) -> Summary {
        Summary { skewness, ..FULL }
    }

    const fn varying(deviation: i64) -> Summary {
        Summary { deviation, ..FULL }
    }

    const fn crossing(frequency: i64) -> Summary {
        Summary { frequency, ..FULL }
    }

    const fn losing(loss: i64) -> Summary {
        Summary { loss, ..LOSSY }
    }

    // RFC 8382, 3.3.1, with the values of 2.3
    #[test]
    fn two_paths_are_alike_up_to_each_threshold_and_not_beyond() {
        for (threshold, were, within, beyond) in [
            ("c_s", false, (skewed(99), skewed(0)), (skewed(100), skewed(0))),
            ("c_h", true, (skewed(299), skewed(299)), (skewed(300), skewed(299))),
            // The higher threshold applies only to paths that belonged together before.
            ("c_h before", true, (skewed(100), skewed(0)), (skewed(300), skewed(200))),
            ("p_l", false, (losing(51), losing(51)), (losing(50), losing(51))),
            ("p_s", false, (skewed(-60), skewed(90)), (skewed(-61), skewed(90))),
            ("p_f", false, (crossing(500), crossing(600)), (crossing(500), crossing(601))),
            ("p_mad", false, (varying(900), varying(1000)), (varying(899), varying(1000))),
            ("p_d", false, (losing(90), losing(100)), (losing(89), losing(100))),
        ] {
            let (a, b) = within;
            assert!(a.is_like(&b, were) && b.is_like(&a, were), "{threshold}: {within:?}");
            let (a, b) = beyond;
            assert!(!a.is_like(&b, were) && !b.is_like(&a, were), "{threshold}: {beyond:?}");
        }
    }

    // RFC 8382, 3.3.1: losses are compared only if one of them shows congestion
    #[test]
    fn losses_are_compared_only_if_one_exceeds_its_threshold() {
        let full = |loss| Summary { loss, ..FULL };
        assert!(full(50).is_like(&full(0), false));
        assert!(!full(51).is_like(&full(0), false));
        assert!(full(51).is_like(&full(46), false) && !full(51).is_like(&full(45), false));
    }
}
