//! The destinations that a server's clients may reach.

mod class;
mod inside;
mod net_ports;
mod own;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub use class::Class;
use inside::inside;
pub use net_ports::{NetPorts, NetPortsError, Ports};
pub use own::{OwnAddresses, SystemAddresses};

/// The destinations that a server's clients may reach: the public internet and what the administrator opened, without
/// what the administrator denied.
#[derive(Debug, Clone)]
pub struct Rules {
    openings: Vec<NetPorts>,
    denials: Vec<NetPorts>,
    own: Arc<dyn OwnAddresses>,
}

impl Rules {
    /// The public internet without the addresses of this host, and the given openings.
    pub fn new(openings: Vec<NetPorts>) -> Self {
        Self::with_own(openings, Arc::new(SystemAddresses::default()))
    }

    /// As [`Self::new`], with another source for the addresses of this host.
    pub fn with_own(openings: Vec<NetPorts>, own: Arc<dyn OwnAddresses>) -> Self {
        Self { openings, denials: Vec::new(), own }
    }

    /// Denies destinations, also those that an opening covers. A denied IPv4 address is denied inside IPv6 addresses, too.
    #[must_use]
    pub fn deny(mut self, denials: impl IntoIterator<Item = NetPorts>) -> Self {
        self.denials.extend(denials);
        self
    }

    /// Whether the administrator denied an address. This is the only rule for name servers that the server itself asks.
    // egress 5.10
    pub(crate) fn denies(&self, address: SocketAddr) -> bool {
        let is_denied = |ip: IpAddr| {
            let address = SocketAddr::new(ip, address.port());
            self.denials.iter().any(|denial| denial.contains(address))
        };
        is_denied(address.ip()) || inside(address.ip()).into_iter().any(|v4| is_denied(v4.into()))
    }

