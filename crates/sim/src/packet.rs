//! The packets of the simulated network.

use std::net::SocketAddr;

use manyway_proto::Ecn;

use crate::link::{LinkConfig, Parcel};

/// A UDP datagram with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The sender, as the network sees it at this point.
    pub source: SocketAddr,
    /// The receiver, as the network sees it at this point.
    pub destination: SocketAddr,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The UDP payload.
    pub data: Vec<u8>,
}

impl Packet {
    /// Bytes of the whole IP packet.
    pub fn whole(&self) -> usize {
        let headers = if self.destination.is_ipv4() { LinkConfig::IPV4_UDP } else { LinkConfig::IPV6_UDP };
        self.data.len() + usize::from(headers)
    }
}

impl Parcel for Packet {
    fn flip_bit(&mut self, random: u64) {
        self.data.flip_bit(random);
    }

    fn is_ecn_capable(&self) -> bool {
        match self.ecn {
            // RFC 3168: a packet that was marked before stays marked.
            Ecn::Ect0 | Ecn::Ect1 | Ecn::Ce => true,
            Ecn::NotEct => false,
        }
    }

    fn mark_congestion(&mut self) {
        self.ecn = Ecn::Ce;
    }

    fn set_ecn(&mut self, mark: Ecn) {
        self.ecn = mark;
    }
}
