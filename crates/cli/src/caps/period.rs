//! From one reset day to the next, by the local calendar.

use jiff::civil::Date;
use jiff::{ToSpan as _, Zoned};

use super::rule::ResetDay;

/// The days to which a cap applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// The first of them.
    pub start: Date,
    /// The first day of the next period.
    pub end: Date,
}

impl Period {
    /// The period of a day.
    pub fn of(day: Date, reset: ResetDay) -> Self {
        let this = reset_in(day, reset);
        if day >= this {
            Self { start: this, end: reset_in(month_after(day, 1), reset) }
        } else {
            Self { start: reset_in(month_after(day, -1), reset), end: this }
        }
    }
}

/// The current date by the clock and the time zone (`TZ`, `/etc/localtime`) of this computer.
pub fn today() -> Date {
    Zoned::now().date()
}

/// The reset day of the month of `day`.
fn reset_in(day: Date, reset: ResetDay) -> Date {
    let last = day.last_of_month();
    let wanted = i8::try_from(reset.get()).unwrap_or(i8::MAX);
    if wanted >= last.day() { last } else { day.first_of_month().saturating_add((wanted - 1).days()) }
}

fn month_after(day: Date, months: i32) -> Date {
    day.first_of_month().saturating_add(months.months())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(day: &str, reset: u8) -> (String, String) {
        let period = Period::of(day.parse().unwrap(), reset.try_into().unwrap());
        (period.start.to_string(), period.end.to_string())
    }

    #[test]
    fn a_period_goes_from_one_reset_day_to_the_next() {
        for (day, reset, start, end) in [
            ("2026-11-22", 1, "2026-11-01", "2026-12-01"),
            ("2026-12-31", 1, "2026-12-01", "2027-01-01"),
            ("2026-11-22", 22, "2026-11-22", "2026-12-22"),
            ("2026-11-22", 23, "2026-10-23", "2026-11-23"),
            ("2026-01-05", 15, "2025-12-15", "2026-01-15"),
        ] {
            assert_eq!(period(day, reset), (start.to_owned(), end.to_owned()), "{day} {reset}");
        }
    }

    #[test]
    fn a_month_without_the_day_is_reset_on_its_last() {
        for (day, reset, start, end) in [
            ("2026-02-27", 31, "2026-01-31", "2026-02-28"),
            ("2026-02-28", 31, "2026-02-28", "2026-03-31"),
            ("2028-02-28", 30, "2028-01-30", "2028-02-29"),
            ("2028-02-29", 30, "2028-02-29", "2028-03-30"),
            ("2026-04-30", 31, "2026-04-30", "2026-05-31"),
            ("2100-02-28", 29, "2100-02-28", "2100-03-29"),
        ] {
            assert_eq!(period(day, reset), (start.to_owned(), end.to_owned()), "{day} {reset}");
        }
    }

    #[test]
    fn every_day_of_eight_years_is_in_its_period_and_periods_follow_each_other() {
        let first: Date = "2023-12-15".parse().unwrap();
        for reset in 1..=31 {
            let reset = ResetDay::try_from(reset).unwrap();
            let mut before = Period::of(first, reset);
            for days in 0..3000 {
                let day = first.saturating_add(days.days());
                let period = Period::of(day, reset);
                assert!(period.start <= day && day < period.end, "{day} {reset:?} {period:?}");
                assert!(period == before || period.start == before.end, "{day} {reset:?}");
                before = period;
            }
        }
    }

    /// The reset is at midnight in the user's time zone, not in UTC.
    #[test]
    fn the_day_follows_the_time_zone() {
        let day = |zone: &str| {
            let moment: jiff::Timestamp = "2026-11-30T23:30:00Z".parse().unwrap();
            moment.to_zoned(jiff::tz::TimeZone::posix(zone).unwrap()).date().to_string()
        };
        assert_eq!(
            (day("CET-1"), day("UTC0"), day("EST5")),
            ("2026-12-01".to_owned(), "2026-11-30".to_owned(), "2026-11-30".to_owned())
        );
    }
}
