//! The destinations that a server's clients may reach.

mod class;
mod opening;
mod own;

use std::net::SocketAddr;
use std::sync::Arc;

pub use class::Class;
pub use opening::{Opening, OpeningError, Ports};
pub use own::{OwnAddresses, SystemAddresses};

/// The destinations that a server's clients may reach: the public internet, and what the administrator opened.
#[derive(Debug, Clone)]
pub struct Rules {
    openings: Vec<Opening>,
    own: Arc<dyn OwnAddresses>,
}

impl Rules {
    /// The public internet without the addresses of this host, and the given openings.
    pub fn new(openings: Vec<Opening>) -> Self {
        Self::with_own(openings, Arc::new(SystemAddresses::default()))
    }

    /// As [`Self::new`], with another source for the addresses of this host.
    pub fn with_own(openings: Vec<Opening>, own: Arc<dyn OwnAddresses>) -> Self {
        Self { openings, own }
    }

    /// Checks the address of a connection.
    ///
    /// # Errors
    /// The class that makes the address forbidden.
    // egress 5.1, 5.4, 5.5
    pub fn check(&self, address: SocketAddr) -> Result<(), Class> {
        let class = Class::of(address.ip());
        if let Some(class) = class.filter(|class| class.is_absolute()) {
            return Err(class);
        }
        if self.openings.iter().any(|opening| opening.contains(address)) {
            return Ok(());
        }
        match class {
            Some(class) => Err(class),
            None if self.own.contain(address.ip().to_canonical()) => Err(Class::Own),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

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

    #[test]
    fn the_addresses_of_this_host_are_found() {
        let own = SystemAddresses::default();
        assert!(own.contain("127.0.0.1".parse().unwrap()));
        // Reserved addresses of no host.
        assert!(!own.contain("192.0.2.77".parse().unwrap()));
    }
}
