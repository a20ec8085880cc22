//! Classes of addresses that are forbidden.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is forbidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Class {
    /// `0.0.0.0`, `::` and the rest of `0.0.0.0/8`: systems connect to themselves.
    Unspecified,
    /// The host itself.
    Loopback,
    /// Valid on one link only.
    LinkLocal,
    /// Private networks (RFC 1918), unique local (RFC 4193) and site-local addresses.
    Private,
    /// Shared between a provider and its customers (RFC 6598).
    CarrierNat,
    /// Metadata services of clouds, which hold secrets of a machine.
    Metadata,
    /// Multicast.
    Multicast,
    /// Broadcast.
    Broadcast,
    /// IPv4 inside IPv6 by an obsolete or private mechanism: IPv4-compatible, 6to4, Teredo, local-use NAT64.
    Tunnelled,
    /// Documentation, benchmarks, protocols, future use.
    Reserved,
    /// An address of the server itself.
    Own,
    /// An address that the administrator denied, of whatever other class.
    Denied,
}

impl Class {
    /// The class of an address; `None` if it is public. An IPv4 address inside an IPv6 address decides its class.
    // egress 5.2, 5.3
    pub fn of(address: IpAddr) -> Option<Self> {
        match address.to_canonical() {
            IpAddr::V4(v4) => of_v4(v4),
            IpAddr::V6(v6) => of_v6(v6),
        }
    }

    /// Whether an opening can allow it.
    pub fn can_be_opened(self) -> bool {
        !self.is_absolute() && self != Self::Denied
    }

    /// Whether no rule can open the class, since no TCP connection can reach it.
    // egress 5.5
    pub fn is_absolute(self) -> bool {
        matches!(self, Self::Unspecified | Self::Multicast | Self::Broadcast)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Private => "a private address",
            Self::CarrierNat => "an address behind a carrier's NAT",
            Self::Metadata => "a metadata service",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "a broadcast address",
            Self::Tunnelled => "IPv4 inside IPv6",
            Self::Reserved => "a reserved address",
            Self::Own => "an address of the server itself",
            Self::Denied => "an address that the server's --deny names",
        })
    }
}

fn of_v4(address: Ipv4Addr) -> Option<Class> {
    let octets = address.octets();
    if METADATA_V4.contains(&octets) {
        return Some(Class::Metadata);
    }
    Some(match octets {
        [0, ..] => Class::Unspecified,
        [127, ..] => Class::Loopback,
        [169, 254, ..] => Class::LinkLocal,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Class::Private,
        [100, 64..=127, ..] => Class::CarrierNat,
        [224..=239, ..] => Class::Multicast,
        [255, 255, 255, 255] => Class::Broadcast,
        // Protocol assignments, documentation, 6to4 relays, benchmarks, documentation, future use.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            Class::Reserved
        }
        [240..=255, ..] => Class::Reserved,
        _ => return None,
    })
}

fn of_v6(address: Ipv6Addr) -> Option<Class> {
    let segments = address.segments();
    if METADATA_V6.contains(&segments) {
        return Some(Class::Metadata);
    }
    Some(match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => Class::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        // IPv4-compatible, RFC 4291, section 2.5.5.1.
        [0, 0, 0, 0, 0, 0, _, _] => Class::Tunnelled,
        // NAT64 (RFC 6052): the translator connects to the address inside.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => return of_v4(embedded(high, low)),
        // Local-use NAT64 (RFC 8215), where the address may be in several places.
        [0x64, 0xff9b, 1, ..] => Class::Tunnelled,
        // Teredo (RFC 4380) and 6to4 (RFC 3056).
        [0x2001, 0, ..] | [0x2002, ..] => Class::Tunnelled,
        // Protocol assignments and documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Class::Reserved,
        // ISATAP (RFC 5214) in any prefix.
        [_, _, _, _, 0 | 0x200, 0x5efe, _, _] => Class::Tunnelled,
        [0x2000..=0x3fff, ..] => return None,
        [0xfe80..=0xfebf, ..] => Class::LinkLocal,
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Class::Private,
        [0xff00..=0xffff, ..] => Class::Multicast,
        _ => Class::Reserved,
    })
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Ipv4Addr::new(a, b, c, d)
}

/// Most clouds, then those of Alibaba, Azure and Oracle.
const METADATA_V4: [[u8; 4]; 4] =
    [[169, 254, 169, 254], [100, 100, 100, 200], [168, 63, 129, 16], [192, 0, 0, 192]];
