//! Path manager: which candidate pairs to open, keep and close.
//!
//! 1. Only the client opens paths; the server advertises its addresses by ADD-ADDRESS.
//! 2. Unless pairs are chosen one by one (`selection`), there is one path for each interface (*local-disjoint*): its
//!    addresses of both families are tried against all addresses of the peer at once, and the pair that answers
//!    first is the path.
//! 3. The loss of an address closes its path at once; a new interface is tried at once.
//! 4. An interface without any quota left (`PathTerms::quota_left`) counts as one without addresses.
//! 5. A path that the application closed stays closed until its interface has been gone.
//! 6. Addresses that the peer advertises are limited in number, in kind and in the rate of path challenges, so that no
//!    peer can make this host challenge a third party.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::challenge_budget::ChallengeBudget;
use super::connectivity_checks::{ConnectivityChecks, MOST_PAIRS};
use super::pair_order::{ordered_pairs, shares_link};
use super::remotes::Remotes;
use super::selection::{Candidate, MOST_LOCALS, PairMode, choose, is_trial};
use super::state::{PathReason, Role};
use crate::scheduler::PathTerms;
use crate::{ByteCount, FourTuple, Instant, LocalAddress};

/// A local address that may be used, and its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalCandidate {
    /// The socket's address and interface.
    pub address: LocalAddress,
    /// The role of the interface.
    pub role: Role,
}

/// A path to open: all candidate pairs to try for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenPath {
    pub(crate) targets: Vec<FourTuple>,
    pub(crate) role: Role,
}

/// Knows the addresses of both ends.
#[derive(Debug, Default)]
pub(crate) struct PathManager {
    locals: Vec<LocalCandidate>,
    remotes: Remotes,
    budget: ChallengeBudget,
    /// Pairs whose path the application closed: not tried again before the local address has been gone.
    closed_by_application: Vec<FourTuple>,
    /// Cost and quota of interfaces.
    terms: Vec<(LocalAddress, PathTerms)>,
    /// Deprecated addresses: the peer withdrew them while no other path worked, or they lead to a relay.
    deprecated: Vec<SocketAddr>,
    /// The rendezvous servers, which may relay to the peer.
    relays: Vec<SocketAddr>,
    /// The pairs to use, in a mode that chooses pair by pair.
    pub(crate) selection: Option<Box<Selection>>,
}

/// The pairs to use, and the state behind that choice.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) mode: PairMode,
    pub(crate) checks: ConnectivityChecks,
    pub(crate) wanted: Vec<FourTuple>,
    /// Pairs of unknown rate that are tried in place of others.
    pub(crate) trial: Option<Trial>,
    /// The cost of each pair at the time of the choice.
    pub(crate) costs: Vec<(FourTuple, Duration)>,
    /// Whether addresses came or went since the choice.
    pub(crate) is_stale: bool,
    /// Whether an event may change the choice, or the paths to open and close.
    pub(crate) is_due: bool,
}

/// The pairs that were replaced by pairs on trial; once the rates are known, the new pairs have to beat them.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) left: Vec<FourTuple>,
    pub(crate) since: Instant,
}

impl Selection {
    /// The pairs on trial.
    pub(crate) fn tried(&self) -> impl Iterator<Item = &FourTuple> {
        let left = self.trial.as_ref().map(|trial| &trial.left);
        self.wanted.iter().filter(move |tuple| left.is_some_and(|left| !left.contains(tuple)))
    }

    /// Whether the rates of all pairs on trial are known.
    pub(crate) fn is_trial_over(&self, candidates: &[Candidate]) -> bool {
        let lacks_rate = |tuple: &FourTuple| {
            candidates.iter().any(|candidate| candidate.tuple == *tuple && candidate.rate.is_none())
        };
        self.trial.is_some() && !self.tried().any(lacks_rate)
    }

