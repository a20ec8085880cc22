//! The treatment of packets with ECN marks by a network (RFC 3168).

use std::fmt;

use manyway_proto::Ecn;

use super::parcel::Parcel;

/// The treatment of packets with a mark, at the entrance of a link. Packets without one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum EcnTreatment {
    /// They keep it.
    #[default]
    Kept,
    /// It is cleared, as by routers that rewrite the whole traffic class field.
    Bleached,
    /// It becomes ECT(1).
    Remarked,
    /// It becomes CE, whether there is a queue or not.
    Congested,
    /// The packets are dropped.
    Dropped,
}

impl EcnTreatment {
    /// Each with its word.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("kept", Self::Kept),
        ("bleached", Self::Bleached),
        ("remarked", Self::Remarked),
        ("congested", Self::Congested),
        ("dropped", Self::Dropped),
    ];

    /// The packet after the treatment, unless it is dropped.
    pub(super) fn treat<P: Parcel>(self, mut packet: P) -> Option<P> {
        if self == Self::Kept || !packet.is_ecn_capable() {
            return Some(packet);
        }
        match self {
            Self::Kept => {}
            Self::Bleached => packet.set_ecn(Ecn::NotEct),
            Self::Remarked => packet.set_ecn(Ecn::Ect1),
            Self::Congested => packet.mark_congestion(),
            Self::Dropped => return None,
        }
        Some(packet)
    }
}

impl fmt::Display for EcnTreatment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(_, treatment)| treatment == self);
        f.pad(word.map_or("", |(word, _)| word))
    }
}
