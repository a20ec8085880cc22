//! From where a server takes connections of MMSP/1 (spec 3.95).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::ConfigError;

/// Addresses from which a server takes connections. Default: none.
///
/// An address is no proof of identity: every host that can send from it and receive there can connect.
///
/// ```
/// use manyway_proto::AddressFilter;
///
/// let filter: AddressFilter = "192.168.1.0/24,fd00::7".parse()?;
/// assert!(filter.allows("192.168.1.9".parse().unwrap()));
/// assert!(!filter.allows("192.168.2.9".parse().unwrap()));
/// assert!(AddressFilter::all().allows("192.168.2.9".parse().unwrap()));
/// # Ok::<(), manyway_proto::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressFilter {
    nets: Vec<IpNet>,
}

impl AddressFilter {
    /// All addresses.
    pub fn all() -> Self {
        Self { nets: vec![Ipv4Net::default().into(), Ipv6Net::default().into()] }
    }

    /// Whether connections are taken from this address; an IPv4 address in IPv6 counts as itself. Costs O(networks).
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.nets.iter().any(|net| net.contains(&address))
    }

    /// Whether no address is allowed.
    pub fn is_empty(&self) -> bool {
        self.nets.is_empty()
    }

    /// Adds the addresses of another filter.
    pub fn extend(&mut self, other: &Self) {
        self.nets.extend_from_slice(&other.nets);
    }
}

impl FromStr for AddressFilter {
    type Err = ConfigError;

    /// Reads addresses and networks such as `10.0.0.7` or `10.0.0.0/8`, separated by commas.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let read = |part: &str| {
            let part = part.trim();
            part.parse::<IpNet>().ok().or_else(|| part.parse::<IpAddr>().ok().map(IpNet::from)).ok_or_else(
                || {
                    let reason =
                        format!("must be an address or a network such as 192.168.1.0/24, not {part:?}");
                    ConfigError { field: "from", reason }
                },
            )
        };
        Ok(Self { nets: text.split(',').map(read).collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for AddressFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, net) in self.nets.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            if net.prefix_len() == net.max_prefix_len() {
                write!(f, "{comma}{}", net.addr())?;
            } else {
                write!(f, "{comma}{net}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(filter: &str, address: &str) -> bool {
        filter.parse::<AddressFilter>().unwrap().allows(address.parse().unwrap())
    }

    #[test]
    fn networks_and_addresses_of_both_families() {
        assert!(allows("10.0.0.0/8", "10.255.0.1") && !allows("10.0.0.0/8", "11.0.0.1"));
        assert!(allows("10.0.0.7", "10.0.0.7") && !allows("10.0.0.7", "10.0.0.8"));
        assert!(allows("10.0.0.7, fd00::/8", "fd12::1") && !allows("fd00::/8", "fe80::1"));
        assert!(allows("10.0.0.0/8", "::ffff:10.0.0.1"), "as a socket of both families shows it");
        assert!(!AddressFilter::default().allows("10.0.0.1".parse().unwrap()));
        assert!(AddressFilter::all().allows("2001:db8::1".parse().unwrap()));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for wrong in ["", "10.0.0.0/33", "10.0.0", "10.0.0.1,", "example.com"] {
            let error = wrong.parse::<AddressFilter>().unwrap_err().to_string();
            assert!(
                error.starts_with("from must be an address or a network such as 192.168.1.0/24"),
                "{error}"
            );
        }
    }

    #[test]
    fn it_is_written_as_it_is_read() {
        for text in ["10.0.0.0/8,10.1.2.3,fd00::/8", "", "0.0.0.0/0,::/0"] {
            let filter = if text.is_empty() {
                AddressFilter::default()
            } else {
                text.parse::<AddressFilter>().unwrap()
            };
            assert_eq!(filter.to_string(), text);
        }
    }
}
