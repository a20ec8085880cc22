//! MMSP/2, the part of a connection that belongs to one wire: its handshake, keys, ids, blocks and packets,
//! and the streams that these carry.
//!
//! The [`Engine`] has the part that all wires share. Each call receives it; its notices say what to send and
//! do, and [`Mmsp2::carry_out`] carries them out.

mod addresses;
mod carry_out;
mod close;
mod control;
mod dispatch;
#[cfg(feature = "fuzzing")]
mod forge;
mod handshake;
mod handshake_output;
mod handshaking;
mod ids;
mod input;
pub(crate) mod message;
mod output;
pub(crate) mod packet_builder;
pub(crate) mod protection;
mod rates;
mod rendezvous;
pub(crate) mod reset_token;
mod row;
mod start;
mod state;
pub(crate) mod stateless;
pub(crate) mod stream;
mod target;
mod target_holder;
mod timers;
pub(crate) mod tls;

pub(crate) use ids::IdChange;
pub(crate) use input::{Arrival, ArrivalRow, handle_datagram, handle_row};
pub(crate) use row::build_row;
pub(crate) use start::{FIRST_KEPT_NUMBER, Start, own_parameters};

use crate::engine::Engine;
use crate::mmsp2::protection::Protector;
use crate::mmsp2::stream::set::StreamSet;
use crate::observe::Fact;
use crate::rendezvous::RendezvousClient;
use crate::{Instant, Transmit, Violation};

use control::Control;
use handshake::HandshakeState;
use ids::{LocalIds, RemoteIds};
use state::Life;
use target::Targets;

/// A breach of the protocol, or a request to end.
type Checked = Result<(), Violation>;

/// Ids of both directions.
#[derive(Debug)]
pub(crate) struct Ids {
    local: LocalIds,
    remote: RemoteIds,
}

impl Ids {
    /// The next change of an id of either direction.
    pub(crate) fn poll_change(&mut self) -> Option<IdChange> {
        self.local.poll_change().or_else(|| self.remote.poll_change())
    }
}

#[derive(Debug, Default)]
struct Counts {
    heard: bool,
    /// Whether TLS completed.
    established: bool,
    /// When this server refused the client's key, until the endpoint takes it.
    refused_client: Option<Instant>,
    refused: u64,
    key_updates: u64,
}

/// The state of a connection that belongs to MMSP/2 alone.
#[derive(Debug)]
pub(crate) struct Mmsp2 {
    life: Life,
    handshake: Option<Box<HandshakeState>>,
    protector: Protector,
    /// The client of the rendezvous servers, if there are any.
    rendezvous: Option<Box<RendezvousClient>>,
    pub(crate) ids: Ids,
    pub(crate) streams: StreamSet,
    control: Control,
    /// The rates at which the application wants streams.
    pub(crate) targets: Targets,
    counts: Counts,
    /// DER of the peer's `SubjectPublicKeyInfo`.
    peer_key: Option<Vec<u8>>,
}

impl Mmsp2 {
    /// The peer's key as DER of its `SubjectPublicKeyInfo`, once TLS showed it.
    pub(crate) fn peer_public_key(&self) -> Option<&[u8]> {
        self.peer_key.as_deref()
    }

    /// Whether any packet of the peer was decrypted.
    pub(crate) fn has_heard(&self) -> bool {
        self.counts.heard
    }

    /// Whether the handshake was completed, now or before the end.
    pub(crate) fn was_established(&self) -> bool {
        self.counts.established
    }

    /// When this server refused the client's key; returns it once.
    pub(crate) fn take_refused(&mut self) -> Option<Instant> {
        self.counts.refused_client.take()
    }

    /// Packets that could not be decrypted: damaged, forged, repeated or late.
    pub(crate) fn packets_refused(&self) -> u64 {
        self.counts.refused
    }

    /// Number of key updates.
    pub(crate) fn key_updates(&self) -> u64 {
        self.counts.key_updates
    }

    /// Advances the life cycle of the connection, and reports the phase to the engine.
    fn enter(&mut self, engine: &mut Engine, life: Life) {
        engine.phase = life.phase();
        self.life = life;
    }

    /// Sends what has precedence over the engine's packets: the close, the handshake, a key update, and messages to
    /// rendezvous servers.
    pub(crate) fn poll_transmit(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.drive_close(engine, now);
        if let Some(due) = self.take_due_close(engine, now) {
            return self.transmit_close(engine, now, buffer, &due);
        }
        if !engine.phase.is_open() {
            return None;
        }
        if let Some(transmit) = self.transmit_handshake(engine, now, buffer) {
            return Some(transmit);
        }
        if engine.phase.is_handshaking() {
            return None;
        }
        if self.protector.maybe_update(now, || engine.paths.longest_pto()) {
            self.counts.key_updates += 1;
            engine.observe(now, &Fact::KeyUpdate);
        }
        if self.protector.limit_reached() {
            self.fail(engine, now, Violation::KeyLimitReached);
            let due = self.take_due_close(engine, now)?;
            return self.transmit_close(engine, now, buffer, &due);
        }
        self.transmit_rendezvous(engine, now, buffer)
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.protector.shrink_to_fit();
        self.ids.local.shrink_to_fit();
        self.ids.remote.shrink_to_fit();
        self.control.shrink_to_fit();
        self.streams.shrink_to_fit();
    }
}
