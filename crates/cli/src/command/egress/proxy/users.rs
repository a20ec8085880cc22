//! Who may use a proxy: names and passwords of a file.

use std::collections::BTreeMap;
use std::path::Path;

use manyway_terminal::{CommandError, ExitCode};

/// Names, each with the hash of its password: hashes are compared in constant time. The list is empty where
/// every client may use the proxy.
#[derive(Debug, Clone, Default)]
pub(super) struct Users(BTreeMap<String, blake3::Hash>);

impl Users {
    /// Reads a file with a line `NAME:PASSWORD` for each user; empty lines and lines that begin with # are left out.
    pub(super) fn read(path: &Path) -> Result<Self, CommandError> {
        let failed =
            |text: String| CommandError::new(ExitCode::Failed, format!("{}: {text}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let users = Self::parse(&text).map_err(failed)?;
        if users.is_empty() { Err(failed("no line NAME:PASSWORD".to_owned())) } else { Ok(users) }
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut users = BTreeMap::new();
        let lines = text.lines().map(str::trim).enumerate();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once(':') {
                Some((name, password)) if !name.is_empty() && !password.is_empty() => {
                    users.insert(name.to_owned(), blake3::hash(password.as_bytes()));
                }
                _ => return Err(format!("line {} is not NAME:PASSWORD", number + 1)),
            }
        }
        Ok(Self(users))
    }

    /// The name of a user for examples, which a shell and a URL take as it is; a placeholder if there is none.
    pub(super) fn example(&self) -> &str {
        let is_plain =
            |name: &&String| name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
        self.0.keys().find(is_plain).map_or("NAME", String::as_str)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contain(&self, name: &str, password: &str) -> bool {
        let hash = blake3::hash(password.as_bytes());
        self.0.get(name).is_some_and(|known| *known == hash)
    }

    /// Whether the value of a Proxy-Authorization field names a user (RFC 7617).
    pub(super) fn authorise(&self, value: &[u8]) -> bool {
        let Some(encoded) = std::str::from_utf8(value).ok().and_then(basic) else { return false };
        let Ok(pair) = data_encoding::BASE64.decode(encoded.as_bytes()) else { return false };
        let Ok(pair) = String::from_utf8(pair) else { return false };
        pair.split_once(':').is_some_and(|(name, password)| self.contain(name, password))
    }
}

/// The credentials of the scheme Basic, whose name has any case.
fn basic(value: &str) -> Option<&str> {
    let (scheme, encoded) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("basic").then(|| encoded.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_have_a_name_that_needs_no_quotes() {
        let example = |text| Users::parse(text).unwrap().example().to_owned();
        assert_eq!(example("a b:x\nann-2:y"), "ann-2");
        assert_eq!(example("o'neil:x\nann@work:y"), "NAME");
    }

    #[test]
    fn a_user_is_known_by_name_and_password() {
        let users = Users::parse("# at home\n\nann:a:secret\nbob:other\n").unwrap();
        assert!(users.contain("ann", "a:secret") && users.contain("bob", "other"));
        assert!(
            !users.contain("ann", "other") && !users.contain("eve", "other") && !users.contain("bob", "")
        );
        // ann:a:secret
        assert!(users.authorise(b"basic YW5uOmE6c2VjcmV0") && users.authorise(b"Basic  YW5uOmE6c2VjcmV0 "));
        for wrong in [&b"Bearer YW5uOmE6c2VjcmV0"[..], b"Basic", b"Basic !", b"Basic YW5u", b"\xff"] {
            assert!(!users.authorise(wrong));
        }
        for wrong in ["ann", "ann:", ":secret"] {
            assert!(Users::parse(wrong).is_err(), "{wrong}");
        }
    }
}
