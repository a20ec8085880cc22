//! Rates, sizes, times and shares in the notation of users.

use std::fmt;
use std::time::Duration;

use crate::{ByteCount, Date, Rate};

/// Why a quantity was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitError {
    text: String,
    what: &'static str,
    example: &'static str,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not {}; write it like {}", self.text, self.what, self.example)
    }
}

impl std::error::Error for UnitError {}

/// Reads a rate in bits: `20Mbit`, `40M`, `1.5Gbit/s`, `800kbps`; k, M and G are powers of 1000.
///
/// # Errors
/// The text is not a number with one of these units, or too large.
///
/// ```
/// use manyway_units::text::parse_rate;
/// assert_eq!(parse_rate("20Mbit").unwrap().bits_per_second(), 20_000_000);
/// assert_eq!(parse_rate("1.5G").unwrap().bits_per_second(), 1_500_000_000);
/// assert!(parse_rate("20MB").is_err());
/// ```
pub fn parse_rate(text: &str) -> Result<Rate, UnitError> {
    let error = || UnitError { text: text.to_owned(), what: "a rate", example: "20Mbit or 1.5G" };
    let (number, unit) = split(text);
    let unit = unit.to_ascii_lowercase();
    let unit = unit.strip_suffix("/s").or_else(|| unit.strip_suffix("ps")).unwrap_or(&unit);
    let unit = match unit {
        "b" => "bit",
        "kb" | "mb" | "gb" if text.contains('B') => return Err(error()),
        "kb" => "kbit",
        "mb" => "mbit",
        "gb" => "gbit",
        unit => unit,
    };
    let factor = match unit {
        "" | "bit" => 1,
        "k" | "kbit" => 1_000,
        "m" | "mbit" => 1_000_000,
        "g" | "gbit" => 1_000_000_000,
        _ => return Err(error()),
    };
    scaled(number, factor).map(Rate::from_bits_per_second).ok_or_else(error)
}

/// Reads a size in bytes: `64MiB`, `40M` (the same as `40MiB`), `1.5GB` (powers of 1000), `4096`.
///
/// # Errors
/// The text is not a number with one of these units, or too large.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let error = || UnitError { text: text.to_owned(), what: "a size", example: "64MiB, 40M or 4096" };
    let (number, unit) = split(text);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(error()),
    };
    scaled(number, factor).ok_or_else(error)
}

/// Reads a time: `15ms`, `1.5s`, `250us`, `2m`, `1h`; a bare number is seconds.
///
/// # Errors
/// The text is not a number with one of these units, or too large.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let error = || UnitError { text: text.to_owned(), what: "a time", example: "15ms, 1.5s or 2m" };
    let (number, unit) = split(text);
    let nanos = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(error()),
    };
    scaled(number, nanos).map(Duration::from_nanos).ok_or_else(error)
}

/// Reads a share as billionths: `0.5%` or `0.005`, at most the whole.
///
/// # Errors
/// The text is neither, or more than the whole.
pub fn parse_share(text: &str) -> Result<u64, UnitError> {
    let error = || UnitError { text: text.to_owned(), what: "a share", example: "0.5% or 0.005" };
    let (number, unit) = split(text);
    let factor = match unit {
        "%" => BILLION / 100,
        "" => BILLION,
        _ => return Err(error()),
    };
    scaled(number, factor).filter(|share| *share <= BILLION).ok_or_else(error)
}

/// The text for an interface over which no more than `cap` may go, until `renewal` if that is known.
///
/// ```
/// use manyway_units::{ByteCount, Date, text::cap_reached};
/// let date = Date { year: 2026, month: 12, day: 1 };
/// let cap = ByteCount(5_000_000_000);
/// assert_eq!(cap_reached(Some(cap), Some(date)), "cap of 5 GB reached, again from 2026-12-01");
/// assert_eq!(cap_reached(None, None), "cap reached");
/// ```
pub fn cap_reached(cap: Option<ByteCount>, renewal: Option<Date>) -> String {
    let of = cap.map_or_else(String::new, |cap| format!(" of {}", volume(cap.get())));
    let again = renewal.map_or_else(String::new, |date| format!(", again from {date}"));
    format!("cap{of} reached{again}")
}

/// Prints a size in powers of 1000, as network providers do, with up to two digits behind the point: `5 GB`, `4.87 GB`.
///
/// ```
/// use manyway_units::text::volume;
/// assert_eq!([999, 1_500, 20_000_000, 4_876_543_210].map(volume), ["999 B", "1.5 kB", "20 MB", "4.87 GB"]);
/// ```
pub fn volume(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1_000 => return format!("{bytes} B"),
        1_000..1_000_000 => (1_000, "kB"),
        1_000_000..1_000_000_000 => (1_000_000, "MB"),
        1_000_000_000..1_000_000_000_000 => (1_000_000_000, "GB"),
        _ => (1_000_000_000_000, "TB"),
    };
    let (whole, hundredths) = (bytes / unit, bytes % unit * 100 / unit);
    let number = format!("{whole}.{hundredths:02}");
    format!("{} {name}", number.trim_end_matches('0').trim_end_matches('.'))
}

