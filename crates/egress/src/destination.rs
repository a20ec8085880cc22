//! The destination of a program's connection.

mod fields;

use std::fmt;
use std::net::IpAddr;

pub(crate) use fields::{decode_ip, encode_ip};

/// A host and a port of TCP or UDP.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    host: Host,
    port: u16,
}

/// An address, or a name that the server resolves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// An address.
    Ip(IpAddr),
    /// A name.
    Name(Name),
    /// The name server that the server itself asks.
    Resolver,
}

/// A name of 1 to 253 letters, digits, dots, hyphens and underscores, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

impl Name {
    /// Most bytes of a name.
    pub const MAX_LENGTH: usize = 253;

    /// Checks a name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, DestinationError> {
        let is_fitting = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if text.is_empty() || text.len() > Self::MAX_LENGTH {
            return Err(DestinationError::NameLength { length: text.len() });
        }
        if !text.bytes().all(is_fitting) {
            return Err(DestinationError::NameCharacters);
        }
        Ok(Self(text.to_ascii_lowercase().into()))
    }

    /// Reads a name as people write it: an internationalised one (`bücher.example`) becomes its DNS form
    /// (`xn--bcher-kva.example`, UTS #46).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, DestinationError> {
        if text.is_ascii() {
            return Self::new(text);
        }
        let ascii = idna::domain_to_ascii_strict(text).map_err(|_| DestinationError::NameCharacters)?;
        Self::new(&ascii)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Host {
    /// Reads an address, which may be IPv6 in brackets, or a name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, DestinationError> {
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(address) = inner {
            let address = address.parse().map_err(|_| DestinationError::Address)?;
            return Ok(Self::Ip(IpAddr::V6(address)));
        }
        match text.parse() {
            Ok(address) => Ok(Self::Ip(address)),
            // No name contains a colon.
            Err(_) if text.contains(':') => Err(DestinationError::Address),
            Err(_) => Name::parse(text).map(Self::Name),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Ip(address) => address.fmt(f),
            Self::Name(name) => name.fmt(f),
            Self::Resolver => f.write_str("(the server's resolver)"),
        }
    }
}

impl Destination {
    /// Joins a host and a port.
    ///
    /// # Errors
    /// [`DestinationError::Port`] if the port is 0.
    pub fn new(host: Host, port: u16) -> Result<Self, DestinationError> {
        if port == 0 { Err(DestinationError::Port) } else { Ok(Self { host, port }) }
    }

    /// Reads a host and joins it with a port.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(host: &str, port: u16) -> Result<Self, DestinationError> {
        Self::new(Host::parse(host)?, port)
    }

    /// Reads `HOST:PORT`, IPv6 in brackets.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse_pair(text: &str) -> Result<Self, DestinationError> {
        let (host, port) = text.rsplit_once(':').ok_or(DestinationError::Port)?;
        Self::parse(host, port.parse().map_err(|_| DestinationError::Port)?)
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port, never 0.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// What is wrong with a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DestinationError {
    /// A name is empty or has more than 253 bytes.
    NameLength {
        /// Its bytes.
        length: usize,
    },
    /// A name has an invalid character.
    NameCharacters,
    /// Not an IPv6 address.
    Address,
    /// No port from 1 to 65535.
    Port,
}

impl fmt::Display for DestinationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameLength { length } => {
                write!(f, "a host name has 1 to {} characters, not {length}", Name::MAX_LENGTH)
            }
            Self::NameCharacters => {
                f.write_str("a host name has letters, digits, dots, hyphens and underscores")
            }
            Self::Address => f.write_str("not an IPv6 address; an address with a port is [ADDRESS]:PORT"),
            Self::Port => f.write_str("a port is a number from 1 to 65535"),
        }
    }
}

impl std::error::Error for DestinationError {}

/// Any destination, for tests of what contains one.
#[cfg(test)]
pub(crate) fn any_destination() -> impl proptest::strategy::Strategy<Value = Destination> {
    use proptest::prelude::*;

    let host = prop_oneof![
        any::<IpAddr>().prop_map(Host::Ip),
        "[a-z0-9._-]{1,253}".prop_map(|name| Host::Name(Name::new(&name).unwrap())),
        Just(Host::Resolver),
    ];
    (host, 1..=u16::MAX).prop_map(|(host, port)| Destination::new(host, port).unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_or_names() {
        for (text, shown) in [
            ("192.0.2.7", "192.0.2.7"),
            ("2001:db8::1", "[2001:db8::1]"),
            ("[2001:db8::1]", "[2001:db8::1]"),
            ("Example.ORG", "example.org"),
            ("127.1", "127.1"),
            ("Bücher.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(Host::parse(text).unwrap().to_string(), shown);
        }
        for wrong in [
            "",
            "fe80::1%eth0",
            "[192.0.2.7]",
            "a b",
            "ex\u{e4} mple.org",
            "ex\u{e4}_mple.org",
            "a:1",
            "a/b",
            &"x".repeat(254),
        ] {
            assert!(Host::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_wire_has_names_in_ascii_only() {
        assert_eq!(Name::new("bücher.example"), Err(DestinationError::NameCharacters));
        assert_eq!(Name::parse("bücher.example").unwrap().as_str(), "xn--bcher-kva.example");
        assert_eq!(Name::parse(&"ü".repeat(200)), Err(DestinationError::NameCharacters));
    }

    #[test]
    fn a_pair_has_a_port_and_brackets_around_ipv6() {
        let pair = |text| Destination::parse_pair(text).map(|it| it.to_string());
        assert_eq!(pair("example.org:443").as_deref(), Ok("example.org:443"));
        assert_eq!(pair("[::1]:22").as_deref(), Ok("[::1]:22"));
        for wrong in ["example.org", "example.org:0", "example.org:65536", ":80", "example.org:http"] {
            assert!(pair(wrong).is_err(), "{wrong}");
        }
    }
}