    /// Chooses again among the pairs that work, at most `most`. A pair of unknown rate is tried only while a path is
    /// full: its rate would stay unknown otherwise (spec 6.67).
    pub(crate) fn choose(&mut self, now: Instant, candidates: &[Candidate], most: usize, is_full: bool) {
        self.costs = candidates.iter().map(|candidate| (candidate.tuple, candidate.cost())).collect();
        let is_over = self.is_trial_over(candidates);
        let is_lost = |tuple: &FourTuple| !candidates.iter().any(|candidate| candidate.tuple == *tuple);
        if self.trial.is_some() && !is_over && !self.is_stale && !self.wanted.iter().any(is_lost) {
            return;
        }
        let ended = self.trial.take_if(|_| is_over);
        let mut held = ended.map_or_else(|| self.wanted.clone(), |trial| trial.left);
        held.retain(|tuple| !is_lost(tuple));
        let next = choose(self.mode, candidates, &held, most);
        let is_trial = self.mode == PairMode::Disjoint && is_trial(candidates, &held, &next);
        self.is_stale = is_trial && !is_full;
        if self.is_stale {
            self.wanted = held;
        } else {
            self.wanted = next;
            self.trial = if is_trial { Some(Trial { left: held, since: now }) } else { self.trial.take() };
        }
    }

    /// The trial has timed out with the rate still unknown: returns to the pairs of known rate.
    pub(crate) fn give_up_trial(&mut self, now: Instant) {
        let tried: Vec<_> = self.tried().copied().collect();
        tried.iter().for_each(|tuple| self.checks.on_trial_failed(now, tuple));
        if let Some(trial) = self.trial.take() {
            self.wanted = trial.left;
        }
    }
}

impl PathManager {
    pub(crate) fn new(locals: &[LocalCandidate], remotes: &[SocketAddr]) -> Self {
        let mut manager = Self { locals: locals.to_vec(), ..Self::default() };
        for address in remotes {
            manager.add_remote(*address);
        }
        manager
    }

    /// Sets the mode in which pairs are chosen.
    pub(crate) fn with_mode(mut self, mode: PairMode) -> Self {
        self.selection = (mode != PairMode::LocalDisjoint).then(|| {
            Box::new(Selection {
                mode,
                checks: ConnectivityChecks::default(),
                wanted: Vec::new(),
                trial: None,
                costs: Vec::new(),
                is_stale: true,
                is_due: true,
            })
        });
        self
    }

    /// An event may change which pairs are used.
    pub(crate) fn reconsider(&mut self) {
        if let Some(selection) = &mut self.selection {
            selection.is_due = true;
        }
    }

    /// Updates the pairs that connectivity checks cover.
    pub(crate) fn update_checks(&mut self, now: Instant) {
        let Some(mut selection) = self.selection.take() else { return };
        let tuples = self.selectable();
        if !selection.checks.pairs().map(|(tuple, ..)| tuple).eq(tuples.iter().copied()) {
            selection.checks.set_pairs(now, tuples.into_iter());
            selection.is_stale = true;
        }
        selection.is_due = true;
        self.selection = Some(selection);
    }

    /// Whether a connectivity check between these addresses is outstanding.
    pub(crate) fn is_checked(&self, tuple: &FourTuple) -> bool {
        self.selection.as_ref().is_some_and(|selection| selection.checks.is_challenged(tuple))
    }

    /// The response to a connectivity check arrived.
    pub(crate) fn on_check_answer(&mut self, now: Instant, tuple: &FourTuple, nonce: u64) {
        if let Some(selection) = &mut self.selection
            && selection.checks.on_answer(now, tuple, nonce)
        {
            selection.is_due = true;
            self.on_answered(tuple.remote);
        }
    }

    /// The pairs that may be chosen: every local address with one address of the peer before the next address of the
    /// peer.
    fn selectable(&self) -> Vec<FourTuple> {
        let mut locals = self.locals();
        locals.truncate(MOST_LOCALS);
        let remotes: Vec<_> = self.remotes().collect();
        let mut tuples = ordered_pairs(&locals, &remotes);
        tuples.retain(|tuple| !self.closed_by_application.contains(tuple));
        tuples.truncate(MOST_PAIRS);
        let place = |tuple: &FourTuple| {
            let remote = remotes.iter().position(|remote| *remote == tuple.remote);
            (remote, locals.iter().position(|local| *local == tuple.local))
        };
        tuples.sort_by_key(place);
        tuples
    }

