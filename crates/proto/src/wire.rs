//! The border between the engine and the wires: all that the engine may ask of a wire.
//!
//! Each connection speaks one wire, chosen once. The engine knows which packets have to go and where; the wire knows
//! what they look like.

use manyway_wire::PathId;

use crate::engine::{Carry, Engine, Probing};
use crate::mmsp2::{Arrival, Mmsp2};
use crate::packet::content::SentContent;
use crate::scheduler::{NextUp, ReadyStream};
use crate::stream::priority::ClassFilter;
use crate::stream::set::Backlog;
use crate::{Instant, Transmit};

/// The wire of a connection.
#[derive(Debug)]
pub(crate) enum Wire {
    /// Streams and messages over packets that TLS 1.3 protects.
    Mmsp2(Box<Mmsp2>),
}

/// Packets and time.
impl Wire {
    /// Takes a datagram for this connection. What follows from it for paths is the engine's, what the engine wants said
    /// of that is carried out before this returns.
    pub(crate) fn on_datagram(&mut self, engine: &mut Engine, now: Instant, arrival: Arrival<'_>) {
        match self {
            Self::Mmsp2(wire) => wire.handle_datagram(engine, now, arrival),
        }
    }

    /// Writes what goes before everything that the engine decides, such as the handshake and the close.
    pub(crate) fn poll_transmit(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        match self {
            Self::Mmsp2(wire) => wire.poll_transmit(engine, now, buffer),
        }
    }

    /// Appends one packet of at most so many bytes for a path, and tells its size; `None` if there is nothing to say, or no
    /// room to say it.
    pub(crate) fn build(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
        place: (PathId, usize),
        carry: Carry,
    ) -> Option<usize> {
        match self {
            Self::Mmsp2(wire) => wire.build(engine, now, buffer, place, carry),
        }
    }

    /// Writes a path challenge, the answer to one, or both, into the empty `buffer`.
    pub(crate) fn build_probe(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
        path: PathId,
        probing: &Probing,
    ) -> Option<Transmit> {
        match self {
            Self::Mmsp2(wire) => wire.build_probe(engine, now, buffer, path, probing),
        }
    }

    /// Takes the notices of the engine, and what became of content. Costs nothing if there are none.
    pub(crate) fn carry_out(&mut self, engine: &mut Engine, now: Instant) {
        match self {
            Self::Mmsp2(wire) => wire.carry_out(engine, now),
        }
    }

    /// When [`on_timeout`](Self::on_timeout) is due.
    pub(crate) fn deadline(&self, engine: &Engine) -> Option<Instant> {
        match self {
            Self::Mmsp2(wire) => wire.deadline(engine),
        }
    }

    /// Does what is due of the handshake and the close, and ends the connection if the engine says that it expired.
    pub(crate) fn on_timeout(&mut self, engine: &mut Engine, now: Instant) {
        match self {
            Self::Mmsp2(wire) => wire.on_timeout(engine, now),
        }
    }

    /// This host slept until now.
    pub(crate) fn on_wake(&mut self, engine: &Engine, now: Instant) {
        match self {
            Self::Mmsp2(wire) => wire.on_wake(engine, now),
        }
    }

    /// The connection rests: gives back memory that is not used.
    pub(crate) fn shrink_to_fit(&mut self) {
        match self {
            Self::Mmsp2(wire) => wire.shrink_to_fit(),
        }
    }
}

/// What waits to be sent, and what was sent: all that the engine and schedulers decide by.
impl Wire {
    /// Whether there are facts for the peer that go on any path, whatever its window.
    pub(crate) fn wants_control(&self) -> bool {
        match self {
            Self::Mmsp2(wire) => wire.wants_control(),
        }
    }

    /// Whether data that `filter` takes could be sent now.
    pub(crate) fn wants_data(&self, filter: ClassFilter) -> bool {
        match self {
            Self::Mmsp2(wire) => wire.streams.wants_data(filter),
        }
    }

    /// What waits of that which `filter` takes, and the credit for it.
    pub(crate) fn backlog_of(&self, filter: ClassFilter) -> Backlog {
        match self {
            Self::Mmsp2(wire) => wire.streams.backlog_of(filter),
        }
    }

    /// The streams that could send what `filter` takes, in their order.
    pub(crate) fn ready_streams(&self, filter: ClassFilter, list: &mut Vec<ReadyStream>) {
        match self {
            Self::Mmsp2(wire) => wire.streams.ready_streams(filter, list),
        }
    }

    /// Bytes that wait and are urgent; `None` if there are none.
    pub(crate) fn urgent_backlog(&self) -> Option<u64> {
        match self {
            Self::Mmsp2(wire) => wire.streams.urgent_backlog(),
        }
    }

    /// What goes next of that which `filter` takes.
    pub(crate) fn next_up(&self, filter: ClassFilter) -> Option<NextUp> {
        match self {
            Self::Mmsp2(wire) => wire.streams.next_up(filter),
        }
    }

    /// Whether everything that was written has arrived.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Self::Mmsp2(wire) => wire.streams.is_idle(),
        }
    }

    /// Whether data wait for credit of the peer.
    pub(crate) fn is_blocked(&self) -> bool {
        match self {
            Self::Mmsp2(wire) => wire.streams.is_blocked(),
        }
    }

    /// Tells the peer once more for which credit data wait.
    pub(crate) fn repeat_blocked(&mut self) {
        match self {
            Self::Mmsp2(wire) => wire.streams.repeat_blocked(),
        }
    }

    /// Bytes of data that have come.
    pub(crate) fn bytes_received(&self) -> u64 {
        match self {
            Self::Mmsp2(wire) => wire.streams.received(),
        }
    }

    /// Whether the peer has begun something that is not complete.
    pub(crate) fn expects_more(&self) -> bool {
        match self {
            Self::Mmsp2(wire) => wire.streams.expects_more(),
        }
    }

    /// Whether delivery to the application at the peer waits for this content.
    pub(crate) fn is_held_up_by(&self, content: &SentContent) -> bool {
        match self {
            Self::Mmsp2(wire) => wire.streams.is_held_up_by(content),
        }
    }

    /// Whether the peer has this content, by whatever packet.
    pub(crate) fn has_arrived(&self, content: &SentContent) -> bool {
        match self {
            Self::Mmsp2(wire) => wire.streams.has_arrived(content),
        }
    }

    /// When the next of the messages that wait loses its use.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        match self {
            Self::Mmsp2(wire) => wire.streams.next_expiry(),
        }
    }

    /// Gives up the messages that lose their use before something sent now could arrive.
    pub(crate) fn expire_messages(&mut self, arrival: Instant) {
        match self {
            Self::Mmsp2(wire) => wire.streams.expire_messages(arrival),
        }
    }
}
