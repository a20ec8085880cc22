//! Packet protection: the keys of each encryption level and key phase, their use counters, and key updates.
//!
//! ```text
//! seal:  payload -> encrypt with nonce(path id, packet number) -> append tag -> mask header
//! open:  unmask header -> expand number -> seen before? -> decrypt -> (the caller marks the number as seen)
//! ```
//! Header protection is that of RFC 9001, section 5.4, in both header forms; the nonce with a path id is that
//! of draft-ietf-quic-multipath (spec 4.7, 4.8, 4.15, 4.16).

mod data_keys;
mod job;
mod open;
mod phase;
mod seal;
#[cfg(test)]
mod tests;
mod usage;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use manyway_wire::{ConnectionId, PathId, Side};
use rustls::Side as TlsSide;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{DirectionalKeys, Keys, Secrets, Version};

use self::data_keys::DataKeys;
pub use self::job::SealJobs;
use self::job::SealKey;
pub(crate) use self::open::{Incoming, OpenError};
pub(crate) use self::seal::Outgoing;
use self::usage::Usage;
use crate::{EncryptionLevel, Instant, KeyLimits};

/// Owns the keys of all levels of one connection.
pub(crate) struct Protector {
    side: Side,
    limits: KeyLimits,
    initial: Option<Box<LevelKeys>>,
    handshake: Option<Box<LevelKeys>>,
    one_rtt: Option<Box<DataKeys>>,
    /// Packets of any level and phase that failed to decrypt (RFC 9001, section 6.6).
    failed: u64,
    /// Packets that are complete but for their seal.
    jobs: SealJobs,
}

/// Keys of a level that is too short-lived for key updates.
struct LevelKeys {
    local: Arc<SealKey>,
    remote: DirectionalKeys,
    usage: Usage,
}

impl LevelKeys {
    fn boxed(keys: Keys) -> Box<Self> {
        let local = Arc::new(SealKey::new(keys.local.header.into(), keys.local.packet));
        Box::new(Self { local, remote: keys.remote, usage: Usage::default() })
    }
}

impl Protector {
    /// Length of the tag behind every sealed payload, in bytes.
    pub(crate) const TAG_LENGTH: usize = job::TAG_LENGTH;

    /// Starts without any keys.
    pub(crate) fn new(side: Side, limits: KeyLimits) -> Self {
        Self {
            side,
            limits,
            initial: None,
            handshake: None,
            one_rtt: None,
            failed: 0,
            jobs: SealJobs::default(),
        }
    }

    /// Derives the keys of [`EncryptionLevel::Initial`] from the original destination id (RFC 9001, section 5.2).
    #[expect(clippy::expect_used, reason = "the suite is a constant, a test derives its keys")]
    pub(crate) fn set_initial_keys(&mut self, original_destination: &ConnectionId) {
        let suite = TLS13_AES_128_GCM_SHA256
            .tls13()
            .and_then(rustls::Tls13CipherSuite::quic_suite)
            .expect("this suite of TLS 1.3 has keys for QUIC");
        let side = match self.side {
            Side::Client => TlsSide::Client,
            Side::Server => TlsSide::Server,
        };
        let keys = suite.keys(original_destination.as_slice(), side, Version::V1);
        self.initial = Some(LevelKeys::boxed(keys));
    }

    /// Takes the keys of [`EncryptionLevel::Handshake`] from the handshake.
    pub(crate) fn install_handshake(&mut self, keys: Keys) {
        self.handshake = Some(LevelKeys::boxed(keys));
    }

    /// Takes the keys of [`EncryptionLevel::OneRtt`], and the secrets of later ones, from the handshake.
    pub(crate) fn install_one_rtt(&mut self, keys: Keys, secrets: Secrets) {
        self.one_rtt = Some(Box::new(DataKeys::new(keys, secrets)));
    }

