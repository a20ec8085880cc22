//! The boundary between the engine and the wires: all calls of the engine to a wire.
//!
//! Each connection uses one wire, chosen once. The engine decides which packets go where; the wire defines their
//! encoding.

use manyway_wire::PathId;
use smallvec::SmallVec;

use crate::engine::packet::Built;
use crate::engine::{Carry, ChallengePacket, Engine};
use crate::mmsp1::Mmsp1;
use crate::mmsp2::{self, Mmsp2};
use crate::packet::content::SentContent;
use crate::scheduler::{NextUp, ReadyStream};
use crate::stream::backlog::Backlog;
use crate::stream::priority::ClassFilter;
#[cfg(feature = "toy-wire")]
use crate::toy::Toy;
use crate::{Instant, SealJobs, Transmit};

/// The wire of a connection.
#[derive(Debug)]
pub(crate) enum Wire {
    /// Streams and messages over packets that TLS 1.3 protects.
    Mmsp2(Box<Mmsp2>),
    /// Messages in clear text, as the thesis defines them.
    Mmsp1(Box<Mmsp1>),
    /// Plain counters: the smallest wire that the engine can drive, for its tests.
    #[cfg(feature = "toy-wire")]
    Toy(Box<Toy>),
}

/// One arm for each wire.
macro_rules! for_wire {
    ($self:ident, $wire:ident => $call:expr) => {
        match $self {
            Self::Mmsp2($wire) => $call,
            Self::Mmsp1($wire) => $call,
            #[cfg(feature = "toy-wire")]
            Self::Toy($wire) => $call,
        }
    };
}

/// One arm for each wire of a [`Connection`](crate::Connection).
macro_rules! for_connection_wire {
    ($connection_wire:expr, $wire:ident => $call:expr) => {
        match $connection_wire {
            crate::wire::Wire::Mmsp2($wire) => $call,
            crate::wire::Wire::Mmsp1($wire) => $call,
            #[cfg(feature = "toy-wire")]
            crate::wire::Wire::Toy(_) => unreachable!("the toy wire has a connection of its own"),
        }
    };
}
pub(crate) use for_connection_wire;

/// Packets and time.
impl Wire {
    /// Writes what has precedence over the engine's packets, such as the handshake and the close.
    pub(crate) fn poll_transmit(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        for_wire!(self, wire => wire.poll_transmit(engine, now, buffer))
    }

    /// Appends one packet of at most this size for a path; `None` if it would be empty, or may not be sent.
    pub(crate) fn build(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
        place: (PathId, usize),
        carry: Carry,
    ) -> Option<Built> {
        for_wire!(self, wire => wire.build(engine, now, buffer, place, carry))
    }

    /// Appends packets for a path, each of exactly this size and up to this number, that carry bulk data only, and records
    /// them; returns how many. [`build`](Self::build) appended another one before.
    pub(crate) fn build_row(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
        row: (PathId, usize, usize),
        carry: Carry,
    ) -> usize {
        match self {
            Self::Mmsp2(wire) => mmsp2::build_row(wire, engine, now, buffer, row, carry),
            Self::Mmsp1(_) => 0,
            #[cfg(feature = "toy-wire")]
            Self::Toy(_) => 0,
        }
    }

    /// Writes a path challenge, a response, or both, into the empty `buffer`. The wire takes the packet number itself: a
    /// challenge is sent whatever else is.
    pub(crate) fn build_challenge(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
        path: PathId,
        packet: &ChallengePacket,
    ) -> Option<Built> {
        for_wire!(self, wire => wire.build_challenge(engine, now, buffer, path, packet))
    }

    /// Moves the jobs that seal the packets of a batch, which are complete but for that, to `jobs`, before the next batch
    /// is built.
    pub(crate) fn move_jobs(&mut self, jobs: &mut SealJobs) {
        for_wire!(self, wire => wire.move_jobs(jobs));
    }

    /// Carries out the notices of the engine, and passes on the fate of content. Costs nothing if there are none.
    pub(crate) fn carry_out(&mut self, engine: &mut Engine, now: Instant) {
        for_wire!(self, wire => wire.carry_out(engine, now));
    }

