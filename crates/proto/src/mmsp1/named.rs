//! The addresses that an end names in SYN or SYN-ACK (spec 3.17).

use std::net::IpAddr;

use manyway_wire::mmsp1::Addresses;

/// Addresses that an end names; every one of them may become a path.
const MOST_NAMED: usize = 32;
/// Header of a parameter.
const PARAMETER: usize = 4;

/// Addresses of this end, in network byte order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Named {
    ipv4: Vec<[u8; 4]>,
    ipv6: Vec<[u8; 16]>,
}

impl Named {
    /// Each of the addresses once, without those that no host has.
    pub(crate) fn new(addresses: impl Iterator<Item = IpAddr>) -> Self {
        let mut named = Self::default();
        for address in addresses.map(|address| address.to_canonical()) {
            if address.is_unspecified() || named.names(address) || named.len() >= MOST_NAMED {
                continue;
            }
            match address {
                IpAddr::V4(address) => named.ipv4.push(address.octets()),
                IpAddr::V6(address) => named.ipv6.push(address.octets()),
            }
        }
        named
    }

    fn len(&self) -> usize {
        self.ipv4.len() + self.ipv6.len()
    }

    /// Whether the address is among them.
    pub(crate) fn names(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => self.ipv4.contains(&address.octets()),
            IpAddr::V6(address) => self.ipv6.contains(&address.octets()),
        }
    }

    /// As many of them as fit into this many bytes of a SYN with so many outgoing streams: in the list of the thesis, which
    /// has one entry for each stream, if there may be one, and the others in parameters.
    pub(crate) fn in_syn(&self, outgoing: u16, room: usize) -> Addresses<'_> {
        let entries = usize::from(outgoing);
        if entries > Addresses::MAX_LISTED {
            return self.in_syn_ack(room);
        }
        let (listed, others) = self.ipv4.split_at(entries.min(self.ipv4.len()));
        Addresses { listed, ..in_parameters(others, &self.ipv6, room.saturating_sub(4 * entries)) }
    }

    /// As many of them as fit into this many bytes, in parameters alone: a SYN-ACK has to be short.
    pub(crate) fn in_syn_ack(&self, room: usize) -> Addresses<'_> {
        in_parameters(&self.ipv4, &self.ipv6, room)
    }
}

fn in_parameters<'a>(ipv4: &'a [[u8; 4]], ipv6: &'a [[u8; 16]], room: usize) -> Addresses<'a> {
    let ipv4 = fitting(ipv4, room);
    let used = if ipv4.is_empty() { 0 } else { PARAMETER + 4 * ipv4.len() };
    Addresses { listed: &[], ipv4, ipv6: fitting(ipv6, room.saturating_sub(used)) }
}

/// As many addresses as a parameter of this size holds.
fn fitting<const N: usize>(list: &[[u8; N]], room: usize) -> &[[u8; N]] {
    let count = room.saturating_sub(PARAMETER) / N;
    list.get(..count).unwrap_or(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_named_once_and_as_many_as_fit() {
        let addresses = ["10.0.0.1", "0.0.0.0", "::ffff:10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"];
        let named = Named::new(addresses.iter().map(|address| address.parse().unwrap()));
        assert!(named.names("10.0.0.1".parse().unwrap()) && !named.names("10.0.0.3".parse().unwrap()));
        let fits =
            |room| named.in_syn_ack(room).iter().map(|address| address.to_string()).collect::<Vec<_>>();
        assert_eq!(fits(1000), ["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"]);
        assert_eq!(fits(12 + 20), ["10.0.0.1", "10.0.0.2", "fd00::1"]);
        assert_eq!(fits(12 + 19), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(fits(11), ["10.0.0.1"]);
        assert_eq!(fits(3), [""; 0]);
        let many = Named::new((0..100).map(|host| IpAddr::from([10, 0, 0, host])));
        let syn = named.in_syn(1, 12 + 20);
        assert_eq!((syn.listed.len(), syn.ipv4.len(), syn.ipv6.len()), (1, 1, 1));
        let syn = named.in_syn(100, 12 + 20);
        assert_eq!(
            (syn.listed.len(), syn.ipv4.len(), syn.ipv6.len()),
            (2, 0, 0),
            "the filler takes the room"
        );
        assert_eq!(named.in_syn(257, 1000), named.in_syn_ack(1000));
        assert_eq!(many.in_syn_ack(1000).iter().count(), MOST_NAMED);
    }
}
