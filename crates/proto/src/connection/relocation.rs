//! A server that moves alone: it speaks from where it is now, and its client asks there (spec 6.53).

use super::input::PacketFacts;
use super::{Connection, Initiator};
use crate::path::{Path, PathReason, PathState};
use crate::protection::Level;
use crate::{FourTuple, Instant};

impl Connection {
    /// A server none of whose live paths has its own address any more speaks to its client from those it has: by PROBE, on
    /// the paths that lost theirs.
    pub(super) fn relocate(&mut self, now: Instant) {
        let locals = self.manager.locals();
        let is_home = |path: &Path| {
            let own = path.tuple.local.address.ip().to_canonical();
            own.is_loopback() || locals.iter().any(|local| local.address.ip().to_canonical() == own)
        };
        if locals.is_empty() || self.paths.iter().any(|path| path.is_live() && is_home(path)) {
            return;
        }
        let is_lost = |path: &&Path| path.state() != PathState::Validating && !is_home(path);
        let lost: Vec<_> =
            self.paths.iter().filter(is_lost).map(|path| (path.id, path.tuple.remote)).collect();
        for (id, remote) in lost {
            let alike = locals.iter().filter(|local| local.address.is_ipv4() == remote.is_ipv4());
            let targets: Vec<_> = alike.map(|local| FourTuple { local: *local, remote }).collect();
            let Some(first) = targets.first().copied() else { continue };
            self.declare_dead(now, id, PathReason::AddressGone);
            if let Some(path) = self.paths.get_mut(id) {
                path.flaps = None;
                path.tuple = first;
                let distance = path.space.recovery.rtt().smoothed();
                path.prober.start(now, targets, Some(distance));
            }
            self.ids.remote.rotate(id);
            self.forget_size(now, id);
            self.begin_anew(now, id);
        }
    }

    /// Whether a client opens a packet of a path that comes from elsewhere, to learn where its server is: while nothing is
    /// heard from where it was.
    pub(super) fn heeds_strays(&self, facts: &PacketFacts) -> bool {
        self.side == Initiator::Client
            && facts.level == Level::Data
            && !self.is_handshaking()
            && self.paths.get(facts.path).is_some_and(|path| path.state() != PathState::Validating)
            && !self.paths.iter().any(|path| is_heard_of(path, facts.now))
    }

    /// It opened, so it is the server's; who sent it from there is another question. What it says is not read, but the
    /// address is asked as any other that only the peer named (spec 6.35).
    pub(super) fn on_stray(&mut self, facts: &PacketFacts) {
        self.declare_dead(facts.now, facts.path, PathReason::Moved);
        self.on_peer_met(facts.now, vec![facts.tuple.remote]);
    }
}

/// Whether something came on a path within a round trip: then its server is where it was.
fn is_heard_of(path: &Path, now: Instant) -> bool {
    path.is_live() && now < path.last_heard() + path.space.recovery.rtt().smoothed()
}