/// Prints a size with a unit that leaves at least one digit before the point: `64.0 MiB`.
pub fn size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..0x400 => return format!("{bytes} B"),
        0x400..0x10_0000 => (1_u64 << 10, "KiB"),
        0x10_0000..0x4000_0000 => (1 << 20, "MiB"),
        0x4000_0000..0x100_0000_0000 => (1 << 30, "GiB"),
        _ => (1 << 40, "TiB"),
    };
    let tenths = u128::from(bytes) * 10 / u128::from(unit);
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

/// Prints a time with about three digits: `15.0 ms`, `2.35 s`, `3 m 05 s`.
pub fn duration(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..100_000 => format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100),
        100_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..60_000_000 => format!("{}.{:02} s", micros / 1_000_000, micros % 1_000_000 / 10_000),
        60_000_000..3_600_000_000 => {
            format!("{} m {:02} s", micros / 60_000_000, micros % 60_000_000 / 1_000_000)
        }
        _ => format!("{} h {:02} m", micros / 3_600_000_000, micros % 3_600_000_000 / 60_000_000),
    }
}

/// Prints how much `part` is of `whole`: `93 %`; a dash if there is no whole.
pub fn percent(part: u64, whole: u64) -> String {
    let rounded = (u128::from(part) * 100 + u128::from(whole) / 2).checked_div(u128::from(whole));
    rounded.map_or_else(|| "-".to_owned(), |percent| format!("{percent} %"))
}

/// Separates the number from the unit.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end).unwrap_or((text, ""));
    (number, unit.trim_start())
}

/// A decimal number times `factor`, rounded down, without floating point.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if number.is_empty() || fraction.len() > 18 || number.ends_with('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digits = u32::try_from(fraction.len()).ok()?;
    let fraction: u64 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let part = u128::from(fraction) * u128::from(factor) / 10_u128.pow(digits);
    whole.checked_mul(factor)?.checked_add(u64::try_from(part).ok()?)
}

const BILLION: u64 = 1_000_000_000;

/// A rate as a bare number of Mbit/s, for columns whose header names the unit.
pub fn megabits(rate: Rate) -> String {
    let hundredths = (rate.bits_per_second() + 5_000) / 10_000;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// A time as a bare number of milliseconds, for columns whose header names the unit.
pub fn milliseconds(time: Duration) -> String {
    let thousandths = (time.as_nanos() + 500) / 1_000;
    format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000)
}

/// A part of a whole with one digit after the point: `0.4 %`; `-` of nothing.
pub fn fine_percent(part: u64, whole: u64) -> String {
    let thousandths =
        (u128::from(part) * 1000 + u128::from(whole) / 2).checked_div(u128::from(whole)).unwrap_or(0);
    if whole == 0 { "-".to_owned() } else { format!("{}.{} %", thousandths / 10, thousandths % 10) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_parsed_as_users_write_them() {
        let rate = |text| parse_rate(text).map(Rate::bits_per_second).ok();
        assert_eq!(rate("20Mbit"), Some(20_000_000));
        assert_eq!(rate("40M"), Some(40_000_000));
        assert_eq!(rate("0.8 Gbit/s"), Some(800_000_000));
        assert_eq!(rate("800kbps"), Some(800_000));
        assert_eq!(rate(".01M"), Some(10_000));
        assert_eq!(rate("20MB/s"), None);
        assert_eq!(parse_size("64MiB").ok(), Some(64 << 20));
        assert_eq!(parse_size("40M").ok(), Some(40 << 20));
        assert_eq!(parse_size("1.5GB").ok(), Some(1_500_000_000));
        assert_eq!(parse_duration("15ms").ok(), Some(Duration::from_millis(15)));
        assert_eq!(parse_duration("1.5").ok(), Some(Duration::from_millis(1500)));
        assert_eq!(parse_share("0.5%").ok(), Some(5_000_000));
        assert_eq!(parse_share("1").ok(), Some(1_000_000_000));
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in ["", "M", "-1s", "1.", ".", ".s", "1.2.3s", "5 parsecs", "1e3", "99999999999999999999"] {
            assert!(parse_rate(text).is_err(), "{text}");
            assert!(parse_size(text).is_err(), "{text}");
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(
            parse_share("101%").unwrap_err().to_string(),
            "\"101%\" is not a share; write it like 0.5% or 0.005"
        );
    }

    #[test]
    fn quantities_are_printed_with_few_digits() {
        assert_eq!(size(64 << 20), "64.0 MiB");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(duration(Duration::from_micros(15_040)), "15.0 ms");
        assert_eq!(duration(Duration::from_millis(2357)), "2.35 s");
        assert_eq!(duration(Duration::from_secs(185)), "3 m 05 s");
        assert_eq!(percent(935, 1000), "94 %");
        assert_eq!(percent(1, 0), "-");
        assert_eq!(megabits(Rate::from_bits_per_second(16_784_000)), "16.78");
        assert_eq!(megabits(Rate::from_bits_per_second(999_999_999)), "1000.00");
        assert_eq!(milliseconds(Duration::from_nanos(31_041_600)), "31.042");
        assert_eq!((fine_percent(1, 250), fine_percent(1, 0)), ("0.4 %".to_owned(), "-".to_owned()));
    }
}
