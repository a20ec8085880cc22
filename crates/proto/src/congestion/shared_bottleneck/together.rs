//! Correlation of the delays of two paths.
//!
//! RFC 8382 compares statistics only, and those of two links of the same kind, filled by one sender, are the same.
//! The delays of one queue change by the same amount at the same time; those of two queues do not, even if both fill
//! and empty at the same pace.

use smallvec::SmallVec;

use super::history::{DelayHistory, LATELY};
use super::summary::FEWEST;

/// Correlations, in thousandths, of the changes of two paths from one interval to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupEvidence {
    /// Of the changes.
    pub(super) plain: i64,
    /// Of the changes limited to their mean size, so that two large ones do not coincide by chance.
    pub(super) cut: i64,
}

type Changes = SmallVec<[(i64, i64); 32]>;

impl GroupEvidence {
    /// The correlations over the intervals before `now`; `None` if there are too few, or the delay of a path never
    /// changed.
    pub(super) fn of(a: &DelayHistory, b: &DelayHistory, now: u32) -> Option<Self> {
        let changes = changes(a, b, now);
        if changes.len() + 1 < FEWEST {
            return None;
        }
        let count = i64::try_from(changes.len()).unwrap_or(i64::MAX);
        let mean = |size: fn(&(i64, i64)) -> i64| changes.iter().map(size).sum::<i64>() / count;
        let (most_a, most_b) = (mean(|change| change.0.abs()), mean(|change| change.1.abs()));
        let cut = changes.iter().map(|(a, b)| ((*a).clamp(-most_a, most_a), (*b).clamp(-most_b, most_b)));
        Some(Self { plain: correlation(&changes)?, cut: correlation(&cut.collect())? })
    }
}

/// The changes of the means of both paths from each interval to the next, in µs.
fn changes(a: &DelayHistory, b: &DelayHistory, now: u32) -> Changes {
    let mut others = b.last(now, LATELY).peekable();
    let mut before = None;
    let mut changes = Changes::new();
    for interval in a.last(now, LATELY) {
        while others.next_if(|other| other.number < interval.number).is_some() {}
        let Some(other) = others.next_if(|other| other.number == interval.number) else { continue };
        let means = (i64::from(interval.mean), i64::from(other.mean));
        if let Some((number, (a, b))) = before.filter(|(number, _)| number + 1 == interval.number) {
            let _: u32 = number;
            changes.push((means.0 - a, means.1 - b));
        }
        before = Some((interval.number, means));
    }
    changes
}

/// Pearson's correlation in thousandths; `None` if one side never varies.
fn correlation(pairs: &Changes) -> Option<i64> {
    let count = i128::try_from(pairs.len()).ok()?;
    let pairs = || pairs.iter().map(|(a, b)| (i128::from(*a), i128::from(*b)));
    let (sum_a, sum_b) = pairs().fold((0, 0), |sums, (a, b)| (sums.0 + a, sums.1 + b));
    // Multiplied by the square of the number, so that no mean is truncated. Changes have 33 bits, so that all
    // products fit.
    let spread = |product: fn((i128, i128)) -> i128, of_sums: i128| {
        count * pairs().map(product).sum::<i128>() - of_sums
    };
    let both = spread(|(a, b)| a * b, sum_a * sum_b);
    let (a, b) = (spread(|(a, _)| a * a, sum_a * sum_a), spread(|(_, b)| b * b, sum_b * sum_b));
    let scale = a.isqrt() * b.isqrt();
    (scale > 0).then(|| i64::try_from(both * 1000 / scale).unwrap_or_default())
}
