//! The figures of a path's delays, and whether those of two paths are alike (RFC 8382, sections 3.2 and 3.3).

use super::history::{DelayHistory, Interval, LATELY, REMEMBERED};

/// Least number of intervals, of those lately, that say anything.
pub(super) const FEWEST: usize = 20;
/// Parts are in thousandths.
const WHOLE: i64 = 1000;
/// `c_s`: a path whose skewness is below has a full queue often.
const CONGESTED: i64 = 100;
/// `c_h`: the same, for one that had.
const STILL_CONGESTED: i64 = 300;
/// `p_l`: so much loss is a sign of congestion by itself.
const LOSSY: i64 = 50;
/// `p_s`: skewnesses differ by no more.
const SKEWNESS_APART: u64 = 150;
/// `p_f`: frequencies differ by no more.
const FREQUENCY_APART: u64 = 100;
/// `p_mad` and `p_d`: deviations and losses differ by no more than this part of the larger one.
const PART_APART: i64 = 100;
/// `p_v`: a crossing of the mean counts if it goes so far beyond, as a part of the deviation.
const CROSSING: i64 = 700;

/// The figures of one path; parts in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Summary {
    /// `skew_est`: how much more often the delay is below its mean than above, from -1000 to 1000.
    pub(super) skewness: i64,
    /// `var_est`: mean absolute deviation in µs.
    pub(super) deviation: i64,
    /// `freq_est`: how often the delay crosses its mean, for each interval.
    pub(super) frequency: i64,
    /// `pkt_loss`.
    pub(super) loss: i64,
}

impl Summary {
    /// Of the intervals before `now`; `None` if there are too few.
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

    /// Section 3.3.1, step 1: whether there is a queue that is often full.
    fn is_congested(&self, was: bool) -> bool {
        self.skewness < if was { STILL_CONGESTED } else { CONGESTED } || self.loss > LOSSY
    }

    /// Section 3.3.1: whether two paths belong to one group; `were` says whether they did before.
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

/// How often the means go from one side of their mean to the other, beyond `margin` µs, for each interval.
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