/// Those of Amazon, Google and others.
const METADATA_V6: [[u16; 8]; 3] = [
    [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254],
    [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254],
    [0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe],
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn class(text: &str) -> Option<Class> {
        Class::of(text.parse().unwrap())
    }

    // egress 5.2
    #[test]
    fn every_class_is_recognised_from_its_first_to_its_last_address() {
        for (class_of, addresses) in [
            (Class::Unspecified, &["0.0.0.0", "0.1.2.3", "0.255.255.255", "::"][..]),
            (Class::Loopback, &["127.0.0.1", "127.255.255.255", "::1"]),
            (Class::LinkLocal, &["169.254.0.0", "169.254.255.255", "fe80::1", "febf::1"]),
            (
                Class::Private,
                &[
                    "10.0.0.0",
                    "10.255.255.255",
                    "172.16.0.0",
                    "172.31.255.255",
                    "192.168.0.0",
                    "192.168.255.255",
                    "fc00::",
                    "fdff::1",
                    "fec0::1",
                    "feff::1",
                ],
            ),
            (Class::CarrierNat, &["100.64.0.0", "100.127.255.255"]),
            (
                Class::Metadata,
                &["169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"],
            ),
            (Class::Multicast, &["224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"]),
            (Class::Broadcast, &["255.255.255.255"]),
            (
                Class::Reserved,
                &[
                    "192.0.0.8",
                    "192.0.2.1",
                    "192.88.99.1",
                    "198.18.0.1",
                    "198.19.255.255",
                    "198.51.100.7",
                    "203.0.113.7",
                    "240.0.0.1",
                    "2001:db8::1",
                    "2001:2::1",
                    "2001:10::1",
                    "3fff::1",
                    "100::1",
                    "4000::1",
                    "5f00::1",
                ],
            ),
        ] {
            for address in addresses {
                assert_eq!(class(address), Some(class_of), "{address}");
            }
        }
    }

    #[test]
    fn addresses_next_to_a_forbidden_range_are_public() {
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2000::1",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2003::1",
            "2606:4700::1111",
            "3ffe::1",
        ] {
            assert_eq!(class(address), None, "{address}");
        }
    }

    // egress 5.3
    #[test]
    fn ipv4_inside_ipv6_has_the_class_of_the_ipv4_address() {
        for (address, expected) in [
            ("::ffff:127.0.0.1", Some(Class::Loopback)),
            ("::ffff:10.1.2.3", Some(Class::Private)),
            ("::ffff:169.254.169.254", Some(Class::Metadata)),
            ("::ffff:9.9.9.9", None),
            ("::127.0.0.1", Some(Class::Tunnelled)),
            ("::9.9.9.9", Some(Class::Tunnelled)),
            ("64:ff9b::127.0.0.1", Some(Class::Loopback)),
            ("64:ff9b::10.0.0.1", Some(Class::Private)),
            ("64:ff9b::169.254.169.254", Some(Class::Metadata)),
            ("64:ff9b::0.0.0.0", Some(Class::Unspecified)),
            ("64:ff9b::9.9.9.9", None),
            ("64:ff9b:1::10.0.0.1", Some(Class::Tunnelled)),
            ("64:ff9b:1:a00:0:100::", Some(Class::Tunnelled)),
            ("2002:a00:1::1", Some(Class::Tunnelled)),
            ("2002:909:909::1", Some(Class::Tunnelled)),
            ("2001:0:909:909::1", Some(Class::Tunnelled)),
            ("2001:4860::5efe:10.0.0.1", Some(Class::Tunnelled)),
            ("2001:4860::200:5efe:10.0.0.1", Some(Class::Tunnelled)),
        ] {
            assert_eq!(class(address), expected, "{address}");
        }
    }

    proptest! {
        #[test]
        fn an_ipv4_address_has_one_class_in_every_notation(octets in any::<[u8; 4]>()) {
            let v4 = Ipv4Addr::from(octets);
            let class = Class::of(v4.into());
            let [high, low] = [u16::from_be_bytes([octets[0], octets[1]]), u16::from_be_bytes([octets[2], octets[3]])];
            prop_assert_eq!(Class::of(v4.to_ipv6_mapped().into()), class);
            let nat64 = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low);
            prop_assert_eq!(Class::of(nat64.into()), class);
            let compatible = Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low);
            prop_assert!(Class::of(compatible.into()).is_some());
        }

        #[test]
        fn no_ipv6_address_outside_of_global_unicast_is_public(segments in any::<[u16; 8]>()) {
            let address = Ipv6Addr::from(segments);
            if Class::of(address.into()).is_none() {
                let is_global = (0x2000..0x4000).contains(&segments[0]);
                prop_assert!(is_global || address.to_ipv4_mapped().is_some() || segments[..2] == [0x64, 0xff9b]);
            }
        }
    }
}
