//! Formats numbers for people.

use crate::measures::Spread;

/// No value.
pub(super) const NOTHING: &str = "";
/// An event that did not happen.
pub(super) const NEVER: &str = "never";

/// A number of Mbit/s, with the significant digits.
pub(super) fn megabits(value: f64) -> String {
    if value >= 10.0 { format!("{value:.1}") } else { format!("{value:.2}") }
}

/// Seconds, in milliseconds below one.
pub(super) fn seconds(value: f64) -> String {
    if value.is_infinite() {
        NEVER.to_owned()
    } else if value >= 1.0 {
        format!("{value:.2} s")
    } else {
        format!("{:.0} ms", value * 1e3)
    }
}

/// Milliseconds with one digit behind the point.
pub(super) fn milliseconds(seconds: f64) -> String {
    if seconds.is_infinite() { NEVER.to_owned() } else { format!("{:.1} ms", seconds * 1e3) }
}

/// The median of all repetitions, or nothing.
pub(super) fn of(spread: Option<Spread>, write: impl Fn(f64) -> String) -> String {
    spread.map_or_else(|| NOTHING.to_owned(), |spread| write(spread.median))
}

/// From the least to the greatest value, or nothing for a single run.
pub(super) fn range(spread: Option<Spread>, write: impl Fn(f64) -> String) -> String {
    match spread {
        Some(spread) if spread.count > 1 => format!("{}–{}", write(spread.least), write(spread.most)),
        Some(_) | None => NOTHING.to_owned(),
    }
}
