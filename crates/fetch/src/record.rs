//! What is kept beside an unfinished file, so that a later run can go on.

use url::Url;

use crate::ranges::Ranges;
use crate::tag::StrongTag;

/// The first line; another one belongs to another version of this program.
const HEAD: &str = "manyway unfinished download 1";
/// More ranges are not read: each interface leaves one gap.
const MOST_RANGES: usize = 100_000;

/// Which file it is, and which bytes of it are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Its address without query and password: other tokens for the same file are no other file.
    pub(crate) address: String,
    /// Its version.
    pub(crate) tag: StrongTag,
    /// Its length.
    pub(crate) length: u64,
    /// The bytes that are written and synced.
    pub(crate) have: Ranges,
}

/// The address as it is compared and shown: without query, fragment, user and password.
pub(crate) fn plain_address(url: &Url) -> String {
    let mut plain = url.clone();
    plain.set_query(None);
    plain.set_fragment(None);
    // Both fail only for addresses that have no host.
    let _ = plain.set_username("");
    let _ = plain.set_password(None);
    plain.to_string()
}

impl Record {
    /// As text, one fact a line.
    pub(crate) fn to_text(&self) -> String {
        let mut text =
            format!("{HEAD}\naddress {}\ntag {}\nlength {}\n", self.address, self.tag, self.length);
        for range in self.have.iter() {
            text += &format!("have {} {}\n", range.start, range.end);
        }
        text + "end\n"
    }

    /// Reads it; `None` if it is damaged.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return None;
        }
        let mut fact = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned);
        let (address, tag) = (fact("address")?, StrongTag::parse(&fact("tag")?)?);
        let length = fact("length")?.parse().ok()?;
        let mut have = Ranges::default();
        for line in lines.by_ref().take(MOST_RANGES) {
            if line == "end" {
                return (have.end() <= length).then_some(Self { address, tag, length, have });
            }
            let (start, end) = line.strip_prefix("have ")?.split_once(' ')?;
            let (start, end) = (start.parse().ok()?, end.parse().ok()?);
            if start >= end {
                return None;
            }
            have.insert(start..end);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let mut have = Ranges::of(0..10);
        have.insert(20..30);
        Record {
            address: "https://h/f".to_owned(),
            tag: StrongTag::parse("\"x y\"").or_else(|| StrongTag::parse("\"xy\"")).unwrap(),
            length: 30,
            have,
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        assert_eq!(Record::parse(&record().to_text()), Some(record()));
    }

    #[test]
    fn a_damaged_record_is_ignored() {
        let whole = record().to_text();
        for cut in 0..whole.len() - 1 {
            assert_eq!(Record::parse(&whole[..cut]), None, "cut at {cut}");
        }
        for (from, to) in
            [("download 1", "download 2"), ("have 20 30", "have 20 31"), ("have 0 10", "have 10 10")]
        {
            assert_eq!(Record::parse(&whole.replace(from, to)), None, "{to}");
        }
    }

    #[test]
    fn neither_passwords_nor_tokens_are_part_of_the_address() {
        let url = Url::parse("https://me:secret@h:8443/a/f?token=1#x").unwrap();
        assert_eq!(plain_address(&url), "https://h:8443/a/f");
    }
}
