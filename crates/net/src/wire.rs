//! The choice between the two wire protocols.

use std::fmt;
use std::str::FromStr;

use manyway_proto::{ConfigError, ConnectionConfig};

/// A wire protocol. A connection has one from its start to its end, and none ever falls back to the other.
///
/// ```
/// use manyway::Wire;
///
/// assert_eq!("mmsp1".parse(), Ok(Wire::Mmsp1));
/// assert_eq!(Wire::default().to_string(), "mmsp2");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Wire {
    /// TLS 1.3 encrypts everything and authenticates both ends: [`Endpoint::connect`](crate::Endpoint::connect).
    #[default]
    Mmsp2,
    /// The protocol of the thesis in clear text: every host on the way can read, change and forge what is sent, and
    /// neither end authenticates the other. [`Endpoint::connect_mmsp1`](crate::Endpoint::connect_mmsp1).
    Mmsp1,
}

impl Wire {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Mmsp2, Self::Mmsp1];

    /// Its name: `mmsp2` or `mmsp1`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mmsp2 => "mmsp2",
            Self::Mmsp1 => "mmsp1",
        }
    }

    /// The settings of a connection over it unless others are chosen: [`ConnectionConfig::default`], or
    /// [`ConnectionConfig::mmsp1`].
    pub fn config(self) -> ConnectionConfig {
        match self {
            Self::Mmsp2 => ConnectionConfig::default(),
            Self::Mmsp1 => ConnectionConfig::mmsp1(),
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Wire {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let found = Self::ALL.into_iter().find(|wire| wire.name() == text);
        found.ok_or_else(|| ConfigError {
            field: "wire",
            reason: format!("must be mmsp2 or mmsp1, not {text:?}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wire_is_read_as_it_is_written_and_a_wrong_name_is_answered_with_the_right_ones() {
        for wire in Wire::ALL {
            assert_eq!(wire.to_string().parse(), Ok(wire));
        }
        let error = "tcp".parse::<Wire>().unwrap_err();
        assert_eq!(error.to_string(), "wire must be mmsp2 or mmsp1, not \"tcp\"");
    }
}
