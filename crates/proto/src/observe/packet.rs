//! Packets and the start of a connection, for observers.

use std::fmt;

use manyway_wire::mmsp2::Blocks;
use manyway_wire::{ConnectionId, PathId, Side, mmsp1};

use crate::EncryptionLevel;
use crate::{FourTuple, Instant};

/// The direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// This end sealed it and passed it to the driver.
    Sent,
    /// It came from the peer and was decrypted.
    Received,
}

/// A packet with its content in the clear: it reveals the bytes of the application to the observer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ObservedPacket<'a> {
    /// Its direction.
    pub direction: Direction,
    /// What it carries.
    pub content: PacketContent<'a>,
    /// Its path; path 0 in the handshake, and for a packet of MMSP/1 that belongs to none.
    pub path: PathId,
    /// Its number: Initial packets, Handshake packets and each path have number spaces of their own. Over MMSP/1 only this
    /// end's packets with DATA have one, which does not travel.
    pub packet_number: Option<u64>,
    /// Its size in bytes, header and tag included.
    pub size: usize,
}

/// The content of a packet, by its wire.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PacketContent<'a> {
    /// A packet of MMSP/2.
    Mmsp2 {
        /// Its encryption level.
        level: EncryptionLevel,
        /// Its decrypted payload.
        payload: &'a [u8],
    },
    /// A packet of MMSP/1.
    Mmsp1 {
        /// What follows its header.
        payload: &'a [u8],
    },
}

impl<'a> ObservedPacket<'a> {
    /// The blocks of a packet of MMSP/2; none of one of MMSP/1.
    pub fn blocks(&self) -> Blocks<'a> {
        match self.content {
            PacketContent::Mmsp2 { payload, .. } => Blocks::new(payload),
            PacketContent::Mmsp1 { .. } => Blocks::new(&[]),
        }
    }

    /// The blocks of a packet of MMSP/1; none of one of MMSP/2.
    pub fn mmsp1_blocks(&self) -> mmsp1::Blocks<'a> {
        match self.content {
            PacketContent::Mmsp1 { payload } => mmsp1::Blocks::new(payload),
            PacketContent::Mmsp2 { .. } => mmsp1::Blocks::new(&[]),
        }
    }
}

/// Omits the payload, so that no log shows it by accident.
impl fmt::Debug for ObservedPacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedPacket")
            .field("direction", &self.direction)
            .field("content", &self.content)
            .field("path", &self.path)
            .field("packet_number", &self.packet_number)
            .field("size", &self.size)
            .finish()
    }
}

/// Omits the payload, so that no log shows it by accident.
impl fmt::Debug for PacketContent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mmsp2 { level, .. } => {
                f.debug_struct("Mmsp2").field("level", level).finish_non_exhaustive()
            }
            Self::Mmsp1 { .. } => f.debug_struct("Mmsp1").finish_non_exhaustive(),
        }
    }
}

/// The start of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Beginning {
    /// Its time.
    pub now: Instant,
    /// The side of this end.
    pub side: Side,
    /// The destination of the client's first packet, the same at both ends. The client chose it: to a server it is a
    /// foreign value of 8 to 20 bytes. Over MMSP/1 it holds the tag of this end.
    pub original_destination: ConnectionId,
    /// The id that this end chose for itself; over MMSP/1 it holds its tag.
    pub local_id: ConnectionId,
    /// Its addresses; a client with several candidates starts with this pair.
    pub tuple: FourTuple,
}

impl Beginning {
    /// A start without a connection, to test an observer. `ids` are the original destination and the id of this end.
    pub fn new(now: Instant, side: Side, ids: [ConnectionId; 2], tuple: FourTuple) -> Self {
        let [original_destination, local_id] = ids;
        Self { now, side, original_destination, local_id, tuple }
    }
}
