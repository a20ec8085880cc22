//! Ranges of bytes in requests (RFC 9110, section 14).

use std::ops::Range;

/// The range that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteRange {
    /// From this byte to that one, both included; `u64::MAX` for the end of the file.
    FromTo(u64, u64),
    /// So many bytes at the end.
    Last(u64),
}

impl ByteRange {
    /// Reads a field `Range`. `None` where it is to be ignored: another unit, several ranges, wrong syntax
    /// (RFC 9110, section 14.2).
    pub(crate) fn parse(field: &str) -> Option<Self> {
        let (unit, range) = field.split_once('=')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        match range.trim().split_once('-')? {
            ("", last) => number(last).map(Self::Last),
            (from, "") => number(from).map(|from| Self::FromTo(from, u64::MAX)),
            (from, to) => {
                let (from, to) = (number(from)?, number(to)?);
                (from <= to).then_some(Self::FromTo(from, to))
            }
        }
    }

    /// The bytes of a file of this size, `None` if there are none (416).
    pub(crate) fn of(self, size: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::FromTo(from, to) => from..to.saturating_add(1).min(size),
            Self::Last(count) => size.saturating_sub(count)..size,
        };
        (range.start < range.end).then_some(range)
    }
}

/// Digits alone; a number that does not fit is the largest one.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn single_ranges_are_read_and_everything_else_is_ignored() {
        let of = |field: &str, size| ByteRange::parse(field).map(|range| range.of(size));
        for (field, range) in [
            ("bytes=0-", Some(0..100)),
            ("bytes=0-0", Some(0..1)),
            ("Bytes=10-19", Some(10..20)),
            ("bytes= 10-1000", Some(10..100)),
            ("bytes=99-", Some(99..100)),
            ("bytes=100-", None),
            ("bytes=-1", Some(99..100)),
            ("bytes=-1000", Some(0..100)),
            ("bytes=-0", None),
            ("bytes=99999999999999999999999-", None),
            ("bytes=5-99999999999999999999999", Some(5..100)),
        ] {
            assert_eq!(of(field, 100), Some(range), "{field}");
        }
        for field in
            ["", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=2-1", "bytes=0-1,3-4", "lines=0-1"]
        {
            assert_eq!(of(field, 100), None, "{field}");
        }
        assert_eq!(of("bytes=0-", 0), Some(None), "an empty file has no byte");
    }

    proptest! {
        #[test]
        fn a_range_is_never_empty_and_ends_with_its_file(
            field in "(bytes=)?[0-9]{0,20}-?[0-9]{0,20}|\\PC{0,12}",
            size in any::<u64>(),
        ) {
            if let Some(range) = ByteRange::parse(&field).and_then(|range| range.of(size)) {
                prop_assert!(range.start < range.end && range.end <= size);
            }
        }
    }
}
