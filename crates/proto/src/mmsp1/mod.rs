//! MMSP/1, the part of a connection that belongs to one wire: its handshake, tags, blocks and packets, and the streams
//! that these carry (chapter 3 of the specification).
//!
//! The [`Engine`] has the part that all wires share. Each call receives it; its notices say what to do, and
//! [`Mmsp1::carry_out`] carries them out. The other files here know neither the engine nor the connection.
//!
//! Sending: [`outbox`] has what an application wrote to a stream, [`cuts`] what was given a TSEQ, and [`sack`]
//! translates acknowledgements of TSEQs to the packets of the engine. Receiving: [`received`] knows which TSEQs have
//! arrived, [`reassembly`] joins fragments, [`ordering`] puts the messages of a stream in order, and [`sack_policy`]
//! decides when a SACK is due. [`window`] limits what is sent and kept. [`streams`] holds all streams of a connection.
//! [`handshake`] and [`closing`] are the machines of the connection, run by a [`table`].

mod acknowledged;
mod carry_out;
mod closing;
mod cuts;
#[cfg(test)]
mod diagrams;
mod ending;
mod errors;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod handshake;
mod handshaking;
mod input;
mod monitor;
mod named;
mod ordering;
mod outbox;
mod output;
mod peer_addresses;
mod reassembly;
mod received;
mod sack;
mod sack_policy;
mod start;
mod streams;
mod table;
#[cfg(test)]
mod testing;
mod timers;
mod tseq;
mod unnumbered;
mod window;
#[cfg(test)]
mod wrap_tests;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::PathId;
use manyway_wire::mmsp1::{Opening, Tag};

pub(crate) use input::PacketArrival;
pub(crate) use named::Named;
pub(crate) use output::write_packet;
pub(crate) use start::{Start, opening};

use closing::Closing;
use errors::Errors;
use handshake::{Handshake, HandshakeState};
use monitor::Monitor;
use peer_addresses::PeerAddresses;
use sack_policy::SackPolicy;
use streams::Streams;

use crate::engine::Engine;
use crate::{ConnectionError, FourTuple, Instant, LocalCandidate, Undelivered};

/// The state of a connection that belongs to MMSP/1 alone.
#[derive(Debug)]
pub(crate) struct Mmsp1 {
    /// What this end says of itself, and what the peer says.
    own: Opening,
    peer: Option<Opening>,
    /// The ports in the header: this end's and the peer's.
    ports: [u16; 2],
    /// The addresses that a client names in its SYN.
    named: Named,
    handshake: Handshake,
    closing: Closing,
    pub(crate) streams: Streams,
    sacks: SackPolicy,
    monitor: Monitor,
    peer_addresses: PeerAddresses,
    errors: Errors,
    /// Packets that answer others, and go between exactly these addresses.
    answers: VecDeque<(FourTuple, Vec<u8>)>,
    /// The address and reason of a SYN that was not delivered: the last that a host or router gave, or else the last.
    undelivered: Option<(SocketAddr, Undelivered)>,
    /// Code and text of this end's close.
    close_reason: Option<(u64, String)>,
    counts: Counts,
    tag_changes: VecDeque<TagChange>,
}

#[derive(Debug, Default)]
struct Counts {
    established: bool,
    /// Whether the application was told the end.
    reported: bool,
    /// Packets with a wrong checksum.
    damaged: u64,
}

/// A change of the tags under which packets reach a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TagChange {
    /// The peer told its tag.
    PeerKnown {
        /// Tag of the peer.
        peer: Tag,
    },
    /// The peer with this tag takes no connection; the attempt goes on with others.
    PeerLost {
        /// Tag of the peer.
        peer: Tag,
    },
    /// The connection has ended; `pto` is its longest probe timeout.
    Ended {
        /// Tag of this end.
        own: Tag,
        /// Tag of the peer, if it is known.
        peer: Option<Tag>,
        /// When.
        at: Instant,
        /// The longest probe timeout of its paths.
        pto: Duration,
        /// Whether it ended by FIN, FIN-ACK and FIN-DONE.
        is_orderly: bool,
    },
}

impl Mmsp1 {
    /// Whether any packet of the peer counted.
    pub(crate) fn has_heard(&self) -> bool {
        self.peer.is_some()
    }

    /// Whether the handshake was completed, now or before the end.
    pub(crate) fn was_established(&self) -> bool {
        self.counts.established
    }

    /// A packet under the tag of this end came with a wrong checksum.
    pub(crate) fn on_damaged(&mut self) {
        self.counts.damaged += 1;
    }

