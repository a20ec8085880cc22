//! Why a connection or a path ended, as a code that both ends know (spec 4.18).

use std::fmt;

use crate::decode_error::{DecodeError, Part};
use crate::varint::VARINT_MAX;

/// The code in CLOSE and PATH-CLOSE. Codes below [`ErrorCode::APPLICATION`] belong to the protocol, the others to the
/// application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub u64);

impl ErrorCode {
    /// Nothing went wrong.
    pub const NO_ERROR: Self = Self(0);
    /// An internal error of the endpoint that sends the code.
    pub const INTERNAL: Self = Self(1);
    /// More bytes than the credit allows.
    pub const FLOW_CONTROL: Self = Self(3);
    /// More streams than allowed.
    pub const STREAM_LIMIT: Self = Self(4);
    /// A block that the state of its stream does not allow.
    pub const STREAM_STATE: Self = Self(5);
    /// Two different final sizes of one stream.
    pub const FINAL_SIZE: Self = Self(6);
    /// A packet or block that could not be read.
    pub const MALFORMED: Self = Self(7);
    /// TLS parameters that could not be read or contradict the packets.
    pub const PARAMETERS: Self = Self(8);
    /// Connection ids or path ids out of order or beyond the limit.
    pub const CONNECTION_ID: Self = Self(9);
    /// Any other breach of the rules.
    pub const PROTOCOL: Self = Self(0xa);
    /// A key update against the rules.
    pub const KEY_UPDATE: Self = Self(0xe);
    /// More packets failed to open, or were sealed, than the AEAD limit allows.
    pub const AEAD_LIMIT: Self = Self(0xf);
    /// No path is left.
    pub const NO_PATH: Self = Self(0x10);
    /// The key of the peer is not authorised.
    pub const UNAUTHORISED: Self = Self(0x11);
    /// A TLS alert is this code plus the alert's number.
    pub const TLS: Self = Self(0x100);
    /// The first of the application's codes.
    pub const APPLICATION: Self = Self(0x1000);

    /// The code for a TLS alert (RFC 8446, section 6).
    pub fn from_alert(alert: u8) -> Self {
        Self(Self::TLS.0 + u64::from(alert))
    }

    /// The TLS alert behind the code, if it is one.
    pub fn alert(self) -> Option<u8> {
        self.0.checked_sub(Self::TLS.0).and_then(|alert| u8::try_from(alert).ok())
    }

    /// The code for the application's own `code`, which is clamped to 2⁶² − 1 − 0x1000.
    pub fn from_application(code: u64) -> Self {
        Self(Self::APPLICATION.0.saturating_add(code).min(VARINT_MAX))
    }

    /// The application's own code behind the code, if it is one.
    pub fn application(self) -> Option<u64> {
        self.0.checked_sub(Self::APPLICATION.0)
    }

    fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NO_ERROR => "no error",
            Self::INTERNAL => "internal error",
            Self::FLOW_CONTROL => "flow control exceeded",
            Self::STREAM_LIMIT => "too many streams",
            Self::STREAM_STATE => "stream in the wrong state",
            Self::FINAL_SIZE => "contradicting end of stream",
            Self::MALFORMED => "malformed packet",
            Self::PARAMETERS => "bad parameters",
            Self::CONNECTION_ID => "connection ids out of order",
            Self::PROTOCOL => "protocol violation",
            Self::KEY_UPDATE => "key update against the rules",
            Self::AEAD_LIMIT => "cipher used too often",
            Self::NO_PATH => "no path left",
            Self::UNAUTHORISED => "not authorised",
            Self(_) => return None,
        })
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            write!(f, "{name} ({:#x})", self.0)
        } else if let Some(alert) = self.alert() {
            write!(f, "TLS alert {alert}")
        } else if let Some(code) = self.application() {
            write!(f, "application code {code}")
        } else {
            write!(f, "code {:#x}", self.0)
        }
    }
}

impl From<&DecodeError> for ErrorCode {
    /// The code that ends a connection after bytes that could not be decoded (spec 4.18).
    fn from(error: &DecodeError) -> Self {
        match error {
            DecodeError::UnknownParameter { .. }
            | DecodeError::DuplicateParameter { .. }
            | DecodeError::MissingParameter { .. }
            | DecodeError::Truncated { part: Part::Parameters | Part::Parameter(_), .. }
            | DecodeError::TrailingBytes { part: Part::Parameters | Part::Parameter(_), .. }
            | DecodeError::OutOfRange { part: Part::Parameters | Part::Parameter(_), .. } => Self::PARAMETERS,
            DecodeError::Truncated { .. }
            | DecodeError::TrailingBytes { .. }
            | DecodeError::OutOfRange { .. }
            | DecodeError::BlockLength { .. }
            | DecodeError::UnknownBlock { .. }
            | DecodeError::UnknownFlags { .. }
            | DecodeError::AddressFamily { .. }
            | DecodeError::FirstByte { .. } => Self::MALFORMED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_and_application_codes_do_not_overlap() {
        for alert in 0..=u8::MAX {
            let code = ErrorCode::from_alert(alert);
            assert_eq!((code.alert(), code.application()), (Some(alert), None));
        }
        let code = ErrorCode::from_application(3);
        assert_eq!((code.alert(), code.application()), (None, Some(3)));
        assert_eq!(ErrorCode::from_application(u64::MAX).0, VARINT_MAX);
    }

    // spec 4.18: the code tells parameters and packets apart
    #[test]
    fn a_bad_parameter_and_a_bad_block_have_different_codes() {
        let in_block = DecodeError::Truncated { part: Part::Block(0x80), offset: 0, needed: 1, left: 0 };
        let in_parameter = DecodeError::Truncated { part: Part::Parameter(1), offset: 0, needed: 1, left: 0 };
        assert_eq!(ErrorCode::from(&in_block), ErrorCode::MALFORMED);
        assert_eq!(ErrorCode::from(&in_parameter), ErrorCode::PARAMETERS);
    }

    #[test]
    fn every_code_has_a_name() {
        assert_eq!(ErrorCode::NO_PATH.to_string(), "no path left (0x10)");
        assert_eq!(ErrorCode::from_alert(42).to_string(), "TLS alert 42");
        assert_eq!(ErrorCode::from_application(9).to_string(), "application code 9");
        assert_eq!(ErrorCode(0x99).to_string(), "code 0x99");
    }
}
