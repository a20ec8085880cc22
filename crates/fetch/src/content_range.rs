//! The header `Content-Range` (RFC 9110, section 14.4).

use std::ops::Range;

/// Which bytes of the file a response has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContentRange {
    /// The bytes.
    pub(crate) bytes: Range<u64>,
    /// Length of the whole file, unless the server does not tell it.
    pub(crate) length: Option<u64>,
}

impl ContentRange {
    /// Reads `bytes FIRST-LAST/LENGTH`; `None` if it is anything else, or impossible.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (range, length) = parts(text)?;
        let (first, last) = range.split_once('-')?;
        let (first, last) = (number(first)?, number(last)?);
        let length = if length == "*" { None } else { Some(number(length)?) };
        let end = last.checked_add(1)?;
        let is_possible = first <= last && length.is_none_or(|length| end <= length);
        is_possible.then_some(Self { bytes: first..end, length })
    }
}

/// The length of the file in the `Content-Range` of a response with status 416.
pub(crate) fn length_of_unsatisfied(text: &str) -> Option<u64> {
    let (range, length) = parts(text)?;
    if range == "*" { number(length) } else { None }
}

fn parts(text: &str) -> Option<(&str, &str)> {
    let (unit, rest) = text.trim().split_once(' ')?;
    let (range, length) = rest.trim().split_once('/')?;
    unit.eq_ignore_ascii_case("bytes").then_some((range.trim(), length.trim()))
}

/// A number of digits only: `+1` is none.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_is_read_with_and_without_a_length() {
        let range = |text| ContentRange::parse(text).map(|it| (it.bytes, it.length));
        assert_eq!(range("bytes 0-0/1"), Some((0..1, Some(1))));
        assert_eq!(range("Bytes 5-9/100"), Some((5..10, Some(100))));
        assert_eq!(range("bytes 5-9/*"), Some((5..10, None)));
        assert_eq!(length_of_unsatisfied("bytes */42"), Some(42));
    }

    proptest! {
        #[test]
        fn any_text_is_a_possible_range_or_none(text in "bytes [0-9*/ -]{0,50}|.{0,50}") {
            if let Some(ContentRange { bytes, length }) = ContentRange::parse(&text) {
                prop_assert!(bytes.start < bytes.end && length.is_none_or(|length| bytes.end <= length));
            }
            let _ = length_of_unsatisfied(&text);
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "",
            "bytes",
            "bytes 0-0",
            "items 0-0/1",
            "bytes 5-4/10",
            "bytes 0-10/10",
            "bytes +0-1/10",
            "bytes 0-18446744073709551615/*",
            "bytes 0-99999999999999999999999/*",
            "bytes */10",
            "bytes -1/10",
            "bytes 0-1,3-4/10",
        ] {
            assert_eq!(ContentRange::parse(text), None, "{text}");
        }
        assert_eq!(length_of_unsatisfied("bytes 0-1/42"), None);
    }
}
