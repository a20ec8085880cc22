//! The addresses of a network, for clients.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// The addresses of one network: the first is the server's.
#[derive(Debug)]
pub(super) struct Pool {
    network: IpNet,
    taken: BTreeSet<u128>,
    /// Places that are reserved for a ticket or key each.
    fixed: BTreeSet<u128>,
    /// The place that was given out last. An address that became free is given out again after all others.
    last: u128,
}

impl Pool {
    /// `None` if the network has no place for a server and a client.
    pub(super) fn new(network: IpNet) -> Option<Self> {
        let pool = Self { network, taken: BTreeSet::new(), fixed: BTreeSet::new(), last: SERVER };
        (pool.end() > SERVER).then_some(pool)
    }

    /// The server's address.
    pub(super) fn server(&self) -> IpNet {
        self.address(SERVER)
    }

    /// Reserves an address for [`Pool::take_fixed`]. `false` if it is reserved already, or that of no client.
    pub(super) fn fix(&mut self, address: IpAddr) -> bool {
        self.place(address).is_some_and(|place| self.fixed.insert(place))
    }

    /// Takes a reserved address. `None` if it is taken.
    pub(super) fn take_fixed(&mut self, address: IpAddr) -> Option<IpNet> {
        let place = self.place(address)?;
        self.taken.insert(place).then(|| self.address(place))
    }

    /// Takes the wanted address if it is free, or else another one; `None` if all are taken.
    pub(super) fn take(&mut self, wanted: Option<IpAddr>) -> Option<IpNet> {
        let is_free = |place: &u128| !self.taken.contains(place) && !self.fixed.contains(place);
        let wanted = wanted.and_then(|wanted| self.place(wanted)).filter(is_free);
        let place = wanted.or_else(|| {
            // One of the next places is free unless all are taken.
            let places = self.end() - SERVER;
            let used = self.taken.len() + self.fixed.len();
            let tries = places.min(u128::try_from(used).unwrap_or(u128::MAX).saturating_add(1));
            let next = |step| SERVER + 1 + (self.last - SERVER + step) % places;
            (0..tries).map(next).find(is_free)
        })?;
        self.taken.insert(place);
        self.last = place;
        Some(self.address(place))
    }

    /// Lets another client have an address.
    pub(super) fn give_back(&mut self, address: IpAddr) {
        if let Some(place) = self.place(address) {
            self.taken.remove(&place);
        }
    }

    /// The last place of a client.
    fn end(&self) -> u128 {
        let bits = self.network.max_prefix_len() - self.network.prefix_len();
        let all = 1_u128.checked_shl(bits.into()).unwrap_or(u128::MAX);
        // The last address of IPv4 is the broadcast address.
        all.saturating_sub(if self.network.addr().is_ipv4() { 2 } else { 1 })
    }

    fn address(&self, place: u128) -> IpNet {
        let address = match self.network.network() {
            IpAddr::V4(first) => {
                let place = u32::try_from(place).unwrap_or(u32::MAX);
                IpAddr::V4(Ipv4Addr::from(u32::from(first).saturating_add(place)))
            }
            IpAddr::V6(first) => IpAddr::V6(Ipv6Addr::from(u128::from(first).saturating_add(place))),
        };
        IpNet::new_assert(address, self.network.prefix_len())
    }

    /// The place of a client's address.
    fn place(&self, address: IpAddr) -> Option<u128> {
        let place = match (self.network.network(), address) {
            (IpAddr::V4(first), IpAddr::V4(it)) => {
                u128::from(u32::from(it)).checked_sub(u32::from(first).into())
            }
            (IpAddr::V6(first), IpAddr::V6(it)) => u128::from(it).checked_sub(first.into()),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
        };
        place.filter(|place| (SERVER + 1..=self.end()).contains(place))
    }
}

/// The place of the server's address: the one before is that of the network itself.
const SERVER: u128 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(network: &str) -> Pool {
        Pool::new(network.parse().unwrap()).unwrap()
    }

    fn take(pool: &mut Pool, wanted: Option<&str>) -> Option<String> {
        pool.take(wanted.map(|it| it.parse().unwrap())).map(|it| it.to_string())
    }

    // egress 11.3
    #[test]
    fn each_client_has_an_address_of_its_own_until_none_is_left() {
        let mut small = pool("10.99.0.0/29");
        assert_eq!(small.server().to_string(), "10.99.0.1/29");
        let all: Vec<_> = std::iter::from_fn(|| take(&mut small, None)).collect();
        assert_eq!(all, ["10.99.0.2/29", "10.99.0.3/29", "10.99.0.4/29", "10.99.0.5/29", "10.99.0.6/29"]);
        small.give_back("10.99.0.4".parse().unwrap());
        assert_eq!(take(&mut small, Some("10.99.0.3")).as_deref(), Some("10.99.0.4/29"));
        let mut wide = pool("fd00:99::/64");
        assert_eq!(wide.server().to_string(), "fd00:99::1/64");
        assert_eq!(take(&mut wide, None).as_deref(), Some("fd00:99::2/64"));
        // The whole of IPv6 has places, too.
        assert_eq!(take(&mut pool("::/0"), None).as_deref(), Some("::2/0"));
    }

    // egress 11.3
    #[test]
    fn a_returning_client_gets_its_old_address_if_free() {
        let mut pool = pool("10.99.0.0/24");
        assert_eq!(take(&mut pool, Some("10.99.0.77")).as_deref(), Some("10.99.0.77/24"));
        assert_eq!(take(&mut pool, Some("10.99.0.77")).as_deref(), Some("10.99.0.78/24"));
        pool.give_back("10.99.0.77".parse().unwrap());
        assert_eq!(take(&mut pool, None).as_deref(), Some("10.99.0.79/24"), "not at once for another one");
        for not_a_client_s in ["10.99.0.0", "10.99.0.1", "10.99.0.255", "10.98.0.2", "fd00::2"] {
            let given = take(&mut pool, Some(not_a_client_s)).unwrap();
            assert_ne!(given, format!("{not_a_client_s}/24"));
        }
    }

    // egress 11.3
    #[test]
    fn a_reserved_address_is_given_to_its_client_alone() {
        let mut pool = pool("10.99.0.0/29");
        let fixed: IpAddr = "10.99.0.3".parse().unwrap();
        assert!(pool.fix(fixed));
        for refused in ["10.99.0.3", "10.99.0.1", "10.99.0.7", "10.98.0.3"] {
            assert!(!pool.fix(refused.parse().unwrap()), "{refused}");
        }
        let all: Vec<_> = std::iter::from_fn(|| take(&mut pool, Some("10.99.0.3"))).collect();
        assert_eq!(all, ["10.99.0.2/29", "10.99.0.4/29", "10.99.0.5/29", "10.99.0.6/29"]);
        for _ in 0..2 {
            assert_eq!(pool.take_fixed(fixed).map(|it| it.to_string()).as_deref(), Some("10.99.0.3/29"));
            assert_eq!(pool.take_fixed(fixed), None);
            pool.give_back(fixed);
        }
        assert_eq!(take(&mut pool, Some("10.99.0.3")), None);
    }

    #[test]
    fn a_network_without_a_place_for_a_client_is_refused() {
        for (network, is_large_enough) in
            [("10.99.0.0/30", true), ("10.99.0.0/31", false), ("fd00::/126", true), ("fd00::/127", false)]
        {
            assert_eq!(Pool::new(network.parse().unwrap()).is_some(), is_large_enough, "{network}");
        }
    }
}