    pub(crate) fn set_locals(&mut self, locals: &[LocalCandidate]) {
        self.locals = locals.to_vec();
        self.closed_by_application
            .retain(|closed| locals.iter().any(|candidate| candidate.address == closed.local));
    }

    /// Opens no path from this interface (or between these addresses, where pairs are chosen) before its address has
    /// been gone.
    pub(crate) fn on_closed_by_application(&mut self, tuple: FourTuple) {
        let has_local = self.locals.iter().any(|candidate| candidate.address == tuple.local);
        if !self.closed_by_application.contains(&tuple) && has_local {
            self.closed_by_application.push(tuple);
        }
    }

    /// Adds an address from the application or the ticket; false if it is known or there are too many.
    pub(crate) fn add_remote(&mut self, address: SocketAddr) -> bool {
        self.remotes.add_lasting(address)
    }

    /// Takes a new result of the peer's name look-up. Its addresses come first; if there are too many, addresses that
    /// are neither in it nor `used` are dropped.
    pub(crate) fn refresh_remotes(&mut self, fresh: &[SocketAddr], used: &[SocketAddr]) {
        self.remotes.refresh_lasting(fresh, used);
    }

    /// Forgets the addresses of the peer that do not pass.
    pub(crate) fn keep_remotes(&mut self, passes: impl Fn(SocketAddr) -> bool) {
        self.remotes.keep_lasting(passes);
        self.reconsider();
    }

    /// Adds an address that the peer advertises; false if that changes nothing.
    pub(crate) fn on_add_address(
        &mut self,
        id: u64,
        sequence: u64,
        address: SocketAddr,
        peer: IpAddr,
    ) -> bool {
        self.deprecated.retain(|deprecated| *deprecated != address);
        self.remotes.on_add(id, sequence, address, peer)
    }

    /// Removes an address that the peer withdraws, and returns it.
    pub(crate) fn on_remove_address(&mut self, id: u64, sequence: u64) -> Option<SocketAddr> {
        self.remotes.on_remove(id, sequence)
    }

    /// No path works any more.
    pub(crate) fn on_no_path(&mut self) {
        self.remotes.forgive();
    }

    /// The path to an address that the peer withdrew stays until another one works.
    pub(crate) fn deprecate(&mut self, address: SocketAddr) {
        // A peer has no more addresses to withdraw.
        if self.deprecated.len() >= super::remotes::MAX_REMOTES {
            self.deprecated.remove(0);
        }
        self.deprecated.push(address);
    }

    /// Sets the addresses of the rendezvous servers, which may relay to the peer.
    pub(crate) fn set_relays(&mut self, relays: &[SocketAddr]) {
        self.relays = relays.to_vec();
    }

    /// Whether a rendezvous server has this address.
    pub(crate) fn is_relay(&self, address: SocketAddr) -> bool {
        self.relays.contains(&address)
    }

    /// A path leads to a relay: it stays until one to an address of the peer works, if any is known (spec 10.45).
    pub(crate) fn leave_relay(&mut self, address: SocketAddr) {
        if self.remotes.set_aside(address) && !self.is_deprecated(address) {
            self.deprecate(address);
        }
    }

    /// Whether a path still leads to this withdrawn address.
    pub(crate) fn is_deprecated(&self, address: SocketAddr) -> bool {
        self.deprecated.contains(&address)
    }

    /// Whether a path still leads to any withdrawn address.
    pub(crate) fn has_deprecated(&self) -> bool {
        !self.deprecated.is_empty()
    }

    /// No path leads to a withdrawn address any more.
    pub(crate) fn forget_deprecated(&mut self) {
        self.deprecated.clear();
    }

    /// Takes all addresses of the peer from a rendezvous server; false if that changes nothing.
    pub(crate) fn on_met(&mut self, addresses: &[SocketAddr], peer: IpAddr) -> bool {
        self.remotes.on_met(addresses, peer)
    }

