//! What travels through the simulated network.

use std::net::SocketAddr;

use manyway_proto::Ecn;

use crate::link::Parcel;

/// A UDP datagram with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The sender, as the network sees it at this point.
    pub source: SocketAddr,
    /// The receiver, as the network sees it at this point.
    pub destination: SocketAddr,
    /// The mark in the IP header.
    pub ecn: Ecn,
    /// The UDP payload.
    pub data: Vec<u8>,
}

impl Parcel for Packet {
    fn flip_bit(&mut self, random: u64) {
        self.data.flip_bit(random);
    }

    fn is_ecn_capable(&self) -> bool {
        match self.ecn {
            Ecn::Ect0 | Ecn::Ect1 => true,
            Ecn::NotEct | Ecn::Ce => false,
        }
    }

    fn mark_congestion(&mut self) {
        self.ecn = Ecn::Ce;
    }
}
