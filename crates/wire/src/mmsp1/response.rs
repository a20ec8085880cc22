//! What a block that cannot be read earns (spec 3.73).

use super::{ErrorCode, ErrorReport, Rst, Syn, SynAck};
use crate::decode_error::{DecodeError, Part};
use crate::parameter::INFO;

/// What a receiver does about a block that cannot be read (spec 3.73).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    /// Ignores it without an answer.
    Drop,
    /// Ignores it and answers with ERROR, which names this cause. The connection goes on.
    Error(ErrorCode),
    /// Answers with RST, which names this cause: there will be no connection.
    Reset(ErrorCode),
}

impl Response {
    /// The response to an error of [`Blocks`](super::Blocks).
    pub fn to(error: &DecodeError) -> Self {
        use ErrorCode as Code;
        match *error {
            // An answer to an answer could go on for ever, and a block without an end may be anything.
            DecodeError::BlockLength { .. } | DecodeError::FirstByte { .. } => Self::Drop,
            DecodeError::UnknownBlock { .. } => Self::Error(Code::UNRECOGNISED_BLOCK),
            DecodeError::Truncated { part, .. } if opens(part) => Self::Reset(Code::MISSING_FIELD),
            DecodeError::AddressFamily { .. } => Self::Error(Code::UNRESOLVED_ADDRESS),
            DecodeError::MissingParameter { kind: INFO } => Self::Error(Code::NO_INFO),
            DecodeError::Truncated { part, .. }
            | DecodeError::TrailingBytes { part, .. }
            | DecodeError::OutOfRange { part, .. } => match part {
                Part::Header | Part::Block(Rst::KIND | ErrorReport::KIND) => Self::Drop,
                part if opens(part) => Self::Reset(Code::INVALID_FIELD),
                Part::Bytes | Part::Block(_) | Part::Parameters | Part::Parameter(_) => {
                    Self::Error(Code::INVALID_FIELD)
                }
            },
            DecodeError::UnknownFlags { .. }
            | DecodeError::UnknownParameter { .. }
            | DecodeError::DuplicateParameter { .. }
            | DecodeError::MissingParameter { .. } => Self::Error(Code::INVALID_FIELD),
        }
    }
}

/// Whether the part is a SYN or a SYN-ACK.
fn opens(part: Part) -> bool {
    matches!(part, Part::Block(Syn::KIND | SynAck::KIND))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 3.73
    #[test]
    fn nothing_answers_an_rst_or_an_error_that_cannot_be_read() {
        for kind in [Rst::KIND, ErrorReport::KIND] {
            let part = Part::Block(kind);
            let cut = DecodeError::Truncated { part, offset: 4, needed: 4, left: 0 };
            let wrong = DecodeError::OutOfRange { part, offset: 4, field: "parameter length", value: 0 };
            assert_eq!((Response::to(&cut), Response::to(&wrong)), (Response::Drop, Response::Drop));
        }
    }

    // spec 3.11
    #[test]
    fn nothing_answers_a_block_without_an_end() {
        let error = DecodeError::BlockLength { kind: Syn::KIND, offset: 0, length: 3, left: 20 };
        assert_eq!(Response::to(&error), Response::Drop);
    }
}
