//! Numbers of the command line, with plain error messages.

use std::ops::RangeInclusive;

/// Reads a whole number of a range.
///
/// # Errors
/// It is no number, or out of range; the text says so.
pub(super) fn within<T: TryFrom<u64>>(text: &str, range: RangeInclusive<u64>) -> Result<T, String> {
    let (least, most) = range.into_inner();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err("must be a whole number".to_owned());
    }
    // Only digits: a number that does not fit is too large.
    let number = text.parse().unwrap_or(u64::MAX);
    if number < least {
        return Err(format!("must be at least {least}"));
    }
    let read = if number <= most { T::try_from(number).ok() } else { None };
    read.ok_or_else(|| format!("must be at most {most}"))
}

/// Reads the number of a port, which is not 0.
///
/// # Errors
/// It is no port; the text says so.
pub(super) fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("{text} is not a port number (1 to 65535)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_number_has_a_plain_message() {
        assert_eq!(within::<u32>("7", 1..=9), Ok(7));
        for (text, reason) in [
            ("0", "must be at least 1"),
            ("10", "must be at most 9"),
            ("99999999999999999999", "must be at most 9"),
            ("-1", "must be a whole number"),
            ("", "must be a whole number"),
            ("1.5", "must be a whole number"),
        ] {
            assert_eq!(within::<u32>(text, 1..=9).unwrap_err(), reason, "{text}");
        }
        assert_eq!(port("22"), Ok(22));
        for text in ["0", "http", "65536", "-1", ""] {
            assert_eq!(port(text), Err(format!("{text} is not a port number (1 to 65535)")));
        }
    }
}
