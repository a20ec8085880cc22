//! The place of a server: an address or a name, and a port.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::DEFAULT_PORT;
use crate::zone::interface_name;

/// An IP address, or a name to resolve.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// An address.
    Ip(IpAddr),
    /// A name in lower case; made by [`Host::name`], which checks it.
    Name(HostName),
}

/// A DNS name in lower case, of at most 253 letters, digits, dots, hyphens and underscores.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(Box<str>);

impl std::ops::Deref for HostName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Host {
    /// Checks a name and turns it into lower case; an internationalised one (`bücher.example`) into its DNS form
    /// (`xn--bcher-kva.example`, UTS #46).
    ///
    /// # Errors
    /// [`HostPortError::Name`] unless it is a DNS name (RFC 1123, section 2.1, and underscores).
    pub fn name(name: &str) -> Result<Self, HostPortError> {
        if !name.is_ascii() {
            let ascii = idna::domain_to_ascii_strict(name);
            return ascii.map_or_else(
                |_| Err(HostPortError::Name { name: shortened(name) }),
                |name| Self::name(&name),
            );
        }
        let label_fits = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        let without_root = name.strip_suffix('.').unwrap_or(name);
        // A last label of digits alone would be a mistyped IPv4 address.
        let last_label = without_root.rsplit('.').next().unwrap_or_default();
        if name.len() > 253
            || !without_root.split('.').all(label_fits)
            || last_label.bytes().all(|b| b.is_ascii_digit())
        {
            return Err(HostPortError::Name { name: shortened(name) });
        }
        Ok(Self::Name(HostName(name.to_ascii_lowercase().into())))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// A host with its port: `192.0.2.7`, `192.0.2.7:5000`, `2001:db8::1`, `[2001:db8::1]:5000`, `example.org:5000`,
/// `[fe80::1%eth0]:5000`.
///
/// Without a port, [`DEFAULT_PORT`] is meant. A link-local address may have a zone, the name or index of the interface
/// that leads to it (RFC 4007, section 11); without one every interface is tried.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    host: Host,
    port: u16,
    zone: Option<Box<str>>,
}

impl HostPort {
    /// Joins a host and a port.
    pub fn new(host: Host, port: u16) -> Self {
        Self { host, port, zone: None }
    }

    /// The same host at another port.
    #[must_use]
    pub fn with_port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// The zone of a link-local address: an interface of this host, by name or index.
    pub fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// The same without a zone, which has no meaning on another host.
    #[must_use]
    pub fn without_zone(self) -> Self {
        Self { zone: None, ..self }
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl From<SocketAddr> for HostPort {
    /// The zone of a link-local address is the name of its interface, if this host has one with its index.
    fn from(address: SocketAddr) -> Self {
        let zone = match address {
            SocketAddr::V6(v6) if v6.scope_id() != 0 => {
                let index = v6.scope_id();
                Some(interface_name(index).unwrap_or_else(|| index.to_string()).into())
            }
            SocketAddr::V6(_) | SocketAddr::V4(_) => None,
        };
        Self { zone, ..Self::new(Host::Ip(address.ip()), address.port()) }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(address) => match &self.zone {
                Some(zone) => write!(f, "[{address}%{zone}]:{}", self.port),
                None => SocketAddr::new(*address, self.port).fmt(f),
            },
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

impl FromStr for HostPort {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<Self, HostPortError> {
        let text = text.trim();
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::new(Host::Ip(address), DEFAULT_PORT));
        }
        if let Some((address, zone)) = link_local(text) {
            return Ok(Self { host: address, port: DEFAULT_PORT, zone });
        }
        if let Some(rest) = text.strip_prefix('[') {
            let wrong = || HostPortError::Name { name: shortened(text) };
            let (address, after) = rest.split_once(']').ok_or_else(wrong)?;
            let plain = || Some((Host::Ip(address.parse::<Ipv6Addr>().ok()?.into()), None));
            let (host, zone) = link_local(address).or_else(plain).ok_or_else(wrong)?;
            let port = match after.strip_prefix(':') {
                Some(port) => port_of(port)?,
                None if after.is_empty() => DEFAULT_PORT,
                None => return Err(wrong()),
            };
            return Ok(Self { host, port, zone });
        }
        if text.contains('%') {
            return Err(HostPortError::Name { name: shortened(text) });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, port_of(port)?),
            None => (text, DEFAULT_PORT),
        };
        let host = match host.parse::<IpAddr>() {
            Ok(address) => Host::Ip(address),
            Err(_) => Host::name(host)?,
        };
        Ok(Self::new(host, port))
    }
}

/// A link-local address with its zone.
fn link_local(text: &str) -> Option<(Host, Option<Box<str>>)> {
    let (address, zone) = text.split_once('%')?;
    let address = address.parse().ok().filter(Ipv6Addr::is_unicast_link_local)?;
    let fits = (1..=15).contains(&zone.len())
        && zone.bytes().all(|byte| byte.is_ascii_graphic() && !b"/%[]".contains(&byte));
    fits.then(|| (Host::Ip(address.into()), Some(zone.into())))
}

fn port_of(text: &str) -> Result<u16, HostPortError> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        Ok(_) | Err(_) => Err(HostPortError::Port { port: shortened(text) }),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Why a text is no `HOST` or `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostPortError {
    /// Neither an address nor a name.
    Name {
        /// Its first 80 characters.
        name: String,
    },
    /// Not a number from 1 to 65535.
    Port {
        /// Its first 80 characters.
        port: String,
    },
}

impl fmt::Display for HostPortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name } => {
                write!(f, "{name:?} is neither an address nor a host name; write HOST:PORT or [IPV6]:PORT")
            }
            Self::Port { port } => write!(f, "{port:?} is not a port; it is a number from 1 to 65535"),
        }
    }
}

impl std::error::Error for HostPortError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_with_and_without_a_port() {
        for (text, printed) in [
            ("192.0.2.7", "192.0.2.7:4455"),
            ("192.0.2.7:80", "192.0.2.7:80"),
            ("2001:db8::1", "[2001:db8::1]:4455"),
            ("[2001:db8::1]", "[2001:db8::1]:4455"),
            ("[2001:db8::1]:80", "[2001:db8::1]:80"),
            ("fe80::1%eth0", "[fe80::1%eth0]:4455"),
            ("[fe80::1%br-lan.7]:80", "[fe80::1%br-lan.7]:80"),
            ("fe80::1", "[fe80::1]:4455"),
            ("Example.ORG", "example.org:4455"),
            (" a_b-c.example:65535 ", "a_b-c.example:65535"),
            ("Bücher.example:80", "xn--bcher-kva.example:80"),
            ("例え.テスト", "xn--r8jz45g.xn--zckzah:4455"),
        ] {
            assert_eq!(text.parse::<HostPort>().unwrap().to_string(), printed);
        }
    }

    #[test]
    fn an_invalid_host_is_refused_and_named() {
        for text in [
            "2001:db8::1%eth0",
            "fe80::1%",
            "[fe80::1%a/b]:5",
            "",
            ":80",
            "a..b",
            "-\u{e9}",
            "a b",
            "[::1",
            "[::1]x",
            "[a]:5",
            "192.0.2.300",
            "1.2.3",
            "a/b",
        ] {
            assert!(
                matches!(text.parse::<HostPort>(), Err(HostPortError::Name { .. })),
                "{text:?} {:?}",
                text.parse::<HostPort>()
            );
        }
        for text in ["a:0", "a:65536", "a:x", "a:", "[::1]:0"] {
            assert!(matches!(text.parse::<HostPort>(), Err(HostPortError::Port { .. })), "{text:?}");
        }
    }
}
