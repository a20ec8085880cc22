//! What observers hear of packets and of the beginning of a connection.

use std::fmt;
use std::sync::Arc;

use manyway_wire::mmsp2::Blocks;
use manyway_wire::{ConnectionId, PathId, Side};

use super::Observer;
use crate::protection::EncryptionLevel;
use crate::{FourTuple, Instant};

/// Which way a packet went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// This end sealed it and gave it to the driver.
    Sent,
    /// It came from the peer and was opened.
    Received,
}

/// A packet with its inside in clear: whoever hears it hears the bytes of the application.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ObservedPacket<'a> {
    /// Which way it went.
    pub direction: Direction,
    /// Which keys protect it.
    pub level: EncryptionLevel,
    /// Its path; path 0 in the set-up.
    pub path: PathId,
    /// Its number; open packets, set-up packets and each path count apart.
    pub packet_number: u64,
    /// Its bytes, header and tag included.
    pub size: usize,
    /// Its inside.
    pub payload: &'a [u8],
}

impl<'a> ObservedPacket<'a> {
    /// The blocks inside.
    pub fn blocks(&self) -> Blocks<'a> {
        Blocks::new(self.payload)
    }
}

/// Without the inside, so that no log shows it by accident.
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

/// A connection that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Beginning {
    /// When.
    pub now: Instant,
    /// Which end this is.
    pub side: Side,
    /// The destination of the client's first packet, the same at both ends. The client chose it: to a server it is a
    /// foreign value of 8 to 20 bytes.
    pub original_destination: ConnectionId,
    /// The id that this end chose for itself.
    pub local_id: ConnectionId,
    /// Between which addresses; a client that races begins with this pair.
    pub tuple: FourTuple,
}

impl Beginning {
    /// A beginning that never was, to try an observer out. `ids` are the first destination and the id of this end.
    pub fn new(now: Instant, side: Side, ids: [ConnectionId; 2], tuple: FourTuple) -> Self {
        let [original_destination, local_id] = ids;
        Self { now, side, original_destination, local_id, tuple }
    }
}

/// Makes an observer for each connection that begins, or none. See
/// [`ConnectionConfig::set_observers`](crate::ConnectionConfig::set_observers).
///
/// A server is asked for every set-up that opens, before it is known who the client is: what an observer keeps for one
/// must be bounded.
#[derive(Clone)]
pub struct Observers(Arc<MakeObserver>);

type MakeObserver = dyn Fn(&Beginning) -> Option<Box<dyn Observer>> + Send + Sync;

impl Observers {
    /// Asks `make` for each connection; it must not block.
    pub fn new(make: impl Fn(&Beginning) -> Option<Box<dyn Observer>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    pub(crate) fn observer(&self, beginning: &Beginning) -> Option<Box<dyn Observer>> {
        (self.0)(beginning)
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers").finish_non_exhaustive()
    }
}
