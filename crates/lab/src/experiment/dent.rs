//! How many bytes a dent in the throughput costs.

use std::time::Duration;

use crate::measures::count;
use crate::outcome::Arrivals;

/// By how many bytes several arrivals together are further behind after an event than before it, if their rate is the same
/// for a time `steady` before it, and again for as long from that time after it.
///
/// Lines with one slope are fitted to all bytes so far, since packets come in bursts.
pub(super) fn dent(arrivals: &[&Arrivals], at: Duration, steady: Duration) -> f64 {
    let place =
        |at: Duration| usize::try_from(at.as_nanos() / Arrivals::BIN.as_nanos()).unwrap_or(usize::MAX);
    let bytes = |bin: usize| count(arrivals.iter().filter_map(|one| one.bins().get(bin)).sum());
    let mut so_far = 0.0;
    let points: Vec<(f64, f64)> = (0..place(at + steady * 2))
        .map(|bin| {
            so_far += bytes(bin);
            (count(u64::try_from(bin).unwrap_or(u64::MAX)), so_far)
        })
        .collect();
    let fit = |from, to| Fit::of(points.get(place(from)..place(to)).unwrap_or_default());
    let (before, after) = (fit(at.saturating_sub(steady), at), fit(at + steady, at + steady * 2));
    let rate = (before.covariance + after.covariance) / (before.variance + after.variance);
    before.mean.1 + rate * (after.mean.0 - before.mean.0) - after.mean.1
}

/// What a line through points needs.
struct Fit {
    mean: (f64, f64),
    variance: f64,
    covariance: f64,
}

impl Fit {
    fn of(points: &[(f64, f64)]) -> Self {
        let number = count(u64::try_from(points.len()).unwrap_or(u64::MAX)).max(1.0);
        let mean_of = |part: fn(&(f64, f64)) -> f64| points.iter().map(part).sum::<f64>() / number;
        let mean = (mean_of(|point| point.0), mean_of(|point| point.1));
        let sum = |part: fn(f64, f64) -> f64| -> f64 {
            points.iter().map(|(x, y)| part(x - mean.0, y - mean.1)).sum()
        };
        Self { mean, variance: sum(|x, _| x * x), covariance: sum(|x, y| x * y) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_did_not_come_for_a_while_are_missing_whatever_the_bursts() {
        let mut arrivals = Arrivals::default();
        for burst in 0..400_u32 {
            // A half of five bursts is missing.
            let bytes = if (200..205).contains(&burst) { 500 } else { 1000 };
            arrivals.record(Duration::from_millis(70) * burst, bytes);
        }
        let missing = dent(&[&arrivals], Duration::from_secs(14), Duration::from_secs(4));
        assert!((missing - 2500.0).abs() < 50.0, "{missing}");
    }
}
