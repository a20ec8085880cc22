//! A server that moves alone: it speaks from where it is now, and its client asks there (spec 6.53, 6.60).

use super::notices::Notice;
use super::{Engine, Heard, Side};
use crate::path::{Path, PathReason, PathState};
use crate::{FourTuple, Instant, LocalAddress};

impl Engine {
    /// If no live path of a server has its own address any more, those that lost it are dead and speak to the client
    /// from `homes`; so do others that are dead already.
    pub(crate) fn relocate(
        &mut self,
        now: Instant,
        homes: &[LocalAddress],
        has_lost: impl Fn(&FourTuple) -> bool,
    ) {
        let has_home = |path: &Path| path.is_live() && !has_lost(&path.tuple());
        if self.side == Side::Client || !self.phase.is_open() || self.paths.iter().any(has_home) {
            return;
        }
        for id in self.paths.ids() {
            let Some(path) = self.paths.get_mut(id) else { continue };
            // Where the client was followed to last may not be proven: then it is looked for where it was before.
            let remote = path.place.fallback().unwrap_or_else(|| path.tuple()).remote;
            let alike = homes.iter().filter(|home| home.address.is_ipv4() == remote.is_ipv4());
            let mut targets: Vec<_> = alike.map(|home| FourTuple { local: *home, remote }).collect();
            let Some(first) = targets.first().copied() else { continue };
            let is_lost = has_lost(&path.tuple());
            if path.state() == PathState::Dead && !is_lost {
                targets.retain(|target| *target != path.tuple());
                targets.insert(0, path.tuple());
                path.prober.set_targets(now, targets);
            } else if path.state() != PathState::Validating && is_lost {
                self.declare_dead(now, id, PathReason::AddressGone);
                if let Some(path) = self.paths.get_mut(id) {
                    // It is asked where it was proven, and what was known of flaps holds for where this end was.
                    path.place.prove(first);
                    path.forget_flaps();
                    let distance = path.recovery.rtt().smoothed();
                    path.prober.start(now, targets, Some(distance));
                }
                self.notices.push(Notice::Migrated(id));
                self.forget_size(now, id);
                self.reset_path(now, id);
            }
        }
    }

    /// Whether a client opens a packet of a path that comes from elsewhere, to learn where its server is: while nothing is
    /// heard from where it was.
    pub(crate) fn opens_off_path_packets(&self, heard: &Heard) -> bool {
        self.side == Side::Client
            && !self.phase.is_handshaking()
            && self.paths.get(heard.path).is_some_and(|path| path.state() != PathState::Validating)
            && !self.paths.iter().any(|path| is_heard_of(path, heard.now))
    }

    /// It opened, so it is the server's; who sent it from there is another question. What it says is not read. Once no path
    /// works the address is asked, as any other that only the peer named (spec 6.35); until then the path is.
    pub(crate) fn on_off_path_packet(&mut self, heard: &Heard) {
        let any_live = self.paths.iter().any(Path::is_live);
        let Some(path) = self.paths.get_mut(heard.path) else { return };
        if any_live {
            if path.is_live() && path.recovery.packets_in_flight() == 0 {
                path.schedule_probes(1);
            }
            return;
        }
        let (peer, port) = (path.tuple().remote.ip(), self.config.peer_port);
        let is_fit = port.is_none_or(|port| port == heard.tuple.remote.port());
        if is_fit && self.manager.on_off_path_packet(heard.tuple.remote, peer) {
            self.retarget_paths(heard.now);
        }
    }
}

/// Whether something came on a path within a round trip: then its server is where it was.
fn is_heard_of(path: &Path, now: Instant) -> bool {
    path.is_live() && now < path.last_heard() + path.recovery.rtt().smoothed()
}
