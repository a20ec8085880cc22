//! The kinds of causes that RST and ERROR name (spec 3.71).

use std::fmt;

/// Kind of error in RST and ERROR (Table 3.3 of the thesis).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub u16);

impl ErrorCode {
    /// DATA for a stream that was not agreed on.
    pub const WRONG_STREAM: Self = Self(1);
    /// An address of a family that the receiver does not have.
    pub const UNRESOLVED_ADDRESS: Self = Self(2);
    /// A block of an unknown type that may not be skipped.
    pub const UNRECOGNISED_BLOCK: Self = Self(3);
    /// A value outside the range of its field, or one that contradicts the connection.
    pub const INVALID_FIELD: Self = Self(4);
    /// A SYN or SYN-ACK without all of its fields.
    pub const MISSING_FIELD: Self = Self(5);
    /// A parameter of an unknown type that may not be skipped.
    pub const UNRECOGNISED_FIELD: Self = Self(6);
    /// DATA without data.
    pub const NO_USER_DATA: Self = Self(7);
    /// SYN-ACK or PING without INFO.
    pub const NO_INFO: Self = Self(8);
    /// INFO that has expired, or was not made by this server.
    pub const STALE_INFO: Self = Self(9);
    /// Anything else.
    pub const UNRECOGNISED_ERROR: Self = Self(10);

    /// All codes of the protocol.
    pub const ALL: [Self; 10] = [
        Self::WRONG_STREAM,
        Self::UNRESOLVED_ADDRESS,
        Self::UNRECOGNISED_BLOCK,
        Self::INVALID_FIELD,
        Self::MISSING_FIELD,
        Self::UNRECOGNISED_FIELD,
        Self::NO_USER_DATA,
        Self::NO_INFO,
        Self::STALE_INFO,
        Self::UNRECOGNISED_ERROR,
    ];

    fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::WRONG_STREAM => "wrong stream",
            Self::UNRESOLVED_ADDRESS => "unresolved address",
            Self::UNRECOGNISED_BLOCK => "unrecognised block type",
            Self::INVALID_FIELD => "invalid field value",
            Self::MISSING_FIELD => "missing mandatory field",
            Self::UNRECOGNISED_FIELD => "unrecognised block field",
            Self::NO_USER_DATA => "no user data",
            Self::NO_INFO => "no INFO",
            Self::STALE_INFO => "stale or invalid INFO",
            Self::UNRECOGNISED_ERROR => "unrecognised error",
            Self(_) => return None,
        })
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({:#06x})", self.0),
            None => write!(f, "code {:#06x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 3.71
    #[test]
    fn each_of_the_ten_codes_has_a_name_and_no_other() {
        for (number, code) in (1..).zip(ErrorCode::ALL) {
            assert_eq!(code.0, number);
            assert!(code.name().is_some(), "{code}");
        }
        assert_eq!(ErrorCode::INVALID_FIELD.to_string(), "invalid field value (0x0004)");
        assert_eq!(ErrorCode(0).to_string(), "code 0x0000");
        assert_eq!(ErrorCode(11).to_string(), "code 0x000b");
    }
}
