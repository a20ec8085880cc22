//! A calendar day, for users.

use std::fmt;

/// A day of the Gregorian calendar, printed as `2026-12-01` (RFC 3339).
///
/// ```
/// # use manyway_units::Date;
/// assert_eq!(Date { year: 2026, month: 12, day: 1 }.to_string(), "2026-12-01");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// The year, such as 2026.
    pub year: i16,
    /// The month, 1 to 12.
    pub month: u8,
    /// The day of the month, 1 to 31.
    pub day: u8,
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day } = self;
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}
