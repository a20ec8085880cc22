//! The previous, the current and the next 1-RTT keys, and the transitions between them.

use std::sync::Arc;
use std::time::Duration;

use manyway_wire::PathId;
use rustls::quic::{HeaderProtectionKey, Keys, PacketKey, PacketKeySet, Secrets};

use super::job::SealKey;
use super::phase::Phase;
use crate::Instant;
use crate::KeyLimits;

/// Keys are updated, and old ones discarded, only after this many probe timeouts (RFC 9001, section 6.5).
const WAIT_IN_PTOS: u32 = 3;

/// Keys of [`EncryptionLevel::OneRtt`](super::EncryptionLevel::OneRtt). The next ones are derived
/// for the first packet with the other key phase bit, forged ones included, and kept: that happens once in a phase. Header
/// protection keys stay (RFC 9001, section 6).
pub(super) struct DataKeys {
    sealing: Arc<SealKey>,
    remote_header: Box<dyn HeaderProtectionKey>,
    previous: Option<Previous>,
    opening: Box<dyn PacketKey>,
    next: Option<Box<PacketKeySet>>,
    secrets: Secrets,
    phase: Phase,
    confirmed: bool,
}

/// The key that decrypts late packets of the previous phase.
struct Previous {
    key: Box<dyn PacketKey>,
    /// Set only once a packet of the current phase arrived from the peer.
    dropped_at: Option<Instant>,
}

/// Which of the keys decrypts a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyAge {
    Previous,
    Current,
    Next,
}

/// The peer updated keys before it could know that this end has the current ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooEarly;

impl DataKeys {
    pub(super) fn new(keys: Keys, secrets: Secrets) -> Self {
        Self {
            sealing: Arc::new(SealKey::new(keys.local.header.into(), keys.local.packet)),
            remote_header: keys.remote.header,
            previous: None,
            opening: keys.remote.packet,
            next: None,
            secrets,
            phase: Phase::new(0),
            confirmed: false,
        }
    }

    pub(super) fn phase(&self) -> &Phase {
        &self.phase
    }

    pub(super) fn phase_mut(&mut self) -> &mut Phase {
        &mut self.phase
    }

    pub(super) fn on_confirmed(&mut self) {
        self.confirmed = true;
    }

    pub(super) fn integrity_limit(&self) -> u64 {
        self.opening.integrity_limit()
    }

    pub(super) fn remote_header(&self) -> &dyn HeaderProtectionKey {
        self.remote_header.as_ref()
    }

    /// The key to seal the next packet with, and its key phase bit; `None` if the current one has reached its AEAD limit
    /// and the peer has not acknowledged any packet of it, so that it would treat an update as a violation (RFC 9001,
    /// section 6.2).
    pub(super) fn sealing(&mut self, limits: &KeyLimits) -> Option<(Arc<SealKey>, bool)> {
        let of_cipher = self.sealing.confidentiality_limit();
        if self.phase.usage.is_exhausted(of_cipher, limits) {
            // spec 4.35: at the limit of the cipher, even if three PTOs have not passed
            if !self.phase.is_acked() {
                return None;
            }
            self.advance();
        }
        Some((Arc::clone(&self.sealing), self.phase.bit()))
    }

    /// See [`Protector::limit_reached`](super::Protector::limit_reached).
    pub(super) fn limit_reached(&self, limits: &KeyLimits) -> bool {
        let of_cipher = self.sealing.confidentiality_limit();
        self.phase.usage.is_nearly_exhausted(of_cipher, limits) && !self.phase.is_acked()
    }

    /// The key that a packet was sealed with, by its key phase bit and number (RFC 9001, section 6.3).
    pub(super) fn opening(&mut self, bit: bool, path: PathId, number: u64) -> (KeyAge, &dyn PacketKey) {
        if bit == self.phase.bit() {
            return (KeyAge::Current, self.opening.as_ref());
        }
        match &self.previous {
            Some(previous) if self.phase.is_older(path, number) => (KeyAge::Previous, previous.key.as_ref()),
            Some(_) | None => {
                let next = self.next.get_or_insert_with(|| Box::new(self.secrets.next_packet_keys()));
                (KeyAge::Next, next.remote.as_ref())
            }
        }
    }

    /// Whether the keys of the next phase were derived.
    #[cfg(test)]
    pub(super) fn has_next(&self) -> bool {
        self.next.is_some()
    }

    /// Records a decrypted packet; returns whether this made the next keys the current ones.
    pub(super) fn on_opened(&mut self, age: KeyAge, path: PathId, number: u64) -> Result<bool, TooEarly> {
        match age {
            KeyAge::Previous => Ok(false),
            KeyAge::Current => {
                self.phase.on_opened(path, number);
                Ok(false)
            }
            KeyAge::Next if !self.phase.peer_may_leave() => Err(TooEarly),
            KeyAge::Next => {
                self.advance();
                self.phase.on_opened(path, number);
                Ok(true)
            }
        }
    }

    /// See [`Protector::maybe_update`](super::Protector::maybe_update).
    pub(super) fn maybe_update(
        &mut self,
        now: Instant,
        max_pto: impl Fn() -> Duration,
        limits: &KeyLimits,
    ) -> bool {
        let wait = || max_pto().saturating_mul(WAIT_IN_PTOS);
        let peer_followed = self.phase.peer_followed();
        if let Some(previous) = &mut self.previous
            && peer_followed
            && now >= *previous.dropped_at.get_or_insert_with(|| now + wait())
        {
            self.previous = None;
        }
        let update = self.phase.should_end(now, wait, limits) && self.confirmed && self.previous.is_none();
        if update {
            self.advance();
        }
        update
    }

    /// Makes the next keys the current ones, in both directions.
    pub(super) fn advance(&mut self) {
        let next = self.next.take().map_or_else(|| self.secrets.next_packet_keys(), |next| *next);
        self.sealing = Arc::new(self.sealing.successor(next.local));
        let old = std::mem::replace(&mut self.opening, next.remote);
        self.previous = Some(Previous { key: old, dropped_at: None });
        self.phase = self.phase.successor();
    }
}
