//! MMSP/2, one wire's half of a connection: its handshake, keys, ids, blocks and packets, and the streams that these carry.
//!
//! What both wires share is the [`Engine`]'s. It is handed in with each call; what it wants to have said and done stands
//! in its notices, which [`Mmsp2::carry_out`] carries out.

mod addresses;
mod carry_out;
mod close;
mod control;
mod dispatch;
#[cfg(feature = "fuzzing")]
mod forge;
mod handshaking;
mod ids;
mod input;
mod output;
mod rates;
mod rendezvous;
mod setup;
mod setup_output;
mod start;
mod state;
mod timers;

pub(crate) use ids::IdChange;
pub(crate) use input::Arrival;
pub(crate) use start::{FIRST_KEPT_NUMBER, Start, own_parameters};

use crate::engine::Engine;
use crate::observe::Fact;
use crate::protection::Protector;
use crate::rendezvous::RendezvousClient;
use crate::stream::set::StreamSet;
use crate::{Instant, Transmit, Violation};

use control::Control;
use ids::{LocalIds, RemoteIds};
use setup::Setup;
use state::Life;

/// A breach of the protocol, or the wish to end.
type Checked = Result<(), Violation>;

/// Ids of both directions.
#[derive(Debug)]
struct Ids {
    local: LocalIds,
    remote: RemoteIds,
}

#[derive(Debug, Default)]
struct Counts {
    heard: bool,
    /// TLS was complete once.
    established: bool,
    /// When this server refused the client's key, until the endpoint has heard of it.
    refused_client: Option<Instant>,
    refused: u64,
    key_updates: u64,
}

/// What MMSP/2 alone has of a connection.
#[derive(Debug)]
pub(crate) struct Mmsp2 {
    life: Life,
    setup: Option<Box<Setup>>,
    protector: Protector,
    /// With the rendezvous servers, if there are any.
    rendezvous: Option<Box<RendezvousClient>>,
    ids: Ids,
    pub(crate) streams: StreamSet,
    control: Control,
    counts: Counts,
    /// DER of the peer's `SubjectPublicKeyInfo`.
    peer_key: Option<Vec<u8>>,
}

impl Mmsp2 {
    /// The peer's key as DER of its `SubjectPublicKeyInfo`, once TLS showed it.
    pub(crate) fn peer_public_key(&self) -> Option<&[u8]> {
        self.peer_key.as_deref()
    }

    /// Whether any packet of the peer was opened.
    pub(crate) fn has_heard(&self) -> bool {
        self.counts.heard
    }

    /// Whether the set-up was complete, now or before the end.
    pub(crate) fn was_established(&self) -> bool {
        self.counts.established
    }

    /// When this server refused the client's key, told once.
    pub(crate) fn take_refused(&mut self) -> Option<Instant> {
        self.counts.refused_client.take()
    }

    /// Packets that could not be opened: damaged, forged, repeated or late.
    pub(crate) fn packets_refused(&self) -> u64 {
        self.counts.refused
    }

    /// How often the keys were changed.
    pub(crate) fn key_updates(&self) -> u64 {
        self.counts.key_updates
    }

    pub(crate) fn poll_id_change(&mut self) -> Option<IdChange> {
        self.ids.local.poll_change().or_else(|| self.ids.remote.poll_change())
    }

    /// Goes on with the life of the connection; the engine hears how far it has come.
    fn enter(&mut self, engine: &mut Engine, life: Life) {
        engine.phase = life.phase();
        self.life = life;
    }

    /// What goes before everything that the engine decides: the close, the handshake, a change of keys, and the word to
    /// rendezvous servers.
    pub(crate) fn poll_transmit(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.drive_close(engine, now);
        if let Some(word) = self.take_due_close(now) {
            return self.transmit_close(engine, now, buffer, &word);
        }
        if !engine.phase.is_open() {
            return None;
        }
        if let Some(transmit) = self.transmit_setup(engine, now, buffer) {
            return Some(transmit);
        }
        if engine.phase.is_handshaking() {
            return None;
        }
        if self.protector.maybe_update(now, engine.longest_pto()) {
            self.counts.key_updates += 1;
            engine.observe(now, &Fact::KeyUpdate);
        }
        if self.protector.limit_reached() {
            self.fail(engine, now, Violation::KeyLimitReached);
            let word = self.take_due_close(now)?;
            return self.transmit_close(engine, now, buffer, &word);
        }
        self.transmit_rendezvous(engine, now, buffer)
    }

    /// Gives back memory that is not used.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.ids.local.shrink_to_fit();
        self.ids.remote.shrink_to_fit();
        self.control.shrink_to_fit();
        self.streams.shrink_to_fit();
    }
}