    /// The paths for packets with the acknowledgements that are due.
    pub(crate) fn ack_carriers(&self, engine: &Engine, now: Instant) -> SmallVec<[PathId; 8]> {
        for_wire!(self, wire => wire.ack_carriers(engine, now))
    }

    /// When [`on_timeout`](Self::on_timeout) is due.
    pub(crate) fn deadline(&self, engine: &Engine) -> Option<Instant> {
        for_wire!(self, wire => wire.deadline(engine))
    }

    /// Does the due work of the handshake and the close, and ends the connection if the engine says that it expired.
    pub(crate) fn on_timeout(&mut self, engine: &mut Engine, now: Instant) {
        for_wire!(self, wire => wire.on_timeout(engine, now));
    }

    /// This host slept until now.
    pub(crate) fn on_wake(&mut self, engine: &Engine, now: Instant) {
        for_wire!(self, wire => wire.on_wake(engine, now));
    }

    /// The connection is idle: frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        for_wire!(self, wire => wire.shrink_to_fit());
    }
}

/// Pending and sent data: the input of the engine and of schedulers.
impl Wire {
    /// Whether control blocks wait, which go on any path regardless of its window.
    pub(crate) fn wants_control(&self) -> bool {
        for_wire!(self, wire => wire.wants_control())
    }

    /// Whether data that `filter` takes could be sent now.
    pub(crate) fn wants_data(&self, filter: ClassFilter) -> bool {
        for_wire!(self, wire => wire.streams.wants_data(filter))
    }

    /// The waiting data that `filter` takes, and the credit for it.
    pub(crate) fn backlog_of(&self, filter: ClassFilter) -> Backlog {
        for_wire!(self, wire => wire.streams.backlog_of(filter))
    }

    /// The streams that could send data that `filter` takes, in their order.
    pub(crate) fn ready_streams(&self, filter: ClassFilter, list: &mut Vec<ReadyStream>) {
        for_wire!(self, wire => wire.streams.ready_streams(filter, list));
    }

    /// Urgent bytes that wait; `None` if there are none.
    pub(crate) fn urgent_backlog(&self) -> Option<u64> {
        for_wire!(self, wire => wire.streams.urgent_backlog())
    }

    /// The next data that `filter` takes.
    pub(crate) fn next_up(&self, filter: ClassFilter) -> Option<NextUp> {
        for_wire!(self, wire => wire.streams.next_up(filter))
    }

    /// Whether all written data has arrived.
    pub(crate) fn is_idle(&self) -> bool {
        for_wire!(self, wire => wire.streams.is_idle())
    }

    /// Whether data waits for credit of the peer.
    pub(crate) fn is_blocked(&self) -> bool {
        for_wire!(self, wire => wire.streams.is_blocked())
    }

    /// Reports again to the peer which credit the data waits for.
    pub(crate) fn repeat_blocked(&mut self) {
        for_wire!(self, wire => wire.streams.repeat_blocked());
    }

    /// Bytes of data received.
    pub(crate) fn bytes_received(&self) -> u64 {
        for_wire!(self, wire => wire.streams.received())
    }

    /// Whether the peer has started a stream that is incomplete.
    pub(crate) fn expects_more(&self) -> bool {
        for_wire!(self, wire => wire.streams.expects_more())
    }

    /// Whether this content blocks the head of line.
    pub(crate) fn is_held_up_by(&self, content: &SentContent) -> bool {
        for_wire!(self, wire => wire.streams.is_held_up_by(content))
    }

    /// Whether the peer has this content, from any packet.
    pub(crate) fn has_arrived(&self, content: &SentContent) -> bool {
        for_wire!(self, wire => wire.streams.has_arrived(content))
    }

    /// When the next of the waiting messages expires.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        for_wire!(self, wire => wire.streams.next_expiry())
    }

    /// Gives up the messages that expire before data sent now could arrive.
    pub(crate) fn expire_messages(&mut self, arrival: Instant) {
        for_wire!(self, wire => wire.streams.expire_messages(arrival));
    }
}
