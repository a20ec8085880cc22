//! Byte streams over messages, for tools that send files (spec 3.90 to 3.94).
//!
//! A byte stream is the ordered messages of one direction of a stream with the payload protocol [`BYTES`], up to one
//! with [`BYTES_END`], whose content is a [`StreamEnd`]:
//!
//! ```text
//! | code 64 | total 64 |
//! ```

use crate::decode_error::DecodeError;
use crate::reader::Reader;
use crate::writer::Writer;

/// Payload protocol of a message that holds the next bytes of a byte stream.
pub const BYTES: u32 = 0x4d57_0001;
/// Payload protocol of the message that ends a byte stream.
pub const BYTES_END: u32 = 0x4d57_0002;

/// How a byte stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamEnd {
    /// 0 if the stream is complete; otherwise the application's code for the reason to abandon it, plus one.
    pub code: u64,
    /// How many bytes it had in all its messages.
    pub total: u64,
}

impl StreamEnd {
    /// Bytes of the message.
    pub const LEN: usize = 16;

    /// Reads the content of a message with [`BYTES_END`].
    ///
    /// # Errors
    /// [`DecodeError`] if it does not have [`Self::LEN`] bytes.
    pub fn decode(content: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(content);
        let end = Self { code: reader.u64()?, total: reader.u64()? };
        reader.finish()?;
        Ok(end)
    }

    /// Appends the content of the message.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.u64(self.code);
        w.u64(self.total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 3.92
    #[test]
    fn the_end_of_a_byte_stream_comes_back_and_has_one_length() {
        for end in [StreamEnd { code: 0, total: 0 }, StreamEnd { code: u64::MAX, total: 1 << 40 }] {
            let mut content = Vec::new();
            end.encode(&mut Writer::new(&mut content, StreamEnd::LEN));
            assert_eq!(StreamEnd::decode(&content), Ok(end));
            assert!(StreamEnd::decode(&content[1..]).is_err());
            content.push(0);
            assert!(StreamEnd::decode(&content).is_err());
        }
    }
}