    pub(crate) fn on_off_path_packet(&mut self, address: SocketAddr, peer: IpAddr) -> bool {
        self.remotes.on_off_path_packet(address, peer)
    }

    /// The local addresses that the application configured.
    pub(crate) fn local_candidates(&self) -> &[LocalCandidate] {
        &self.locals
    }

    /// The usable local addresses: one of each interface, then the second ones, and so on, so that an interface with
    /// many addresses does not crowd out another.
    pub(crate) fn locals(&self) -> Vec<LocalAddress> {
        let usable = self.locals.iter().filter(|local| self.may_use(local));
        let mut turns: Vec<(usize, LocalAddress)> = Vec::new();
        for LocalCandidate { address, .. } in usable {
            turns.push((turns.iter().filter(|(_, known)| known.shares_interface(address)).count(), *address));
        }
        turns.sort_by_key(|(turn, _)| *turn);
        turns.into_iter().map(|(_, address)| address).collect()
    }

    /// Every known address of the peer.
    pub(crate) fn remotes(&self) -> impl Iterator<Item = SocketAddr> {
        self.remotes.iter()
    }

    /// Whether the address is unverified: only the peer advertised it, and no response came from it.
    pub(crate) fn is_unverified(&self, address: SocketAddr) -> bool {
        self.remotes.is_unverified(address)
    }

    /// Whether a path challenge may go to an address now; if so, takes it out of the budget.
    ///
    /// # Errors
    /// The earliest time at which it may go.
    pub(crate) fn may_challenge(&mut self, now: Instant, address: SocketAddr) -> Result<(), Instant> {
        if self.is_unverified(address) { self.budget.take(now, address) } else { Ok(()) }
    }

    /// A response came from an address of the peer.
    pub(crate) fn on_answered(&mut self, address: SocketAddr) {
        self.remotes.on_answered(address);
        self.budget.on_answered(address);
    }

    /// The pairs of `local`'s interface with the peer's addresses that are tried for one path (spec 6.4, 6.123).
    pub(crate) fn targets(&self, local: LocalAddress) -> Vec<FourTuple> {
        let subflows =
            self.locals.iter().map(|candidate| candidate.address).filter(|address| *address != local);
        let own = Some(local).filter(|local| !self.terms_of(local).has_no_quota());
        let locals: Vec<_> =
            own.into_iter().chain(subflows.filter(|address| address.shares_interface(&local))).collect();
        let remotes: Vec<_> = self.remotes().collect();
        let mut targets = ordered_pairs(&locals, &remotes);
        targets.truncate(super::challenge::MAX_TARGETS);
        targets
    }

    /// All usable pairs of one family, grouped by local address.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (FourTuple, Role)> {
        let locals = self.locals.iter().filter(|candidate| self.may_use(candidate));
        locals.flat_map(|candidate| {
            let fitting =
                self.remotes().filter(|remote| remote.is_ipv4() == candidate.address.address.is_ipv4());
            let tuples = fitting.map(|remote| FourTuple::udp(candidate.address, remote));
            tuples.filter(shares_link).map(|tuple| (tuple, candidate.role))
        })
    }

    /// Whether the application closed the path over the interface of `local`.
    pub(crate) fn is_closed_by_application(&self, local: &LocalAddress) -> bool {
        self.closed_by_application.iter().any(|closed| closed.local.shares_interface(local))
    }

    /// The paths to open, given the local addresses that are `busy` with a path or an attempt.
    pub(crate) fn missing(&self, busy: &[LocalAddress]) -> Vec<OpenPath> {
        let mut open: Vec<OpenPath> = Vec::new();
        for candidate in self.locals.iter().filter(|candidate| self.may_use(candidate)) {
            let closed = self.closed_by_application.iter().map(|closed| &closed.local);
            let taken = busy.iter().chain(closed).any(|address| address.shares_interface(&candidate.address));
            let planned = open.iter().flat_map(|path| path.targets.first());
            if taken || planned.clone().any(|tuple| tuple.local.shares_interface(&candidate.address)) {
                continue;
            }
            let targets = self.targets(candidate.address);
            if !targets.is_empty() {
                open.push(OpenPath { targets, role: candidate.role });
            }
        }
        open
    }

    pub(crate) fn has_local(&self, address: &LocalAddress) -> bool {
        self.locals.iter().any(|candidate| candidate.address == *address && self.may_use(candidate))
    }

    /// Whether an address is usable, at whatever port: each stream has its own.
    pub(crate) fn has_host(&self, address: &LocalAddress) -> bool {
        self.of_host(address).is_some_and(|candidate| self.may_use(candidate))
    }

    /// The role of an address, at whatever port.
    pub(crate) fn role_of_host(&self, address: &LocalAddress) -> Role {
        self.of_host(address).map_or(Role::Primary, |candidate| candidate.role)
    }

    fn of_host(&self, address: &LocalAddress) -> Option<&LocalCandidate> {
        let host = |address: &LocalAddress| (address.interface, address.address.ip());
        self.locals.iter().find(|candidate| host(&candidate.address) == host(address))
    }

    pub(crate) fn role_of(&self, address: &LocalAddress) -> Role {
        self.locals
            .iter()
            .find(|candidate| candidate.address == *address)
            .map_or(Role::Primary, |candidate| candidate.role)
    }
}

