//! What a server's administrator opens or denies: `NET[:PORTS]`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A network, and ports in it: `10.1.0.0/16`, `127.0.0.1:22`, `10.1.2.3:80,8000-8100`, `fd00::/8`,
/// `[fd00::7]:443`, `[fd00::/8]:443`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetPorts {
    address: IpAddr,
    length: u8,
    ports: Ports,
}

/// Some ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ports {
    /// All of them.
    All,
    /// Those in one of these ranges.
    Ranges(Vec<RangeInclusive<u16>>),
}

impl Ports {
    /// Whether a port is one of them.
    pub fn contain(&self, port: u16) -> bool {
        match self {
            Self::All => true,
            Self::Ranges(ranges) => ranges.iter().any(|range| range.contains(&port)),
        }
    }
}

impl NetPorts {
    /// Whether it covers an address and its port. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, address: SocketAddr) -> bool {
        self.covers(address.ip()) && self.ports.contain(address.port())
    }

    /// Whether it covers some ports of an address.
    pub(crate) fn covers(&self, ip: IpAddr) -> bool {
        match (self.address, ip.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(ip)) => {
                bits_equal(u128::from(u32::from(net)) << 96, u128::from(u32::from(ip)) << 96, self.length)
            }
            (IpAddr::V6(net), IpAddr::V6(ip)) => bits_equal(u128::from(net), u128::from(ip), self.length),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Whether the first `length` bits are the same.
fn bits_equal(left: u128, right: u128, length: u8) -> bool {
    let different = left ^ right;
    different.leading_zeros() >= u32::from(length)
}

impl FromStr for NetPorts {
    type Err = NetPortsError;

    fn from_str(text: &str) -> Result<Self, NetPortsError> {
        let wrong = || NetPortsError::Network { text: text.chars().take(80).collect() };
        let (net, ports) = if let Some(rest) = text.strip_prefix('[') {
            let (net, after) = rest.split_once(']').ok_or_else(wrong)?;
            if !net.contains(':') {
                return Err(wrong());
            }
            match after.strip_prefix(':') {
                Some(ports) => (net, Some(ports)),
                None if after.is_empty() => (net, None),
                None => return Err(wrong()),
            }
        } else if text.contains('/') || text.matches(':').count() < 2 {
            // After the length of a network a colon can only begin the ports.
            let (start, rest) = text.split_at(text.find('/').unwrap_or(0));
            match rest.split_once(':') {
                Some((length, ports)) => {
                    (text.get(..start.len() + length.len()).unwrap_or_default(), Some(ports))
                }
                None => (text, None),
            }
        } else {
            (text, None)
        };
        let (address, length) = net.split_once('/').map_or((net, None), |(net, length)| (net, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            Some(length) => length.parse().ok().filter(|length| *length <= most).ok_or_else(wrong)?,
            None => most,
        };
        if address != first_of(address, length) {
            return Err(NetPortsError::HostBits { first: first_of(address, length), length });
        }
        // Otherwise it would cover nothing, since mapped addresses count as IPv4.
        let (address, length) = match (address.to_canonical(), length.checked_sub(96)) {
            (IpAddr::V4(v4), Some(length)) if address.is_ipv6() => (IpAddr::V4(v4), length),
            _ => (address, length),
        };
        Ok(Self { address, length, ports: ports.map_or(Ok(Ports::All), str::parse)? })
    }
}

/// The first address of the network of an address.
fn first_of(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
        }
    }
}

impl FromStr for Ports {
    type Err = NetPortsError;

    fn from_str(text: &str) -> Result<Self, NetPortsError> {
        let wrong = || NetPortsError::Ports { text: text.chars().take(80).collect() };
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u16 = first.parse().map_err(|_| wrong())?;
            let last: u16 = last.parse().map_err(|_| wrong())?;
            if first == 0 || first > last { Err(wrong()) } else { Ok(first..=last) }
        };
        text.split(',').map(range).collect::<Result<Vec<_>, _>>().map(Self::Ranges)
    }
}

