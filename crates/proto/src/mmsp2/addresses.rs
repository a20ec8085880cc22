//! Addresses in MMSP/2: those of the handshake, those that the server advertises, and those of a quoted packet.

use std::net::SocketAddr;

use manyway_wire::PathId;

use super::Mmsp2;
use crate::EncryptionLevel;
use crate::engine::Engine;
use crate::error::{ConnectionError, Undelivered};
use crate::path::candidates::candidate_order;
use crate::path::remotes::MAX_REMOTES;
use crate::{FourTuple, Instant, LocalCandidate, Side};

impl Mmsp2 {
    /// Sets the addresses that this end may use: a handshake tries them, and rendezvous servers are notified.
    pub(crate) fn set_locals(&mut self, engine: &mut Engine, now: Instant, locals: &[LocalCandidate]) {
        engine.manager.set_locals(locals);
        self.try_locals(engine);
        engine.on_locals_changed(now);
    }

    fn try_locals(&mut self, engine: &Engine) {
        self.tell_rendezvous(engine);
        if engine.side == Side::Server || !engine.phase.is_handshaking() {
            return;
        }
        let candidates = candidate_order(&engine.manager);
        if let Some(handshake) = &mut self.handshake {
            handshake.attempts.set_candidates(candidates);
            handshake.tls.resend_all(EncryptionLevel::Initial);
        }
    }

    /// Advertises to the peer the addresses at which this server can be reached from now on.
    pub(crate) fn advertise(&mut self, engine: &Engine, addresses: &[SocketAddr]) {
        if engine.phase.is_established() && engine.side == Side::Server {
            self.control.announce(addresses.get(..MAX_REMOTES).unwrap_or(addresses));
            self.tell_rendezvous(engine);
        }
    }

    /// The system refuses to send handshake packets between these addresses.
    pub(crate) fn on_send_refused(&mut self, now: Instant, tuple: &FourTuple) {
        if let Some(handshake) = &mut self.handshake {
            handshake.attempts.on_refused(now, tuple);
        }
    }

    /// An ICMP error that quotes a packet, or this host, says that a packet of an unanswered handshake was not delivered.
    /// The connection attempt ends once reports came for all candidates; true if the report counts.
    // spec 7.44
    pub(crate) fn on_candidate_unreachable(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        tuple: &FourTuple,
        quoted: Option<&[u8]>,
        undelivered: Undelivered,
    ) -> bool {
        if !engine.phase.is_handshaking() || engine.side != Side::Client {
            return false;
        }
        let Some(handshake) = &mut self.handshake else { return false };
        let counts = !handshake.is_heard() && quoted.is_none_or(|quoted| handshake.is_quoted(quoted));
        if !counts || !handshake.attempts.on_unreachable(now, tuple, undelivered) {
            return false;
        }
        if let Some((tuple, undelivered)) = handshake.attempts.lost() {
            self.give_up(engine, now, ConnectionError::Unreachable { remote: tuple.remote, undelivered });
        }
        true
    }

    /// The path to that address whose packets match the quoted one.
    pub(crate) fn quoted_path(&self, engine: &Engine, remote: SocketAddr, quoted: &[u8]) -> Option<PathId> {
        let quoted = quoted.get(1..)?;
        let to_it = engine.paths.iter().filter(|path| path.is_datagram() && path.tuple().remote == remote);
        let mut named = to_it.filter(|path| {
            let used = self.ids.remote.current(path.id);
            used.is_some_and(|used| quoted.starts_with(used.as_slice()))
        });
        named.next().map(|path| path.id)
    }
}
