//! Migration of a server alone: it sends from its new address, and its client challenges it there (spec 6.53, 6.60).

use super::notices::Notice;
use super::{Engine, Heard, Side};
use crate::path::{Path, PathReason, PathState};
use crate::{FourTuple, Instant, LocalAddress};

impl Engine {
    /// If no live path of a server has its local address any more, declares the paths that lost it dead, and
    /// challenges the client from `local_addresses`; other dead paths do so too.
    pub(crate) fn relocate(
        &mut self,
        now: Instant,
        local_addresses: &[LocalAddress],
        has_lost: impl Fn(&FourTuple) -> bool,
    ) {
        let has_home = |path: &Path| path.is_live() && !has_lost(&path.tuple());
        if self.side == Side::Client || !self.phase.is_open() || self.paths.iter().any(has_home) {
            return;
        }
        for id in self.paths.ids() {
            let Some(path) = self.paths.get_mut(id).filter(|path| path.is_datagram()) else { continue };
            // The last address of the client may be unvalidated: then the previous one is challenged.
            let remote = path.addresses.fallback().unwrap_or_else(|| path.tuple()).remote;
            let alike = local_addresses.iter().filter(|local| local.address.is_ipv4() == remote.is_ipv4());
            let mut targets: Vec<_> = alike.map(|local| FourTuple::udp(*local, remote)).collect();
            let Some(first) = targets.first().copied() else { continue };
            let is_lost = has_lost(&path.tuple());
            if path.state() == PathState::Dead && !is_lost {
                targets.retain(|target| *target != path.tuple());
                targets.insert(0, path.tuple());
                path.challenger.set_targets(now, targets);
            } else if path.state() != PathState::Validating && is_lost {
                self.declare_dead(now, id, PathReason::AddressGone);
                if let Some(path) = self.paths.get_mut(id) {
                    // The client is challenged at its validated address; the flap history belongs to the old address
                    // of this end.
                    path.addresses.validate(first);
                    path.forget_flaps();
                    let distance = path.recovery.rtt().smoothed();
                    path.challenger.start(now, targets, Some(distance));
                }
                self.notices.push(Notice::Migrated(id));
                self.forget_size(now, id);
                self.reset_path(now, id);
            }
        }
    }

    /// The packet was decrypted, so the server built it, but any host may have sent it from there. Its content is
    /// ignored. Once no path works, the source address is challenged like any unverified address (spec 6.35); until
    /// then a PTO probe tests the path itself.
    pub(crate) fn on_off_path_packet(&mut self, heard: &Heard) {
        if !heard.tuple.is_datagram() {
            return;
        }
        let any_live = self.paths.iter().any(Path::is_live);
        let Some(path) = self.paths.get_mut(heard.path) else { return };
        if any_live {
            if path.is_live() && path.recovery.packets_in_flight() == 0 {
                path.schedule_pto_probes(1);
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
