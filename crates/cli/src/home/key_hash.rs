//! The text form of key hashes.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use manyway::{KEY_HASH_LENGTH, PublicKey};

/// The name of a key: the first 16 bytes of a hash of it, printed as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyHash(pub [u8; KEY_HASH_LENGTH]);

impl From<&PublicKey> for KeyHash {
    fn from(key: &PublicKey) -> Self {
        Self(key.hash())
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl FromStr for KeyHash {
    type Err = String;

    /// Accepts capital letters, and colons or spaces between the digits.
    fn from_str(text: &str) -> Result<Self, String> {
        let digits: String = text.chars().filter(|c| !matches!(c, ':' | ' ')).collect();
        HEXLOWER
            .decode(digits.to_ascii_lowercase().as_bytes())
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or_else(|| {
                format!("{text:?} is no key; one has 32 hexadecimal digits, as `manyway keys show` prints it")
            })
    }
}

super::text::serde_by_text!(KeyHash);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_printed_and_as_people_copy_it() {
        let hash = KeyHash([0xab; 16]);
        let text = hash.to_string();
        assert_eq!(text, "ab".repeat(16));
        assert_eq!(text.parse(), Ok(hash));
        assert_eq!(vec!["AB"; 16].join(":").parse(), Ok(hash));
        for wrong in ["", "ab", &"zz".repeat(16), &"ab".repeat(17)] {
            assert!(wrong.parse::<KeyHash>().is_err(), "{wrong}");
        }
    }
}
