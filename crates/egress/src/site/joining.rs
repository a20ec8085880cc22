//! What a client of a network asks for.

use std::net::IpAddr;

use ipnet::IpNet;

use super::networks::{self, count, number};
use crate::codec::{CodecError, Fields};
use crate::destination::{decode_ip, encode_ip};

/// What a client asks for.
// egress 11.11
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Joining {
    /// The addresses that it would like, those that it had before, at most one of each family.
    pub wanted: Vec<IpAddr>,
    /// Networks behind it, at most [`Self::MOST_NETWORKS`].
    pub networks: Vec<IpNet>,
}

impl Joining {
    /// Most networks that an end announces.
    pub const MOST_NETWORKS: usize = networks::MOST;

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        count(self.wanted.len(), out);
        self.wanted.iter().for_each(|address| encode_ip(*address, out));
        networks::encode(&self.networks, out);
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, CodecError> {
        let mut wanted = Vec::new();
        for _ in 0..number(fields, "number of addresses", networks::MOST_ADDRESSES)? {
            let kind = fields.u8("kind of address")?;
            wanted.push(decode_ip(kind, fields)?);
        }
        networks::of_two_families(wanted.iter().copied())?;
        Ok(Self { wanted, networks: networks::decode(fields)? })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::site::networks::tests::net;

    pub(crate) fn joining() -> impl Strategy<Value = Joining> {
        let wanted =
            (prop::option::of(any::<std::net::Ipv4Addr>()), prop::option::of(any::<std::net::Ipv6Addr>()));
        (wanted, prop::collection::vec(net(), 0..=Joining::MOST_NETWORKS)).prop_map(|((v4, v6), networks)| {
            let wanted = v4.map(IpAddr::from).into_iter().chain(v6.map(IpAddr::from)).collect();
            Joining { wanted, networks }
        })
    }
}
