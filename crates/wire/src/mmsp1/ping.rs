//! PING and PONG (spec 3.22, 3.23): return the server's INFO, and confirm the handshake.
//!
//! ```text
//! | type 4 | flags 0 | length 16 | parameter INFO |
//! | type 5 | flags 0 | length 16 |
//! ```

use super::parameters::{Parameters, encode_list, list_len};
use crate::decode_error::DecodeError;
use crate::frame::{encode_block, padded_block_len};
use crate::parameter::INFO;
use crate::reader::Reader;
use crate::writer::Writer;

/// Returns INFO as it came in SYN-ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ping<'a> {
    /// The value of the parameter.
    pub info: &'a [u8],
    /// The first unknown parameter that may not be skipped. Not written.
    pub unrecognised: Option<u16>,
}

impl<'a> Ping<'a> {
    /// Type on the wire.
    pub const KIND: u8 = 4;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if INFO is missing, or a parameter is malformed.
    pub fn decode(_flags: u8, body: Reader<'a>) -> Result<Self, DecodeError> {
        let Parameters { info, unrecognised, .. } = Parameters::decode(body, &[INFO])?;
        let info = info.ok_or(DecodeError::MissingParameter { kind: INFO })?;
        Ok(Self { info, unrecognised })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block. INFO longer than 65 527 bytes does not fit a block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.body_len(), |w| {
            encode_list(w, std::iter::once((INFO, self.info)));
        });
    }

    fn body_len(&self) -> usize {
        list_len(std::iter::once(self.info.len()))
    }
}

/// Confirms the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pong;

impl Pong {
    /// Type on the wire.
    pub const KIND: u8 = 5;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if there is one.
    pub fn decode(_flags: u8, body: Reader<'_>) -> Result<Self, DecodeError> {
        body.finish()?;
        Ok(Self)
    }

    /// Bytes on the wire.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(0)
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, 0, |_| {});
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode_error::Part;
    use crate::mmsp1::testing::{encoded, framed, refusal, round_trip, walk};
    use crate::mmsp1::{Block, ErrorCode, Response};

    // spec 3.22
    #[test]
    fn ping_carries_info_of_any_length() {
        for length in [0, 1, 3, 4, 88, 65_527] {
            let info = &vec![0xa5; length];
            round_trip(Block::Ping(Ping { info, unrecognised: None }));
        }
    }

    // spec 3.22, 3.73
    #[test]
    fn ping_without_info_earns_no_info() {
        for body in [&[][..], &[0x80, 1, 0, 4]] {
            let error = refusal(&framed(Ping::KIND, 0, body));
            assert_eq!(error, DecodeError::MissingParameter { kind: INFO });
            assert_eq!(Response::to(&error), Response::Error(ErrorCode::NO_INFO));
        }
    }

    // spec 3.16
    #[test]
    fn an_unknown_parameter_is_remembered_unless_it_may_be_skipped() {
        let body = [0x7f, 1, 0, 4, 0x80, 9, 0, 5, 1, 0, 0, 0, 0, 0, 0, 5, 7, 0, 0, 0, 0x7f, 2, 0, 4];
        let ping = Ping { info: &[7], unrecognised: Some(0x7f01) };
        assert_eq!(walk(&framed(Ping::KIND, 0, &body)), [Ok(Block::Ping(ping))]);
        assert_eq!(Block::Ping(ping).unrecognised(), Some(0x7f01));
        let skipped = [0x80, 9, 0, 4, 0, 0, 0, 4];
        let ping = Ping { info: &[], unrecognised: None };
        assert_eq!(walk(&framed(Ping::KIND, 0, &skipped)), [Ok(Block::Ping(ping))]);
    }

    // spec 3.15
    #[test]
    fn a_second_info_and_an_impossible_length_are_refused() {
        let error = refusal(&framed(Ping::KIND, 0, &[0, 0, 0, 4, 0, 0, 0, 4]));
        assert_eq!(error, DecodeError::DuplicateParameter { kind: INFO, offset: 8 });
        for length in [0, 3, 5, 255] {
            let error = refusal(&framed(Ping::KIND, 0, &[0, 0, 0, length]));
            assert_eq!(Response::to(&error), Response::Error(ErrorCode::INVALID_FIELD));
        }
    }

    // spec 3.23
    #[test]
    fn pong_is_empty_and_its_flags_are_ignored() {
        round_trip(Block::Pong);
        assert_eq!(encoded(&Block::Pong), [5, 0, 0, 4]);
        assert_eq!(walk(&framed(Pong::KIND, 0xff, &[])), [Ok(Block::Pong)]);
        let error = refusal(&framed(Pong::KIND, 0, &[1]));
        assert_eq!(error, DecodeError::TrailingBytes { part: Part::Block(5), offset: 4, left: 1 });
    }
}
