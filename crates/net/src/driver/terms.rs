//! Cost, weight and remaining quota of each interface, by the user's settings and the ledger.

use std::net::IpAddr;

use manyway_proto::scheduler::PathTerms;
use manyway_proto::{ConnectionHandle, Instant, LocalCandidate, PathState};
use tokio::time::Instant as TokioInstant;

use super::Driver;
use super::traffic::Way;
use super::usage::News;
use crate::interfaces::{Excluded, Exclusion, InterfaceKind, capped};
use crate::ledger::{Allowance, CAP_REACHED};
use crate::options::Locals;

impl Driver {
    /// Keeps an account for each interface of this host, and excludes those without quota.
    pub(super) fn follow_accounts(&mut self) {
        let Self { usage, watcher, .. } = self;
        let outward = watcher.snapshot().interfaces.iter().filter(|it| it.kind != InterfaceKind::Loopback);
        usage.follow(TokioInstant::now(), outward.map(|interface| interface.name.as_str()));
        if let Locals::Interfaces(policy) = &mut self.locals {
            policy.set_exhausted(self.usage.exhausted());
        }
    }

    /// Counts the traffic of this turn, and acts on the remaining quota. Returns true if there is more to send now.
    /// `unsent` says whether the turn left anything unsent.
    pub(super) fn poll_usage(&mut self, now: Instant, unsent: bool) -> bool {
        if !self.usage.counts() {
            return false;
        }
        let moved: Vec<_> = self.sockets.take_traffic().chain(self.tcp.streams.take_traffic()).collect();
        for (way, bytes) in moved {
            if let Some(name) = self.name_of(&way) {
                self.usage.add(&name, bytes);
            }
        }
        if self.usage.are_closes_sent(unsent) {
            self.block_exhausted();
        }
        match self.usage.settle(TokioInstant::now()) {
            News::None => {}
            News::Left => {
                for handle in self.connections.clients() {
                    let connection = self.endpoint.connection(handle);
                    let locals = connection.map(|it| it.local_candidates()).unwrap_or_default();
                    self.tell_terms(handle, &locals);
                }
            }
            News::ExhaustedChanged => {
                self.unblock_renewed();
                self.follow_exhausted(now);
                // Peers learn of the closed paths before the interface falls silent.
                self.usage.await_closes();
            }
        }
        self.usage.awaits_closes()
    }

    /// Handles interfaces whose quota is used up or renewed.
    fn follow_exhausted(&mut self, now: Instant) {
        self.follow_interfaces(now);
        for handle in self.connections.clients() {
            let (_, excluded) = self.locals_of(handle);
            let waits = excluded.iter().any(|it| !it.reason.lasts());
            let cap_reached = self.connections.peer(handle).and_then(|peer| peer.cap_reached.clone());
            if let Some(reason) = cap_reached.filter(|_| !waits)
                && let Some(connection) = self.endpoint.connection(handle)
            {
                connection.abort(now, CAP_REACHED, &reason);
            }
        }
        let exhausted = self.usage.exhausted();
        for handle in self.connections.servers() {
            let Some(connection) = self.endpoint.connection(handle) else { continue };
            let paths = connection.statistics().paths;
            // Old dead paths do not count: one of them must not keep a peer from being told.
            let live = paths.iter().filter(|it| !matches!(it.state, PathState::Dead | PathState::Closed));
            let tuples = live.map(|path| path.tuple);
            let names = tuples.map(|tuple| self.interface_name(self.sockets.interface(&tuple)));
            let over: Option<Vec<_>> =
                names.map(|name| name.filter(|it| exhausted.contains_key(it))).collect();
            let reached = over.unwrap_or_default().into_iter().filter_map(|name| {
                let Allowance { cap, renewal, .. } = *exhausted.get(&name)?;
                Some(Excluded { interface: name, reason: Exclusion::CapReached { cap, renewal } })
            });
            if let Some(reason) = capped(&reached.collect::<Vec<_>>())
                && let Some(connection) = self.endpoint.connection(handle)
            {
                connection.abort(now, CAP_REACHED, &reason);
            }
        }
    }

    /// Blocks packets on exactly those interfaces whose quota is used up.
    pub(super) fn block_exhausted(&mut self) {
        let numbers = self.exhausted_indices();
        self.sockets.set_exhausted(numbers);
    }

    /// Unblocks interfaces that have quota again; the first packets are probes.
    fn unblock_renewed(&mut self) {
        let numbers = self.exhausted_indices();
        self.sockets.retain_exhausted(&numbers);
    }

    fn exhausted_indices(&self) -> Vec<u32> {
        let exhausted = self.usage.exhausted();
        let interfaces = self.watcher.snapshot().interfaces.iter();
        interfaces.filter(|it| exhausted.contains_key(&it.name)).map(|it| it.index).collect()
    }

    /// The local addresses of interfaces whose quota is used up, and of tunnels that this program itself carries.
    pub(super) fn silent_addresses(&self) -> Vec<IpAddr> {
        let exhausted = self.usage.exhausted();
        let is_own_tunnel = |name: &str| match &self.locals {
            Locals::Interfaces(policy) => policy.is_own_tunnel(name),
            Locals::Fixed(_) => false,
        };
        let interfaces = self.watcher.snapshot().interfaces.iter();
        let silent = interfaces.filter(|it| exhausted.contains_key(&it.name) || is_own_tunnel(&it.name));
        silent.flat_map(|interface| interface.addresses.iter().map(|own| own.prefix.address)).collect()
    }

    /// Tells a client connection the cost, weight and remaining quota of its interfaces: of those that it may use, and
    /// of those that its paths still use.
    pub(super) fn tell_terms(&mut self, handle: ConnectionHandle, locals: &[LocalCandidate]) {
        let Some(connection) = self.endpoint.connection(handle) else { return };
        let paths = connection.statistics().paths;
        let mut locals: Vec<_> = locals.iter().map(|candidate| candidate.address).collect();
        locals.extend(paths.iter().map(|path| path.tuple.local));
        for local in locals {
            let Some(name) = self.interface_name(local.interface) else { continue };
            let mut terms = PathTerms::default();
            if let Locals::Interfaces(policy) = &self.locals {
                (terms.cost, terms.weight) = (policy.cost(&name), policy.weight(&name));
            }
            if let Some(allowance) = self.usage.allowance(&name) {
                (terms.quota_left, terms.renewal) = (Some(allowance.left), allowance.renewal);
            }
            if let Some(connection) = self.endpoint.connection(handle) {
                connection.set_terms(local, terms);
            }
        }
    }

    /// Name of the interface that carried the traffic, unless it stayed on this host.
    fn name_of(&self, way: &Way) -> Option<String> {
        if way.interface != 0 {
            return self.interface_name(way.interface);
        }
        let snapshot = self.watcher.snapshot();
        if way.remote.is_loopback() || snapshot.is_own(way.remote) {
            return None;
        }
        snapshot.owner(way.local).map(|interface| interface.name.clone())
    }
}
