//! Entity tags (RFC 9110, section 8.8.3).

use std::fmt;

/// Longer tags are not used: they go into each request.
const MOST: usize = 1024;

/// A strong entity tag with its quotes: two responses with the same one have the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StrongTag(String);

/// What a response says about the version of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tag {
    /// The bytes are named.
    Strong(StrongTag),
    /// Only the meaning is named: bytes may differ.
    Weak,
    /// Nothing.
    Missing,
}

impl Tag {
    /// Reads the header `ETag`. What is no tag counts as missing.
    pub(crate) fn parse(header: Option<&[u8]>) -> Self {
        let Some(text) = header.and_then(|header| std::str::from_utf8(header).ok()).map(str::trim) else {
            return Self::Missing;
        };
        if text.starts_with("W/") {
            return Self::Weak;
        }
        StrongTag::parse(text).map_or(Self::Missing, Self::Strong)
    }
}

impl StrongTag {
    /// Reads a tag in its quotes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let inner = text.strip_prefix('"')?.strip_suffix('"')?;
        let is_character = |byte: u8| byte == 0x21 || (0x23..=0x7e).contains(&byte);
        (text.len() <= MOST && inner.bytes().all(is_character)).then(|| Self(text.to_owned()))
    }

    /// The tag with its quotes, as it travels.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StrongTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_quoted_tag_without_w_is_strong() {
        let tag = |text: &str| Tag::parse(Some(text.as_bytes()));
        assert_eq!(tag("\"a-1\""), Tag::Strong(StrongTag("\"a-1\"".to_owned())));
        assert_eq!(tag("W/\"a-1\""), Tag::Weak);
        for text in ["", "a-1", "\"a", "\"", "\"a\"b\"", "\"a b\"", "\"\u{fc}\""] {
            assert_eq!(tag(text), Tag::Missing, "{text}");
        }
        assert_eq!(tag(&format!("\"{}\"", "x".repeat(MOST))), Tag::Missing);
        assert_eq!(Tag::parse(None), Tag::Missing);
    }
}