    /// Packets with a wrong checksum.
    pub(crate) fn packets_refused(&self) -> u64 {
        self.counts.damaged
    }

    /// There are no keys.
    pub(crate) fn key_updates(&self) -> u64 {
        0
    }

    /// The next change of the tags.
    pub(crate) fn poll_tag_change(&mut self) -> Option<TagChange> {
        self.tag_changes.pop_front()
    }

    /// What this end says of itself.
    pub(crate) fn own(&self) -> &Opening {
        &self.own
    }

    /// The tag of packets to the peer; 0 before it is known.
    fn peer_tag(&self) -> Tag {
        self.peer.map_or(Tag(0), |peer| peer.tag)
    }

    /// The tag that the peer chose, if it is known.
    pub(crate) fn known_peer(&self) -> Option<Tag> {
        self.peer.map(|peer| peer.tag)
    }

    /// Whether this end waits for the answer to a SYN that it sent between these addresses.
    pub(crate) fn waits_for_syn_ack(&self, tuple: &FourTuple) -> bool {
        self.handshake.state() == HandshakeState::SynSent && self.handshake.is_candidate(tuple)
    }

    /// Whether this end waits for SYN-ACK or PONG.
    pub(crate) fn is_attempting(&self) -> bool {
        matches!(self.handshake.state(), HandshakeState::SynSent | HandshakeState::InfoPinged)
    }

    /// Whether the peer at these addresses answered the SYN of this end, which has the larger tag and so is the client:
    /// a SYN of the peer's own attempt counts no more (spec 3.143).
    pub(crate) fn overrules_syn(&self, tuple: &FourTuple, tag: Tag) -> bool {
        let waits_for_pong = self.handshake.state() == HandshakeState::InfoPinged;
        waits_for_pong && self.handshake.is_candidate(tuple) && self.own.tag >= tag
    }

    /// Sets the addresses that this end may use. A server ignores those that the client did not name, so only the named
    /// ones come back.
    pub(crate) fn set_locals(&self, engine: &mut Engine, now: Instant, locals: &[LocalCandidate]) {
        let named = |local: &&LocalCandidate| {
            engine.side == crate::Side::Server || self.named.names(local.address.address.ip())
        };
        let usable: Vec<LocalCandidate> = locals.iter().filter(named).copied().collect();
        engine.manager.set_locals(&usable);
        engine.on_locals_changed(now);
    }

    /// The system refuses to send handshake packets between these addresses: the others go on.
    pub(crate) fn on_send_refused(&mut self, _now: Instant, tuple: &FourTuple) {
        self.handshake.on_refused(tuple);
    }

    /// An ICMP error that quotes a packet, or this host, says that a SYN was not delivered. The attempt ends once a report
    /// came for the last pair of addresses; true if the report counts.
    pub(crate) fn on_candidate_unreachable(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        tuple: &FourTuple,
        quoted: Option<&[u8]>,
        undelivered: Undelivered,
    ) -> bool {
        let is_own = |quoted| quoted_tag(quoted) == Some(self.own.tag);
        if !quoted.is_none_or(is_own) || !self.waits_for_syn_ack(tuple) {
            return false;
        }
        // A host that answers says more than an absent one, as over MMSP/2 (spec 7.44).
        let answered = self.undelivered.filter(|(_, known)| *known != Undelivered::NoNeighbour);
        let is_absent = undelivered == Undelivered::NoNeighbour;
        let (remote, undelivered) = answered.filter(|_| is_absent).unwrap_or((tuple.remote, undelivered));
        self.undelivered = Some((remote, undelivered));
        if !self.handshake.on_refused(tuple) {
            self.give_up(engine, now, ConnectionError::Unreachable { remote, undelivered });
        }
        true
    }

    /// The path to that address, if the quoted packet is one of this connection.
    pub(crate) fn quoted_path(&self, engine: &Engine, remote: SocketAddr, quoted: &[u8]) -> Option<PathId> {
        let is_quoted = self.peer.is_some() && quoted_tag(quoted) == Some(self.peer_tag());
        let mut to_it = engine.paths.iter().filter(|path| is_quoted && path.tuple().remote == remote);
        to_it.next().map(|path| path.id)
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.streams.shrink_to_fit();
        self.peer_addresses.shrink_to_fit();
        self.errors.shrink_to_fit();
        self.answers.shrink_to_fit();
        self.tag_changes.shrink_to_fit();
    }
}

/// The connection id of a packet that an ICMP error quotes.
fn quoted_tag(quoted: &[u8]) -> Option<Tag> {
    let bytes = quoted.get(8..)?.first_chunk()?;
    Some(Tag(u32::from_be_bytes(*bytes)))
}
