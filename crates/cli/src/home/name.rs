//! The names that people give to tickets, clients and servers.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

/// Letters, digits, dots, hyphens and underscores, at most 64 of them, the first one a letter or digit; nothing that
/// looks like a ticket. A name never contains a colon, an address with a port always does: so known servers without a
/// name of their own (`example.org:4455`) collide with no name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryName(String);

/// A text is no valid name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameError {
    text: String,
}

impl FromStr for EntryName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let is_good = begins_well && text.len() <= 64 && text.chars().all(fits);
        if is_good && !text.to_ascii_lowercase().starts_with("mw1") {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError { text: text.chars().take(80).collect() })
        }
    }
}

impl Deref for EntryName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} can not be a name; one has letters, digits, dots, hyphens and underscores, at most 64, and does not \
             begin with mw1",
            self.text
        )
    }
}

impl std::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_plain_words() {
        for name in ["alice", "a", "Alice.Laptop-2_x", "192.0.2.7"] {
            assert_eq!(&*name.parse::<EntryName>().unwrap(), name);
        }
        let long = "a".repeat(65);
        for text in ["", "-a", ".a", "a b", "a:1", "mw1abc", "MW1", "ä", "a/b", &long] {
            assert!(text.parse::<EntryName>().is_err(), "{text}");
        }
    }
}