impl PathManager {
    fn may_use(&self, candidate: &LocalCandidate) -> bool {
        candidate.role != Role::Never && !self.terms_of(&candidate.address).has_no_quota()
    }

    /// Memory of the measurements of address pairs.
    pub(crate) fn pair_memory(&self) -> ByteCount {
        self.selection.as_ref().map_or(ByteCount::ZERO, |selection| selection.checks.memory())
    }

    /// Why a local address is no longer used.
    pub(crate) fn why_left(&self, local: &LocalAddress) -> PathReason {
        let terms = self.terms_of(local);
        if terms.has_no_quota() {
            PathReason::CapReached { renewal: terms.renewal }
        } else {
            PathReason::AddressGone
        }
    }

    /// Sets the cost and quota of an address's interface; tells whether the cost changed.
    pub(crate) fn set_terms(&mut self, local: LocalAddress, terms: PathTerms) -> bool {
        let before = self.terms_of(&local).cost;
        self.terms.retain(|(known, _)| !known.shares_interface(&local));
        if terms != PathTerms::default() {
            self.terms.push((local, terms));
        }
        terms.cost != before
    }

    /// The cost and quota of an address's interface.
    pub(crate) fn terms_of(&self, local: &LocalAddress) -> PathTerms {
        let known = self.terms.iter().find(|(known, _)| known.shares_interface(local));
        known.map_or_else(PathTerms::default, |(_, terms)| *terms)
    }
}

#[cfg(test)]
mod tests {
    use super::{LocalCandidate, PathManager};
    use crate::LocalAddress;
    use crate::path::Role;

    fn local(interface: u32, address: &str) -> LocalCandidate {
        let address = LocalAddress { interface, address: address.parse().unwrap() };
        LocalCandidate { address, role: Role::Primary }
    }

    #[test]
    fn one_path_for_each_interface_tries_both_families() {
        let locals = [local(1, "10.0.0.1:1"), local(1, "[fd00::1]:1"), local(2, "10.1.0.1:1")];
        let remotes = ["192.0.2.1:4455".parse().unwrap(), "[2001:db8::1]:4455".parse().unwrap()];
        let manager = PathManager::new(&locals, &remotes);
        let missing = manager.missing(&[]);
        assert_eq!(missing.len(), 2);
        assert_eq!(missing[0].targets.len(), 2);
        assert_eq!(missing[1].targets.len(), 1);
        assert_eq!(manager.missing(&[locals[1].address]).len(), 1);
    }

    #[test]
    fn addresses_without_interface_are_interfaces_of_their_own() {
        let manager = PathManager::new(
            &[local(0, "127.0.1.1:1"), local(0, "127.0.2.1:1")],
            &["127.0.1.2:1".parse().unwrap()],
        );
        assert_eq!(manager.missing(&[]).len(), 2);
    }
}
