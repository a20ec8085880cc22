//! A packet that a wire has built: what the engine records of it.

use crate::packet::content::Contents;
use crate::recovery::{PacketKind, SentPacket};

/// A complete packet.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) packet_number: u64,
    /// Bytes of the whole packet.
    pub(crate) size: usize,
    pub(crate) kind: PacketKind,
    pub(crate) contents: Contents,
    /// Whether it carries stream data.
    pub(crate) carries_data: bool,
}

impl Built {
    /// The packet for loss recovery.
    pub(crate) fn into_sent(self) -> SentPacket {
        let size = u16::try_from(self.size).unwrap_or(u16::MAX);
        SentPacket::new(self.packet_number, size, self.kind, self.contents)
    }
}
