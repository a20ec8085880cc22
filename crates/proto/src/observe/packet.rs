//! Packets and the start of a connection, for observers.

use std::fmt;

use manyway_wire::mmsp2::Blocks;
use manyway_wire::{ConnectionId, PathId, Side};

use crate::protection::EncryptionLevel;
use crate::{FourTuple, Instant};

/// The direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// This end sealed it and passed it to the driver.
    Sent,
    /// It came from the peer and was decrypted.
    Received,
}

/// A packet with its decrypted payload: it reveals the bytes of the application to the observer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ObservedPacket<'a> {
    /// Its direction.
    pub direction: Direction,
    /// Its encryption level.
    pub level: EncryptionLevel,
    /// Its path; path 0 in the handshake.
    pub path: PathId,
    /// Its number; Initial packets, Handshake packets and each path have number spaces of their own.
    pub packet_number: u64,
    /// Its size in bytes, header and tag included.
    pub size: usize,
    /// Its payload.
    pub payload: &'a [u8],
}

impl<'a> ObservedPacket<'a> {
    /// The blocks of the payload.
    pub fn blocks(&self) -> Blocks<'a> {
        Blocks::new(self.payload)
    }
}

/// Omits the payload, so that no log shows it by accident.
impl fmt::Debug for ObservedPacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedPacket")
            .field("direction", &self.direction)
            .field("level", &self.level)
            .field("path", &self.path)
            .field("packet_number", &self.packet_number)
            .field("size", &self.size)
            .finish_non_exhaustive()
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
    /// foreign value of 8 to 20 bytes.
    pub original_destination: ConnectionId,
    /// The id that this end chose for itself.
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
