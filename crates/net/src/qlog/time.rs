//! The time of day as text.

use std::time::{SystemTime, UNIX_EPOCH};

/// The moment as in RFC 3339, in UTC, to the ms; `None` before 1970.
pub(super) fn rfc_3339(moment: SystemTime) -> Option<String> {
    let since = moment.duration_since(UNIX_EPOCH).ok()?;
    let seconds = since.as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let millis = since.subsec_millis();
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"))
}

/// Year, month and day of a day since 1970, in the Gregorian calendar. Years are counted from March, so that the leap
/// day is the last of its year; 400 of them have the same number of days.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    /// From March 1st of the year 0 to the start of 1970.
    const BEFORE_1970: u64 = 719_468;
    let days = days + BEFORE_1970;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    // The months from March on repeat a pattern of 153 days in 5 months.
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next_year, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn known_moments_read_as_they_should() {
        let cases = [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_868_799, "2000-02-29T23:59:59.007Z"),
            (1_709_164_800, "2024-02-29T00:00:00.007Z"),
            (1_735_689_599, "2024-12-31T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ];
        for (seconds, text) in cases {
            let moment = UNIX_EPOCH + Duration::new(seconds, 7_000_000);
            assert_eq!(rfc_3339(moment).as_deref(), Some(text));
        }
    }
}
