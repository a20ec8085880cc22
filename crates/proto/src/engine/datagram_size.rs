//! Datagram size of each path: feeds events to the path MTU search.

use manyway_wire::PathId;

use super::Engine;
use crate::observe::Fact;
use crate::path::{InterfaceMtus, SizeLimit};
use crate::recovery::Outcome;
use crate::{FourTuple, Instant};

impl Engine {
    fn size_limit(&self, tuple: &FourTuple) -> SizeLimit {
        SizeLimit::new(tuple, self.shared.interfaces.of(tuple.local.address.ip()), self.limits.max_datagram)
    }

    /// Starts the search on a newly validated path.
    pub(crate) fn start_size_search(&mut self, now: Instant, id: PathId) {
        if !self.features.padding {
            return;
        }
        let Some(limit) = self.paths.get(id).map(|path| self.size_limit(&path.tuple())) else { return };
        if let Some(path) = self.paths.get_mut(id).filter(|path| path.mtu.is_off()) {
            path.mtu.start(now, limit);
        }
    }

    /// The path leads elsewhere now: its known size no longer holds.
    pub(crate) fn forget_size(&mut self, now: Instant, id: PathId) {
        if let Some(path) = self.paths.get_mut(id) {
            path.mtu.reset();
        }
        self.adopt_size(now, id);
    }

    /// Applies the outcome of an acknowledgement or timeout to the search.
    pub(crate) fn settle_size(&mut self, now: Instant, id: PathId, outcome: &Outcome) {
        let Some(path) = self.paths.get_mut(id) else { return };
        if outcome.progress {
            path.mtu.on_progress();
        }
        if let Some(size) = outcome.mtu_acked {
            path.mtu.on_acked(now, size);
        } else if let Some(size) = outcome.mtu_lost {
            path.mtu.on_lost(now, size);
        }
        path.mtu.on_large_lost(outcome.large_lost);
        self.adopt_size(now, id);
    }

    /// Reports the size that the search reached to recovery and observers.
    pub(crate) fn adopt_size(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get_mut(id) else { return };
        let size = path.mtu.current();
        if path.recovery.max_datagram() != size {
            path.recovery.set_max_datagram(size);
            self.observe(now, &Fact::DatagramSize { path: id, size });
        }
    }

    /// Sets the MTUs of this host's interfaces.
    pub(crate) fn set_interface_mtus(&mut self, now: Instant, interfaces: InterfaceMtus) {
        self.shared.interfaces = interfaces;
        for id in self.paths.ids() {
            let Some(limit) = self.paths.get(id).map(|path| self.size_limit(&path.tuple())) else { continue };
            if let Some(path) = self.paths.get_mut(id) {
                path.mtu.set_limit(now, limit);
            }
            self.adopt_size(now, id);
        }
    }

    /// The system refuses datagrams of `size` bytes between two addresses as too large (spec 6.125).
    pub(crate) fn on_datagram_too_large(&mut self, now: Instant, tuple: FourTuple, size: usize) {
        let size = u16::try_from(size).unwrap_or(u16::MAX);
        for id in self.paths.ids() {
            if let Some(path) = self.paths.get_mut(id).filter(|path| path.tuple() == tuple) {
                path.mtu.on_refused(now, size);
            }
            self.adopt_size(now, id);
        }
    }
}