    /// Checks the address of a connection. Port 0 stands for a packet without a port: openings and denials of some ports
    /// do not cover it.
    ///
    /// # Errors
    /// The class that makes the address forbidden.
    // egress 5.1, 5.4, 5.5, 5.10
    pub fn check(&self, address: SocketAddr) -> Result<(), Class> {
        let class = Class::of(address.ip());
        if let Some(class) = class.filter(|class| class.is_absolute()) {
            return Err(class);
        }
        if self.denies(address) {
            return Err(Class::Denied);
        }
        if self.openings.iter().any(|opening| opening.contains(address)) {
            return Ok(());
        }
        if let Some(class) = class {
            return Err(class);
        }
        let ip = address.ip().to_canonical();
        let is_own = self.own.contain(ip) || inside(ip).into_iter().any(|v4| self.own.contain(v4.into()));
        if is_own { Err(Class::Own) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Own(IpAddr);

    impl OwnAddresses for Own {
        fn contain(&self, address: IpAddr) -> bool {
            self.0 == address
        }
    }

    fn rules(openings: &[&str]) -> Rules {
        let openings = openings.iter().map(|text| text.parse().unwrap()).collect();
        Rules::with_own(openings, Arc::new(Own("9.1.2.3".parse().unwrap())))
    }

    /// The class that makes an address forbidden.
    fn check(rules: &Rules, address: &str) -> Option<Class> {
        rules.check(address.parse().unwrap()).err()
    }

    // egress 5.4
    #[test]
    fn the_servers_own_public_address_is_forbidden_in_ipv6_notation_too() {
        let rules = rules(&[]);
        assert_eq!(check(&rules, "9.1.2.3:80"), Some(Class::Own));
        assert_eq!(check(&rules, "[::ffff:9.1.2.3]:80"), Some(Class::Own));
        assert_eq!(check(&rules, "[64:ff9b::9.1.2.3]:80"), Some(Class::Own));
        assert_eq!(check(&rules, "[64:ff9b::9.1.2.4]:80"), None);
        assert_eq!(check(&rules, "9.1.2.4:80"), None);
    }

    // egress 5.5
    #[test]
    fn an_opening_opens_closed_addresses_but_no_multicast_or_unspecified_ones() {
        let rules = rules(&["10.0.0.0/8:22", "9.1.2.3:443", "0.0.0.0/0:99", "::/0:99"]);
        assert_eq!(check(&rules, "10.1.1.1:22"), None);
        assert_eq!(check(&rules, "10.1.1.1:23"), Some(Class::Private));
        assert_eq!(check(&rules, "9.1.2.3:443"), None);
        assert_eq!(check(&rules, "127.0.0.1:99"), None);
        for (address, class) in [
            ("0.0.0.0:99", Class::Unspecified),
            ("[::]:99", Class::Unspecified),
            ("224.0.0.1:99", Class::Multicast),
            ("[ff02::1]:99", Class::Multicast),
            ("255.255.255.255:99", Class::Broadcast),
        ] {
            assert_eq!(check(&rules, address), Some(class), "{address}");
        }
    }

    // egress 5.10
    #[test]
    fn a_denial_wins_over_every_opening_and_over_every_notation_of_an_address() {
        let opened = ["10.0.0.0/8", "::/0", "10.7.1.1:22"];
        let denied = ["10.7.0.0/16", "9.9.9.0/24:25,465", "2620:fe::/48", "::ffff:9.8.0.0/120"];
        let denied = denied.map(|text| text.parse().unwrap()).to_vec();
        let rules = rules(&opened).deny(denied);
        for (address, expected) in [
            ("10.7.1.1:22", Some(Class::Denied)),
            ("[::ffff:10.7.1.1]:22", Some(Class::Denied)),
            ("[64:ff9b::10.7.1.1]:22", Some(Class::Denied)),
            ("10.8.1.1:22", None),
            ("[64:ff9b::10.8.1.1]:22", None),
            ("9.9.9.9:25", Some(Class::Denied)),
            ("9.9.9.9:443", None),
            ("[64:ff9b::9.9.9.9]:465", Some(Class::Denied)),
            ("9.8.7.6:1", None),
            ("9.8.0.6:1", Some(Class::Denied)),
            ("[2620:fe::fe]:53", Some(Class::Denied)),
            ("[2620:ff::fe]:53", None),
            // Mechanisms that `::/0` opened.
            ("[64:ff9b:1::10.7.1.1]:1", Some(Class::Denied)),
            ("[64:ff9b:1:a07:1:100::]:1", Some(Class::Denied)),
            ("[2002:a07:101::1]:1", Some(Class::Denied)),
            ("[2002:a08:101::1]:1", None),
            ("[::10.7.1.1]:1", Some(Class::Denied)),
            // Without a port: only what covers all ports counts.
            ("10.7.1.1:0", Some(Class::Denied)),
            ("9.9.9.9:0", None),
        ] {
            assert_eq!(check(&rules, address), expected, "{address}");
        }
    }

    // egress 5.10
    #[test]
    fn denials_add_up_and_all_of_ipv4_does_not_cover_the_loopback_address_of_ipv6() {
        let deny = |rules: Rules, net: &str| rules.deny([net.parse().unwrap()]);
        let rules = deny(deny(rules(&["::1", "10.0.0.0/8"]), "0.0.0.0/0"), "2620:fe::/48");
        assert_eq!(check(&rules, "10.1.1.1:22"), Some(Class::Denied));
        assert_eq!(check(&rules, "[2620:fe::fe]:53"), Some(Class::Denied));
        assert_eq!(check(&rules, "[::1]:22"), None);
        assert!(!rules.denies("[::]:53".parse().unwrap()));
    }

    #[test]
    fn the_addresses_of_this_host_are_found() {
        let own = SystemAddresses::default();
        assert!(own.contain("127.0.0.1".parse().unwrap()));
        // Reserved addresses of no host.
        assert!(!own.contain("192.0.2.77".parse().unwrap()));
    }
}
