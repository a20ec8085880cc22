//! A packet that a wire has built: what the engine records of it.

use manyway_wire::PathId;

use crate::EncryptionLevel;
use crate::observe::{Direction, ObservedPacket, PacketContent};
use crate::packet::content::Contents;
use crate::recovery::{PacketKind, SentPacket};

/// A complete packet.
#[derive(Debug)]
pub(crate) struct Built {
    /// Its encryption level; `None` in MMSP/1, which has none.
    pub(crate) level: Option<EncryptionLevel>,
    pub(crate) path: PathId,
    pub(crate) packet_number: u64,
    /// Whether it takes the number: in MMSP/1 only a packet with DATA does, because nothing else is acknowledged.
    pub(crate) takes_number: bool,
    /// Bytes of the whole packet.
    pub(crate) size: usize,
    pub(crate) kind: PacketKind,
    pub(crate) contents: Contents,
    /// Whether it carries stream data.
    pub(crate) carries_data: bool,
    /// What follows the header, before it was sealed, if there is an observer.
    pub(crate) clear: Option<Vec<u8>>,
}

impl Built {
    /// The packet for loss recovery, which takes its contents.
    pub(crate) fn take_sent(&mut self) -> SentPacket {
        let size = u16::try_from(self.size).unwrap_or(u16::MAX);
        SentPacket::new(self.packet_number, size, self.kind, std::mem::take(&mut self.contents))
    }

    /// The packet for observers, if its payload was kept.
    pub(crate) fn observed(&self) -> Option<ObservedPacket<'_>> {
        let payload = self.clear.as_deref()?;
        Some(ObservedPacket {
            direction: Direction::Sent,
            content: match self.level {
                Some(level) => PacketContent::Mmsp2 { level, payload },
                None => PacketContent::Mmsp1 { payload },
            },
            path: self.path,
            packet_number: self.takes_number.then_some(self.packet_number),
            size: self.size,
        })
    }
}
