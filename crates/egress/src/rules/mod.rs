//! Where a server's clients may be connected to.

mod class;
mod opening;
mod own;

use std::net::SocketAddr;
use std::sync::Arc;

pub use class::Class;
pub use opening::{Opening, OpeningError, Ports};
pub use own::{OwnAddresses, SystemAddresses};

/// Where a server's clients may be connected to: the public internet, and what was opened beside it.
#[derive(Debug, Clone)]
pub struct Rules {
    openings: Vec<Opening>,
    own: Arc<dyn OwnAddresses>,
}

impl Rules {
    /// The public internet without the addresses of this host, and beside it what is opened.
    pub fn new(openings: Vec<Opening>) -> Self {
        Self::with_own(openings, Arc::new(SystemAddresses::default()))
    }

    /// As [`Self::new`], with another word on which addresses are those of this host.
    pub fn with_own(openings: Vec<Opening>, own: Arc<dyn OwnAddresses>) -> Self {
        Self { openings, own }
    }

    /// Checks an address that is about to be connected to.
    ///
    /// # Errors
    /// What the address is that makes it forbidden.
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
    fn the_server_s_own_public_address_is_forbidden_also_when_it_is_written_as_ipv6() {
        let rules = rules(&[]);
        assert_eq!(check(&rules, "9.1.2.3:80"), Some(Class::Own));
        assert_eq!(check(&rules, "[::ffff:9.1.2.3]:80"), Some(Class::Own));
        assert_eq!(check(&rules, "9.1.2.4:80"), None);
    }

    // egress 5.5
    #[test]
    fn an_opening_opens_what_is_closed_but_never_what_stands_for_many_or_nobody() {
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
        // What no host of the public internet has.
        assert!(!own.contain("192.0.2.77".parse().unwrap()));
    }
}
