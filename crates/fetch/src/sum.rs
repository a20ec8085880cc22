//! Sums of content.

use std::io;

use ring::digest::{Context, SHA256_OUTPUT_LEN};

/// A SHA-256 sum.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sha256([u8; SHA256_OUTPUT_LEN]);

impl Sha256 {
    /// Reads 64 hexadecimal digits; `None` if they are not that.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }
}

impl TryFrom<Context> for Sha256 {
    type Error = io::Error;

    fn try_from(context: Context) -> io::Result<Self> {
        context.finish().as_ref().try_into().map(Self).map_err(io::Error::other)
    }
}

impl std::fmt::Display for Sha256 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl std::fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sha256({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_has_64_hexadecimal_digits() {
        let text = "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855";
        assert_eq!(Sha256::parse(text).unwrap().to_string(), text.to_lowercase());
        for wrong in ["", "e3", &text[1..], &text.replace('E', "g")] {
            assert_eq!(Sha256::parse(wrong), None, "{wrong}");
        }
    }
}
