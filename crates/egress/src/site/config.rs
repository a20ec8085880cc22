//! Settings of a server's network.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::joining::Joining;
use super::pool::Pool;

/// Settings of a server's network.
#[derive(Debug, Clone)]
pub struct HubConfig {
    /// The network, at most one of each family; the first address is the server's.
    pub networks: Vec<IpNet>,
    /// Networks behind the server, which clients reach.
    pub announced: Vec<IpNet>,
    /// Networks that a client with this ticket or key may announce, or parts of them.
    pub behind: Vec<(String, IpNet)>,
    /// Addresses reserved for a ticket or key, at most one of each family. Then one client at a time has this name.
    pub fixed: Vec<(String, IpAddr)>,
    /// Largest packet, in bytes; from 1280, by default 1400: on links of 1500 bytes a packet needs one datagram.
    pub mtu: u16,
    /// Clients at the same time. Default 256.
    pub clients: usize,
}

impl Default for HubConfig {
    fn default() -> Self {
        let (networks, announced, behind, fixed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { networks, announced, behind, fixed, mtu: 1400, clients: 256 }
    }
}

impl HubConfig {
    /// The server's addresses, each with the length of its network.
    ///
    /// # Errors
    /// The settings contradict themselves.
    pub fn servers(&self) -> Result<Vec<IpNet>, HubError> {
        Ok(self.pools()?.iter().map(Pool::server).collect())
    }

    /// The addresses of each network.
    pub(super) fn pools(&self) -> Result<Vec<Pool>, HubError> {
        let of_v4 = self.networks.iter().filter(|it| it.addr().is_ipv4()).count();
        if self.networks.is_empty() || of_v4 > 1 || self.networks.len() - of_v4 > 1 {
            return Err(HubError::Families);
        }
        let behind = self.behind.iter().map(|(_, network)| network);
        let all: Vec<_> = self.networks.iter().chain(&self.announced).chain(behind).collect();
        for (index, one) in all.iter().enumerate() {
            if let Some(other) = all.iter().skip(index + 1).find(|other| overlap(one, other)) {
                return Err(HubError::Overlap(**one, **other));
            }
        }
        if self.announced.len() + self.behind.len() > Joining::MOST_NETWORKS {
            return Err(HubError::TooMany);
        }
        let pool = |network: &IpNet| Pool::new(*network).ok_or(HubError::TooSmall(*network));
        let mut pools = self.networks.iter().map(pool).collect::<Result<Vec<_>, _>>()?;
        for (index, (name, address)) in self.fixed.iter().enumerate() {
            let is_second =
                |(other, it): &(String, IpAddr)| other == name && it.is_ipv4() == address.is_ipv4();
            let has_two = self.fixed.iter().take(index).any(is_second);
            if has_two || !pools.iter_mut().any(|pool| pool.fix(*address)) {
                return Err(HubError::Fixed(name.clone(), *address));
            }
        }
        Ok(pools)
    }

    /// The address of this family that is reserved for this ticket or key.
    pub(super) fn fixed_of(&self, name: &str, is_v4: bool) -> Option<IpAddr> {
        let found = self.fixed.iter().find(|(who, address)| who == name && address.is_ipv4() == is_v4);
        found.map(|(_, address)| *address)
    }
}

/// What is wrong with the settings of a server's network.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HubError {
    /// There is none, or there are two of a family.
    Families,
    /// It has no place for the server and a client.
    TooSmall(IpNet),
    /// Two networks have addresses in common.
    Overlap(IpNet, IpNet),
    /// It is no address for a client, is reserved for another one already, or is the second one of a client.
    Fixed(String, IpAddr),
    /// More than [`Joining::MOST_NETWORKS`] networks lie behind the sites.
    TooMany,
}

impl fmt::Display for HubError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Families => f.write_str("--tun names one network, or one of IPv4 and one of IPv6"),
            Self::TooSmall(network) => {
                write!(f, "{network} has no place for a server and a client: write it like 10.99.0.0/24")
            }
            Self::Overlap(one, other) => write!(f, "{one} and {other} have addresses in common"),
            Self::Fixed(name, address) => write!(
                f,
                "{address} cannot be the address of {name}: it has to be in the network of --tun, neither its first nor \
                 its last one, for one client, which has one of each family"
            ),
            Self::TooMany => write!(f, "at most {} networks may lie behind sites", Joining::MOST_NETWORKS),
        }
    }
}

impl std::error::Error for HubError {}

/// Whether two networks have an address in common.
pub(super) fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_contradict_themselves_are_refused() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let servers = |networks: &[&str], announced: &[&str], behind: &[&str]| {
            let nets = |texts: &[&str]| texts.iter().map(|text| net(text)).collect();
            let behind = behind.iter().map(|text| ("branch".to_owned(), net(text))).collect();
            let config = HubConfig {
                networks: nets(networks),
                announced: nets(announced),
                behind,
                ..HubConfig::default()
            };
            config.servers()
        };
        assert_eq!(
            servers(&["10.99.0.0/24", "fd00:99::/64"], &["192.168.9.0/24"], &["192.168.5.0/24"]),
            Ok(vec![net("10.99.0.1/24"), net("fd00:99::1/64")])
        );
        assert_eq!(servers(&[], &[], &[]), Err(HubError::Families));
        assert_eq!(servers(&["10.99.0.0/24", "10.98.0.0/24"], &[], &[]), Err(HubError::Families));
        assert_eq!(servers(&["10.99.0.0/31"], &[], &[]), Err(HubError::TooSmall(net("10.99.0.0/31"))));
        let (site, wide) = (net("10.99.0.0/24"), net("10.0.0.0/8"));
        assert_eq!(servers(&["10.99.0.0/24"], &["10.0.0.0/8"], &[]), Err(HubError::Overlap(site, wide)));
        assert_eq!(servers(&["10.99.0.0/24"], &[], &["10.0.0.0/8"]), Err(HubError::Overlap(site, wide)));
        let fixed = |addresses: &[(&str, &str)]| {
            let fixed = addresses.iter().map(|(who, it)| ((*who).to_owned(), it.parse().unwrap())).collect();
            let networks = vec![net("10.99.0.0/24"), net("fd00:99::/64")];
            HubConfig { networks, fixed, ..HubConfig::default() }.servers().is_ok()
        };
        assert!(fixed(&[("branch", "10.99.0.7"), ("branch", "fd00:99::7"), ("other", "10.99.0.8")]));
        for wrong in [
            &[("branch", "10.98.0.7")][..],
            &[("branch", "10.99.0.1")],
            &[("branch", "10.99.0.7"), ("other", "10.99.0.7")],
            &[("branch", "10.99.0.7"), ("branch", "10.99.0.8")],
        ] {
            assert!(!fixed(wrong), "{wrong:?}");
        }
        let many: Vec<_> = (0..33).map(|n| format!("192.168.{n}.0/24")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(servers(&["10.99.0.0/24"], &many, &[]), Err(HubError::TooMany));
    }
}
