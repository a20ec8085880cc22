//! An IP packet in transit.

use std::cell::Cell;
use std::rc::Rc;

use manyway_proto::Ecn;
use manyway_sim::link::Parcel;

use super::header::{self, Header, Transport};
use super::pool::Buffer;
use crate::scenario::Checksum;

/// An IP packet that follows a route.
#[derive(Debug)]
pub(super) struct IpPacket {
    pub(super) buffer: Buffer,
    pub(super) journey: Journey,
    /// What happens to its checksum on its current link.
    pub(super) checksum: Checksum,
    fate: Fate,
}

/// The position of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Journey {
    /// Its way, see [`Switch`](super::switch::Switch).
    pub(super) way: usize,
    /// Links that it has passed and the current one.
    pub(super) links: usize,
}

/// Counts the packet as lost if it is dropped before it has arrived: links drop packets silently.
#[derive(Debug)]
struct Fate {
    lost: Rc<Cell<u64>>,
    has_arrived: bool,
}

impl IpPacket {
    pub(super) fn new(buffer: Buffer, way: usize, lost: &Rc<Cell<u64>>) -> Self {
        Self {
            buffer,
            journey: Journey { way, links: 0 },
            checksum: Checksum::Stale,
            fate: Fate { lost: Rc::clone(lost), has_arrived: false },
        }
    }

    /// It has reached the end of its way.
    pub(super) fn arrive(&mut self) {
        self.fate.has_arrived = true;
    }
}

impl Drop for Fate {
    fn drop(&mut self) {
        if !self.has_arrived {
            self.lost.set(self.lost.get() + 1);
        }
    }
}

impl Clone for IpPacket {
    fn clone(&self) -> Self {
        Self {
            buffer: self.buffer.clone(),
            journey: self.journey,
            checksum: self.checksum,
            fate: Fate { lost: Rc::clone(&self.fate.lost), has_arrived: false },
        }
    }
}

impl Parcel for IpPacket {
    /// With a stale checksum any bit of the packet. With a repaired one a bit of the transport's payload, since a
    /// header with a valid checksum and a wrong field would be another packet, not a damaged one. A packet without
    /// payload then stays as it is.
    fn flip_bit(&mut self, random: u64) {
        let packet = self.buffer.bytes_mut();
        match self.checksum {
            Checksum::Stale => {
                let bit = place(random, packet.len());
                if let Some(byte) = packet.get_mut(bit / 8) {
                    *byte ^= 1 << (bit % 8);
                }
            }
            Checksum::Repaired => {
                let Some(header) = Header::read(packet) else { return };
                let payload = header.payload(packet);
                let bit = place(random, payload.len());
                let at = payload.start + bit / 8;
                if payload.is_empty() {
                    return;
                }
                let even = at & !1;
                let mask = if at == even { 0x0100 } else { 1 };
                if let Some(old) = header::word(packet, even) {
                    header.replace(packet, even, old ^ (mask << (bit % 8)));
                }
            }
        }
    }

    fn is_ecn_capable(&self) -> bool {
        // RFC 3168: a packet that was marked before stays marked.
        header::ecn(self.buffer.bytes()) != 0
    }

    fn is_udp(&self) -> bool {
        let header = Header::read(self.buffer.bytes());
        header.is_some_and(|header| header.transport() == Transport::Udp)
    }

    fn mark_congestion(&mut self) {
        header::mark_congestion(self.buffer.bytes_mut());
    }

    fn set_ecn(&mut self, mark: Ecn) {
        header::set_ecn(
            self.buffer.bytes_mut(),
            match mark {
                Ecn::NotEct => 0,
                Ecn::Ect1 => 1,
                Ecn::Ect0 => 2,
                Ecn::Ce => 3,
            },
        );
    }
}

/// One of the bits of this many bytes; 0 if there are none.
fn place(random: u64, bytes: usize) -> usize {
    let bits = (bytes as u64).saturating_mul(8);
    usize::try_from(random.checked_rem(bits).unwrap_or(0)).unwrap_or(0)
}
