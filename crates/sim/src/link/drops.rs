//! Packets that a network drops by their kind, as some firewalls drop UDP.

use super::parcel::Parcel;

/// What a link drops at its entrance, without an ICMP error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Drops {
    /// Nothing.
    #[default]
    Nothing,
    /// UDP datagrams.
    Udp,
}

impl Drops {
    /// Each with its word.
    pub const WORDS: [(&'static str, Self); 2] = [("nothing", Self::Nothing), ("udp", Self::Udp)];

    pub(super) fn has<P: Parcel>(self, packet: &P) -> bool {
        match self {
            Self::Nothing => false,
            Self::Udp => packet.is_udp(),
        }
    }
}
