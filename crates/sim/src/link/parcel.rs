//! Packets as a link sees them.

use manyway_proto::Ecn;

/// What a link can do to a packet besides forwarding it.
pub trait Parcel: Clone {
    /// Flips one bit, chosen by the random number. By default nothing, for packets without content.
    fn flip_bit(&mut self, random: u64) {
        let _ = random;
    }

    /// Whether the packet may be marked instead of dropped. By default not.
    fn is_ecn_capable(&self) -> bool {
        false
    }

    /// Marks the packet with CE.
    fn mark_congestion(&mut self) {}

    /// Whether it is a UDP datagram. By default not: packets without a header have no kind.
    fn is_udp(&self) -> bool {
        false
    }

    /// Replaces the mark of a packet that has one. By default nothing, for packets without a header.
    fn set_ecn(&mut self, mark: Ecn) {
        let _ = mark;
    }
}

impl Parcel for () {}

impl Parcel for Vec<u8> {
    fn flip_bit(&mut self, random: u64) {
        let bits = (self.len() as u64).saturating_mul(8);
        let bit = random.checked_rem(bits).unwrap_or(0);
        let place = usize::try_from(bit / 8).unwrap_or(usize::MAX);
        if let Some(byte) = self.get_mut(place) {
            *byte ^= 1 << (bit % 8);
        }
    }
}
