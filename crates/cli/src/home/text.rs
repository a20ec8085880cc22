//! Values in files, in their text form.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;
use manyway::{HostPort, HostPortError, Rate};
use manyway_egress::{NetPorts, NetPortsError};

use crate::output::units::{UnitError, parse_rate};

/// Stores a type by its text form.
macro_rules! serde_by_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use serde_by_text;

/// The secret of a ticket, in lower-case base32. [`Debug`](fmt::Debug) hides it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE32_NOPAD.encode(&self.0).to_ascii_lowercase())
    }
}

impl FromStr for Secret {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = BASE32_NOPAD.decode(text.to_ascii_uppercase().as_bytes()).ok();
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or("a secret has 26 characters of base32")
    }
}

/// A host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostText(pub HostPort);

impl fmt::Display for HostText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for HostText {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<Self, HostPortError> {
        text.parse().map(Self)
    }
}

/// A rate, printed without loss: `50Mbit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateText(pub Rate);

impl fmt::Display for RateText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0.bits_per_second();
        for (factor, unit) in [(1_000_000_000, "Gbit"), (1_000_000, "Mbit"), (1_000, "kbit")] {
            if bits >= factor && bits.is_multiple_of(factor) {
                return write!(f, "{}{unit}", bits / factor);
            }
        }
        write!(f, "{bits}bit")
    }
}

impl FromStr for RateText {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_rate(text).map(Self)
    }
}

/// Where a client may listen at the server: `0.0.0.0:8080`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetPortsText(pub NetPorts);

impl fmt::Display for NetPortsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for NetPortsText {
    type Err = NetPortsError;

    fn from_str(text: &str) -> Result<Self, NetPortsError> {
        text.parse().map(Self)
    }
}

serde_by_text!(NetPortsText);
serde_by_text!(Secret);
serde_by_text!(HostText);
serde_by_text!(RateText);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_printed() {
        let secret = Secret([0xa5; 16]);
        assert_eq!(secret.to_string().parse(), Ok(secret));
        assert_eq!(format!("{secret:?}"), "Secret(hidden)");
        assert!("short".parse::<Secret>().is_err());
        for rate in ["50Mbit", "1Gbit", "1500kbit", "8bit", "1001kbit"] {
            assert_eq!(rate.parse::<RateText>().unwrap().to_string(), rate);
        }
        let host: HostText = "example.org".parse().unwrap();
        assert_eq!(host.to_string(), "example.org:4455");
    }
}