    /// Discards the keys of a level; its packets can neither be sealed nor decrypted any more.
    pub(crate) fn discard(&mut self, level: EncryptionLevel) {
        match level {
            EncryptionLevel::Initial => self.initial = None,
            EncryptionLevel::Handshake => self.handshake = None,
            EncryptionLevel::OneRtt => self.one_rtt = None,
        }
    }

    /// Whether packets of this level can be sealed and decrypted.
    pub(crate) fn has(&self, level: EncryptionLevel) -> bool {
        match level {
            EncryptionLevel::Initial => self.initial.is_some(),
            EncryptionLevel::Handshake => self.handshake.is_some(),
            EncryptionLevel::OneRtt => self.one_rtt.is_some(),
        }
    }

    /// The key phase bit of short headers that are sealed now; [`Protector::seal`] sets it by itself.
    pub(crate) fn key_phase(&self) -> bool {
        self.one_rtt.as_ref().is_some_and(|data| data.phase().bit())
    }

    /// The handshake is confirmed: from now on this end may update keys (RFC 9001, section 6.1).
    pub(crate) fn on_confirmed(&mut self) {
        if let Some(data) = &mut self.one_rtt {
            data.on_confirmed();
        }
    }

    /// 1-RTT packets of `path` up to `largest` were acknowledged.
    pub(crate) fn on_acked(&mut self, now: Instant, path: PathId, largest: u64) {
        if let Some(data) = &mut self.one_rtt {
            data.phase_mut().on_acked(now, path, largest);
        }
    }

    /// The waiting jobs, to be run elsewhere.
    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.jobs.0.shrink_to_fit();
    }

    /// Forgets the state of a path that will never be used again.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        if let Some(data) = &mut self.one_rtt {
            data.phase_mut().forget_path(path);
        }
    }

    /// Updates keys if an update is due and permitted, and discards old ones; returns whether keys were updated.
    ///
    /// An update is due after [`KeyLimits::update_after_packets`] or [`KeyLimits::update_after`]. It is permitted
    /// after the confirmation, and three `max_pto` (the largest among the paths) after the first acknowledgement of a
    /// packet of the current phase. Called once per burst; costs a few comparisons.
    pub(crate) fn maybe_update(&mut self, now: Instant, max_pto: impl Fn() -> Duration) -> bool {
        self.one_rtt.as_mut().is_some_and(|data| data.maybe_update(now, max_pto, &self.limits))
    }

    /// Whether the 1-RTT key is close to its AEAD limit and may not be updated because the peer acknowledged no
    /// packet of its phase: the connection must end, with packets left for a CLOSE (RFC 9001, section 6.6).
    pub(crate) fn limit_reached(&self) -> bool {
        self.one_rtt.as_ref().is_some_and(|data| data.limit_reached(&self.limits))
    }

    /// Updates keys whether that is permitted or not.
    #[cfg(test)]
    fn force_update(&mut self) {
        if let Some(data) = &mut self.one_rtt {
            data.advance();
        }
    }

    /// Whether so many packets failed to decrypt that the connection must end (RFC 9001, section 6.6).
    pub(crate) fn integrity_exhausted(&self) -> bool {
        let of_cipher = match (&self.one_rtt, &self.handshake, &self.initial) {
            (Some(data), _, _) => data.integrity_limit(),
            (None, Some(level), _) | (None, None, Some(level)) => level.remote.packet.integrity_limit(),
            (None, None, None) => u64::MAX,
        };
        self.failed >= of_cipher.min(self.limits.max_failed)
    }

    /// How many packets failed to decrypt so far, over all levels and phases.
    #[cfg(test)]
    pub(crate) fn failed_openings(&self) -> u64 {
        self.failed
    }
}

impl fmt::Debug for Protector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Protector")
            .field("initial", &self.has(EncryptionLevel::Initial))
            .field("handshake", &self.has(EncryptionLevel::Handshake))
            .field("data", &self.one_rtt.as_ref().map(|data| data.phase()))
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
