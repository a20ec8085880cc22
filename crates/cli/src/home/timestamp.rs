//! Points in time, in the form of files and people.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;

/// Whole seconds since 1970 in UTC, printed as `2026-12-20T15:00:00Z` (RFC 3339).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// The current time of the system's clock.
    pub fn now() -> Self {
        Self::in_whole_seconds(jiff::Timestamp::now())
    }

    /// This much later; at most the end of the year 9999.
    pub fn after(self, time: Duration) -> Self {
        Self::in_whole_seconds(self.0.saturating_add(time).unwrap_or(jiff::Timestamp::MAX))
    }

    /// Whether it is in the past.
    pub fn is_past(self) -> bool {
        Self::now() >= self
    }

    /// Cuts off the fraction; before 1970 it is 1970.
    fn in_whole_seconds(time: jiff::Timestamp) -> Self {
        Self(jiff::Timestamp::from_second(time.as_second().max(0)).unwrap_or_default())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Timestamp {
    type Err = String;

    /// Accepts a date alone too, which means its first second.
    fn from_str(text: &str) -> Result<Self, String> {
        let time = parse(text).filter(|time| time.as_second() >= 0);
        time.map(Self::in_whole_seconds).ok_or_else(|| {
            format!("{text:?} is no time; write it like 2026-12-20 or 2026-12-20T15:00:00Z, in UTC")
        })
    }
}

fn parse(text: &str) -> Option<jiff::Timestamp> {
    // A date with a time of no zone would be read as the date.
    if text.len() == "2026-12-20".len() {
        return Some(text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp());
    }
    text.parse().ok()
}

super::text::serde_by_text!(Timestamp);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_printed() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_799, "2024-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            let time = Timestamp(jiff::Timestamp::from_second(seconds).unwrap());
            assert_eq!(time.to_string(), text);
            assert_eq!(text.parse(), Ok(time));
        }
        for (text, printed) in
            [("2026-12-20", "2026-12-20T00:00:00Z"), ("2026-12-20T15:00:00.5+01:00", "2026-12-20T14:00:00Z")]
        {
            assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), printed);
        }
    }

    #[test]
    fn an_invalid_time_is_refused() {
        for text in [
            "",
            "tomorrow",
            "2026-13-01",
            "2026-02-30",
            "1969-12-31",
            "2026-1-1",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01-01",
            "+026-01-01",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_representable_time_is_not_exceeded() {
        let last = Timestamp::now().after(Duration::MAX);
        assert_eq!(last.to_string().parse(), Ok(last));
        assert!(last.to_string().starts_with("9999-12-"), "{last}");
        let begin: Timestamp = "1970-01-01".parse().unwrap();
        assert!(begin.is_past() && !Timestamp::now().after(Duration::from_secs(60)).is_past());
    }
}
