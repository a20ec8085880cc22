//! Statistics of repeated measurements.

use serde::Serialize;

/// The results of repeated runs: the median, and the spread of the others.
///
/// Infinity stands for what never happened, such as the recovery of a connection that stayed dead.
///
/// ```
/// use manyway_lab::measures::Spread;
/// let spread = Spread::of([3.0, 1.0, 2.0, 5.0, 4.0]).unwrap();
/// assert_eq!((spread.median, spread.least, spread.most), (3.0, 1.0, 5.0));
/// assert_eq!((spread.lower, spread.upper), (2.0, 4.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The value in the middle.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// The lower quartile: a quarter of the values lie below.
    pub lower: f64,
    /// The upper quartile: a quarter of the values lie above.
    pub upper: f64,
    /// How many there were.
    pub count: usize,
}

impl Spread {
    /// Summarises values; `None` if there are none. NaN values are left out.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
        values.sort_by(f64::total_cmp);
        Some(Self {
            median: quantile(&values, 2)?,
            least: *values.first()?,
            most: *values.last()?,
            lower: quantile(&values, 1)?,
            upper: quantile(&values, 3)?,
            count: values.len(),
        })
    }

    /// The same values with every one multiplied by a factor above zero.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            median: self.median * factor,
            least: self.least * factor,
            most: self.most * factor,
            lower: self.lower * factor,
            upper: self.upper * factor,
            count: self.count,
        }
    }
}

/// The value below which this many quarters of the sorted values lie, interpolated.
fn quantile(sorted: &[f64], quarters: usize) -> Option<f64> {
    let place = sorted.len().checked_sub(1)? * quarters;
    let below = *sorted.get(place / 4)?;
    let part = place % 4;
    if part == 0 {
        return Some(below);
    }
    let above = *sorted.get(place / 4 + 1)?;
    if above.is_infinite() {
        return Some(above);
    }
    let share = u32::try_from(part).map_or(0.0, f64::from) / 4.0;
    Some(below + (above - below) * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_two() {
        let spread = Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.median, spread.lower, spread.upper), (2.5, 1.75, 3.25));
    }

    #[test]
    fn one_value_is_its_own_spread_and_none_has_none() {
        let spread = Spread::of([7.0]).unwrap();
        assert_eq!((spread.lower, spread.median, spread.upper, spread.count), (7.0, 7.0, 7.0, 1));
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN]), None);
    }

    #[test]
    fn what_never_happened_is_worse_than_anything() {
        let spread = Spread::of([1.0, f64::INFINITY, f64::INFINITY]).unwrap();
        assert!(spread.median.is_infinite() && spread.upper.is_infinite());
        assert_eq!((spread.least, spread.count), (1.0, 3));
    }
}
