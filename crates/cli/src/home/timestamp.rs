//! Points in time, in the form of files and people.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Whole seconds since 1970 in UTC, printed as `2026-12-20T15:00:00Z` (RFC 3339).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(u64);

const DAY: u64 = 86_400;
/// The first second of the year 10000, which has no text form.
const END: u64 = 253_402_300_800;

impl Timestamp {
    /// The current time of the system's clock.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(since.as_secs().min(END - 1))
    }

    /// This much later; at most the end of the year 9999.
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time.as_secs()).min(END - 1))
    }

    /// Whether it is in the past.
    pub fn is_past(self) -> bool {
        Self::now() >= self
    }
}

/// Year, month and day of a day since 1970, by the proleptic Gregorian calendar: every era of 400 years has 146 097
/// days, counted from the first of March so that the leap day is the last of its year.
fn date(day: u64) -> (u64, u64, u64) {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// The day since 1970 of a date; `None` if there is no such date from 1970 to 9999.
fn day_of(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) {
        return None;
    }
    // A search from a guess needs no second formula that has to agree with the first.
    let guess = (year - 1970) * 365 + (year - 1969) / 4;
    let first = guess.saturating_sub(100);
    (first..guess + 370).find(|candidate| date(*candidate) == (year, month, day))
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.0 / DAY);
        let second = self.0 % DAY;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

impl FromStr for Timestamp {
    type Err = String;

    /// Accepts a date alone too, which means its first second.
    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| {
            format!("{text:?} is no time; write it like 2026-12-20 or 2026-12-20T15:00:00Z, in UTC")
        })
    }
}

fn parse(text: &str) -> Option<Timestamp> {
    let (date, time) = text.split_once('T').unwrap_or((text, "00:00:00Z"));
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time.strip_suffix('Z')?, ':', [2, 2, 2])?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(Timestamp(day_of(year, month, day)? * DAY + hour * 3600 + minute * 60 + second))
}

fn numbers(text: &str, separator: char, widths: [usize; 3]) -> Option<[u64; 3]> {
    let mut parts = text.split(separator);
    let mut found = [0; 3];
    for (slot, width) in found.iter_mut().zip(widths) {
        let part = parts.next().filter(|p| p.len() == width && p.bytes().all(|b| b.is_ascii_digit()))?;
        *slot = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
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
            (END - 1, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(Timestamp(seconds).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp(seconds)));
        }
        assert_eq!("2026-12-20".parse::<Timestamp>().unwrap().to_string(), "2026-12-20T00:00:00Z");
    }

    #[test]
    fn every_day_is_read_as_it_is_printed() {
        for day in (0..END / DAY).step_by(97) {
            let time = Timestamp(day * DAY + 3_723);
            assert_eq!(time.to_string().parse(), Ok(time));
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
            "2026-01-01T00:00:00+01:00",
            "2026-01-01-01",
            "+026-01-01",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_representable_time_is_not_exceeded() {
        assert_eq!(Timestamp::now().after(Duration::MAX), Timestamp(END - 1));
        assert!(Timestamp(0).is_past() && !Timestamp::now().after(Duration::from_secs(60)).is_past());
    }
}