impl fmt::Display for NetPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, length, ports } = self;
        match ports {
            Ports::All => write!(f, "{address}/{length}"),
            Ports::Ranges(ranges) => {
                match address {
                    IpAddr::V4(_) => write!(f, "{address}/{length}:")?,
                    IpAddr::V6(_) => write!(f, "[{address}/{length}]:")?,
                }
                for (index, range) in ranges.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    let (first, last) = (range.start(), range.end());
                    if first == last {
                        write!(f, "{comma}{first}")?;
                    } else {
                        write!(f, "{comma}{first}-{last}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// Why a text is no `NET[:PORTS]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetPortsError {
    /// Not a network.
    Network {
        /// Its first 80 characters.
        text: String,
    },
    /// An address inside the network instead of its first one.
    HostBits {
        /// The first address.
        first: IpAddr,
        /// Bits of the network.
        length: u8,
    },
    /// Not ports.
    Ports {
        /// Their first 80 characters.
        text: String,
    },
}

impl fmt::Display for NetPortsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { text } => write!(
                f,
                "{text:?} is not NET[:PORTS]; write it like 10.1.0.0/16, 127.0.0.1:22, 10.1.2.3:80,8000-8100 or [fd00::/8]:443"
            ),
            Self::HostBits { first, length } => {
                write!(f, "the network of {length} bits begins at {first}: write {first}/{length}")
            }
            Self::Ports { text } => {
                write!(f, "{text:?} is not a list of ports; write it like 22, 80,443 or 8000-8100")
            }
        }
    }
}

impl std::error::Error for NetPortsError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(net: &str, address: &str) -> bool {
        net.parse::<NetPorts>().unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn it_covers_exactly_its_network_and_ports() {
        for (net, inside, outside) in [
            ("10.1.0.0/16", "10.1.255.255:7", "10.2.0.0:7"),
            ("10.1.2.3", "10.1.2.3:65535", "10.1.2.4:65535"),
            ("127.0.0.1:22", "127.0.0.1:22", "127.0.0.1:23"),
            ("10.1.2.3:80,8000-8100", "10.1.2.3:8100", "10.1.2.3:8101"),
            ("0.0.0.0/0", "9.9.9.9:1", "[2001:4860::1]:1"),
            ("fd00::/8", "[fd12::1]:9", "[fe12::1]:9"),
            ("[fd00::/8]:443", "[fd12::1]:443", "[fd12::1]:444"),
            ("[fd00::7]:443", "[fd00::7]:443", "[fd00::8]:443"),
            ("fd00::/8:443", "[fd12::1]:443", "[fd12::1]:444"),
            ("10.1.0.0/16", "[::ffff:10.1.2.3]:7", "[::10.1.2.3]:7"),
            ("::/0", "[fd12::1]:9", "9.9.9.9:9"),
            ("::ffff:10.1.0.0/112", "10.1.2.3:7", "[::10.1.2.3]:7"),
        ] {
            assert!(covers(net, inside), "{net} {inside}");
            assert!(!covers(net, outside), "{net} {outside}");
        }
    }

    #[test]
    fn it_prints_as_it_is_read_and_errors_show_the_right_form() {
        for text in ["10.1.0.0/16", "127.0.0.1/32:22", "[fd00::/8]:80,443-445", "fd00::/8"] {
            let net: NetPorts = text.parse().unwrap();
            assert_eq!(net.to_string(), text);
        }
        for wrong in [
            "",
            "localhost",
            "10.1",
            "10.0.0.0/33",
            "10.0.0.0/x",
            "10.0.0.1:",
            "10.0.0.1:0",
            "10.0.0.1:9-8",
            "10.0.0.1:http",
            "[10.0.0.1]:1",
            "[fd00::",
            "[fd00::]x",
            "fd00::/129",
        ] {
            assert!(wrong.parse::<NetPorts>().is_err(), "{wrong}");
        }
        let error = "10.1.2.3/16".parse::<NetPorts>().unwrap_err().to_string();
        assert!(error.contains("10.1.0.0/16"), "{error}");
    }
}
