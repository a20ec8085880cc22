//! Networks, by which unknown senders are counted: the owner of one address of a network usually has all of them.

use std::net::{IpAddr, SocketAddr};

/// The first 24 bits of an IPv4 address, or the first 56 of an IPv6 address: the least that one customer gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix(u64);

/// Distinguishes IPv4 from IPv6: the lowest 8 bits of an IPv6 prefix are zero.
const IPV4: u64 = 1;

impl Prefix {
    /// The network of an address; an IPv4 address seen through a dual-stack socket is an IPv4 address.
    pub fn of(address: SocketAddr) -> Self {
        match address.ip().to_canonical() {
            IpAddr::V4(v4) => Self(u64::from(v4.to_bits() >> 8) << 8 | IPV4),
            IpAddr::V6(v6) => {
                let [a, b, c, d, e, f, g, ..] = v6.octets();
                Self(u64::from_be_bytes([a, b, c, d, e, f, g, 0]))
            }
        }
    }

    /// The prefix as a number, for a hash.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Prefix;

    fn of(address: &str) -> Prefix {
        Prefix::of(address.parse().unwrap())
    }

    #[test]
    fn neighbours_share_a_prefix_and_others_do_not() {
        assert_eq!(of("192.0.2.1:1"), of("192.0.2.254:9"));
        assert_eq!(of("192.0.2.1:1"), of("[::ffff:192.0.2.7]:1"));
        assert_ne!(of("192.0.2.1:1"), of("192.0.3.1:1"));
        assert_eq!(of("[2001:db8:0:1::1]:1"), of("[2001:db8:0:ff::2]:1"));
        assert_ne!(of("[2001:db8:0:100::1]:1"), of("[2001:db8:0:1::1]:1"));
        assert_ne!(of("[::c000:201]:1"), of("192.0.2.1:1"));
    }
}
