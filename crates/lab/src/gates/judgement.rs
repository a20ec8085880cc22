//! Judges whether a figure reaches its goal, misses it, or lies too near to tell.

use serde::Serialize;

use crate::measures::Spread;

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub enum Judgement {
    /// The median reaches the limit.
    Reached,
    /// The median misses the limit, but the quartiles of both sides overlap: it may be chance. Counts as passed.
    WithinSpread {
        /// How much the median lacks, as a share of the limit.
        lacks: f64,
    },
    /// It falls short.
    Short {
        /// How much the median lacks, as a share of the limit; infinite if it never happened.
        lacks: f64,
    },
}

impl Judgement {
    /// The same where the spread is no excuse.
    #[must_use]
    pub const fn by_the_median(self) -> Self {
        match self {
            Self::WithinSpread { lacks } => Self::Short { lacks },
            Self::Reached | Self::Short { .. } => self,
        }
    }

    /// Whether the gate stands.
    pub const fn has_passed(self) -> bool {
        matches!(self, Self::Reached | Self::WithinSpread { .. })
    }
}

/// Judges a figure that should be at least `factor` times the reference.
///
/// It falls short only outside the spread: if its upper quartile is below `factor` times the lower quartile of the
/// reference.
///
/// ```
/// use manyway_lab::gates::{Judgement, at_least};
/// use manyway_lab::measures::Spread;
/// let spread = |values: [f64; 3]| Spread::of(values).unwrap();
/// let reference = spread([100.0, 100.0, 100.0]);
/// assert_eq!(at_least(spread([95.0, 95.0, 95.0]), 0.95, reference), Judgement::Reached);
/// assert!(!at_least(spread([90.0, 90.0, 90.0]), 0.95, reference).has_passed());
/// ```
pub fn at_least(subject: Spread, factor: f64, reference: Spread) -> Judgement {
    let limit = reference.median * factor;
    if reaches(subject.median, limit) {
        return Judgement::Reached;
    }
    let lacks = (limit - subject.median) / limit;
    if reaches(subject.upper, reference.lower * factor) {
        Judgement::WithinSpread { lacks }
    } else {
        Judgement::Short { lacks }
    }
}

/// Judges a figure that should be at most `limit`. It falls short only outside the spread: if its lower quartile is
/// above.
pub fn at_most(subject: Spread, limit: f64) -> Judgement {
    if reaches(limit, subject.median) {
        return Judgement::Reached;
    }
    let lacks = if limit > 0.0 { (subject.median - limit) / limit } else { f64::INFINITY };
    if reaches(limit, subject.lower) { Judgement::WithinSpread { lacks } } else { Judgement::Short { lacks } }
}

/// Whether a number is at least another, apart from rounding errors.
fn reaches(value: f64, limit: f64) -> bool {
    value >= limit || (limit.is_finite() && (value - limit).abs() <= limit.abs() * 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(values: &[f64]) -> Spread {
        Spread::of(values.iter().copied()).unwrap()
    }

    #[test]
    fn a_result_exactly_at_the_threshold_passes() {
        for reference in [0.1, 0.3, 7.0, 47.9, 1e3 / 3.0] {
            for factor in [0.95, 0.97, 1.0] {
                let subject = spread(&[reference * factor]);
                assert_eq!(
                    at_least(subject, factor, spread(&[reference])),
                    Judgement::Reached,
                    "{reference}"
                );
            }
            assert_eq!(at_most(spread(&[reference]), reference), Judgement::Reached);
        }
        assert_eq!(at_most(spread(&[0.0]), 0.0), Judgement::Reached);
    }

    #[test]
    fn a_shortfall_inside_the_spread_passes_and_says_how_much_it_lacks() {
        let reference = spread(&[96.0, 98.0, 100.0, 102.0, 104.0]);
        let subject = spread(&[90.0, 92.0, 94.0, 96.0, 98.0]);
        let Judgement::WithinSpread { lacks } = at_least(subject, 0.97, reference) else {
            panic!("judged wrongly")
        };
        assert!((lacks - 3.0 / 97.0).abs() < 1e-9, "{lacks}");
        assert!(matches!(
            at_most(spread(&[0.08, 0.09, 0.12, 0.13, 0.14]), 0.1),
            Judgement::WithinSpread { .. }
        ));
    }

    #[test]
    fn a_shortfall_outside_the_spread_fails_even_if_a_single_run_did_well() {
        let reference = spread(&[99.0, 100.0, 100.0, 100.0, 101.0]);
        let subject = spread(&[70.0, 71.0, 72.0, 73.0, 120.0]);
        assert!(!at_least(subject, 0.95, reference).has_passed());
        let Judgement::Short { lacks } = at_most(spread(&[0.2, 0.2, 0.2, 0.2, 0.01]), 0.1) else {
            panic!("judged wrongly")
        };
        assert!((lacks - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_missing_value_fails_and_one_above_a_zero_reference_passes() {
        assert!(!at_most(spread(&[f64::INFINITY; 3]), 2.0).has_passed());
        assert!(at_least(spread(&[0.0]), 0.95, spread(&[0.0])).has_passed());
    }
}
