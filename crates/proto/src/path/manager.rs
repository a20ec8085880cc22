//! Which address pairs to open, keep and close.
//!
//! 1. Only the client opens paths; the server names its addresses by ADD-ADDRESS.
//! 2. Unless pairs are chosen one by one (`selection`), one path for each interface (*local-disjoint*): its addresses of
//!    both families are tried against all addresses of the peer at once, and the pair that answers first is the path.
//! 3. An address that is gone closes its path at once; an interface that appears is tried at once.
//! 4. An interface over which nothing more may go (`PathTerms::quota_left`) is as one without addresses.
//! 5. A path that an application closed stays closed until its interface has been gone.
//! 6. Addresses that the peer names are limited in number, in kind and in how often they are asked, so that nobody can
//!    make this host probe a third.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::crossing::{crossed, shares_link};
use super::probe_budget::ProbeBudget;
use super::remotes::Remotes;
use super::selection::{Candidate, MOST_LOCALS, PairMode, choose, is_trial};
use super::state::{PathReason, Role};
use super::survey::{MOST_PAIRS, Survey};
use crate::scheduler::PathTerms;
use crate::{FourTuple, Instant, LocalAddress};

/// An address of this host that may be used, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalCandidate {
    /// The socket's address and interface.
    pub address: LocalAddress,
    /// What the interface is meant for.
    pub role: Role,
}

/// A path to open: all pairs to try for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenPath {
    pub(crate) targets: Vec<FourTuple>,
    pub(crate) role: Role,
}

/// Keeps the addresses of both ends.
#[derive(Debug, Default)]
pub(crate) struct PathManager {
    locals: Vec<LocalCandidate>,
    remotes: Remotes,
    budget: ProbeBudget,
    /// Where an application closed a path: not tried again before the own address has been gone.
    set_aside: Vec<FourTuple>,
    /// Interfaces whose use costs something.
    terms: Vec<(LocalAddress, PathTerms)>,
    /// Addresses that the peer took back while no other path worked.
    leaving: Vec<SocketAddr>,
    /// Which pairs to use, where that is chosen pair by pair.
    pub(crate) selection: Option<Box<Selection>>,
}

/// The pairs to use, and what led to that.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) mode: PairMode,
    pub(crate) survey: Survey,
    pub(crate) wanted: Vec<FourTuple>,
    /// Pairs of unknown rate that are tried in the place of others.
    pub(crate) trial: Option<Trial>,
    /// What each pair cost when the choice was made.
    pub(crate) judged: Vec<(FourTuple, Duration)>,
    /// Addresses came or went since.
    pub(crate) is_stale: bool,
    /// Something happened that may change the choice, or the paths to open and close.
    pub(crate) is_due: bool,
}

/// What gave way to pairs that are tried beside it, and has to be beaten once their rates are known.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) left: Vec<FourTuple>,
    pub(crate) since: Instant,
}

impl Selection {
    /// The pairs that are tried.
    pub(crate) fn tried(&self) -> impl Iterator<Item = &FourTuple> {
        let left = self.trial.as_ref().map(|trial| &trial.left);
        self.wanted.iter().filter(move |tuple| left.is_some_and(|left| !left.contains(tuple)))
    }

    /// Whether all that are tried have shown what they deliver.
    pub(crate) fn is_trial_over(&self, candidates: &[Candidate]) -> bool {
        let lacks_rate = |tuple: &FourTuple| {
            candidates.iter().any(|candidate| candidate.tuple == *tuple && candidate.rate.is_none())
        };
        self.trial.is_some() && !self.tried().any(lacks_rate)
    }

    /// Chooses anew among the pairs that work, at most so many. One of unknown rate is tried only while a path is full:
    /// else its rate would stay unknown (spec 6.67).
    pub(crate) fn choose(&mut self, now: Instant, candidates: &[Candidate], most: usize, is_full: bool) {
        self.judged = candidates.iter().map(|candidate| (candidate.tuple, candidate.cost())).collect();
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

    /// What is tried had its time, and its rate is still unknown: back to what is known.
    pub(crate) fn give_up_trial(&mut self, now: Instant) {
        let tried: Vec<_> = self.tried().copied().collect();
        tried.iter().for_each(|tuple| self.survey.on_tried_in_vain(now, tuple));
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

    /// Chooses pairs in this way.
    pub(crate) fn with_mode(mut self, mode: PairMode) -> Self {
        self.selection = (mode != PairMode::LocalDisjoint).then(|| {
            Box::new(Selection {
                mode,
                survey: Survey::default(),
                wanted: Vec::new(),
                trial: None,
                judged: Vec::new(),
                is_stale: true,
                is_due: true,
            })
        });
        self
    }

    /// Something happened that may change which pairs are used.
    pub(crate) fn reconsider(&mut self) {
        if let Some(selection) = &mut self.selection {
            selection.is_due = true;
        }
    }

    /// Looks at the pairs that there are now.
    pub(crate) fn survey(&mut self, now: Instant) {
        let Some(mut selection) = self.selection.take() else { return };
        let tuples = self.selectable();
        if !selection.survey.pairs().map(|(tuple, ..)| tuple).eq(tuples.iter().copied()) {
            selection.survey.set_pairs(now, tuples.into_iter());
            selection.is_stale = true;
        }
        selection.is_due = true;
        self.selection = Some(selection);
    }

    /// Whether an answer about the distance is waited for between these addresses.
    pub(crate) fn is_surveyed(&self, tuple: &FourTuple) -> bool {
        self.selection.as_ref().is_some_and(|selection| selection.survey.is_asked(tuple))
    }

    /// The answer to a question about the distance came.
    pub(crate) fn on_survey_answer(&mut self, now: Instant, tuple: &FourTuple, nonce: u64) {
        if let Some(selection) = &mut self.selection
            && selection.survey.on_answer(now, tuple, nonce)
        {
            selection.is_due = true;
            self.on_answered(tuple.remote);
        }
    }

    /// The pairs that may be chosen, every own address with one of the peer before the next one of the peer.
    fn selectable(&self) -> Vec<FourTuple> {
        let mut locals = self.locals();
        locals.truncate(MOST_LOCALS);
        let remotes: Vec<_> = self.remotes().collect();
        let mut tuples = crossed(&locals, &remotes);
        tuples.retain(|tuple| !self.set_aside.contains(tuple));
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
        self.set_aside.retain(|aside| locals.iter().any(|candidate| candidate.address == aside.local));
    }

    /// Opens no path from this interface, or between these addresses where pairs are chosen, before its address has been
    /// gone.
    pub(crate) fn set_aside(&mut self, tuple: FourTuple) {
        let has_local = self.locals.iter().any(|candidate| candidate.address == tuple.local);
        if !self.set_aside.contains(&tuple) && has_local {
            self.set_aside.push(tuple);
        }
    }

    /// Takes an address that the application or the ticket names; false if it is known or there are too many.
    pub(crate) fn add_remote(&mut self, address: SocketAddr) -> bool {
        self.remotes.add_lasting(address)
    }

    /// Takes a new answer to the question for the peer's name. Its addresses come first; when there are too many, those
    /// go that it does not contain and that are not `used`.
    pub(crate) fn refresh_remotes(&mut self, fresh: &[SocketAddr], used: &[SocketAddr]) {
        self.remotes.refresh_lasting(fresh, used);
    }

    /// Takes an address that the peer names; false if it changes nothing.
    pub(crate) fn on_add_address(
        &mut self,
        id: u64,
        sequence: u64,
        address: SocketAddr,
        peer: IpAddr,
    ) -> bool {
        self.leaving.retain(|leaving| *leaving != address);
        self.remotes.on_add(id, sequence, address, peer)
    }

    /// Forgets an address that the peer takes back, and returns it.
    pub(crate) fn on_remove_address(&mut self, id: u64, sequence: u64) -> Option<SocketAddr> {
        self.remotes.on_remove(id, sequence)
    }

    /// Nothing works any more.
    pub(crate) fn on_stuck(&mut self) {
        self.remotes.forgive();
    }

    /// The path to an address that the peer took back stays until another one works.
    pub(crate) fn set_leaving(&mut self, address: SocketAddr) {
        // A peer has no more than that to take back.
        if self.leaving.len() >= super::remotes::MAX_REMOTES {
            self.leaving.remove(0);
        }
        self.leaving.push(address);
    }

    /// Whether the peer took an address back that a path still leads to.
    pub(crate) fn is_leaving(&self, address: SocketAddr) -> bool {
        self.leaving.contains(&address)
    }

    /// Whether there is any such address.
    pub(crate) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// No path leads to an address any more that the peer took back.
    pub(crate) fn forget_leaving(&mut self) {
        self.leaving.clear();
    }

    /// Takes all addresses of the peer from a rendezvous server; false if that changes nothing.
    pub(crate) fn on_met(&mut self, addresses: &[SocketAddr], peer: IpAddr) -> bool {
        self.remotes.on_met(addresses, peer)
    }

    pub(crate) fn on_off_path_packet(&mut self, address: SocketAddr, peer: IpAddr) -> bool {
        self.remotes.on_off_path_packet(address, peer)
    }

    /// The own addresses that the application named.
    pub(crate) fn local_candidates(&self) -> &[LocalCandidate] {
        &self.locals
    }

    /// The own addresses that may be used: one of each interface, then the second ones, and so on, so that an interface
    /// with many addresses crowds no other out.
    pub(crate) fn locals(&self) -> Vec<LocalAddress> {
        let usable = self.locals.iter().filter(|local| self.may_use(local));
        let mut turns: Vec<(usize, LocalAddress)> = Vec::new();
        for LocalCandidate { address, .. } in usable {
            turns.push((turns.iter().filter(|(_, known)| same_interface(known, address)).count(), *address));
        }
        turns.sort_by_key(|(turn, _)| *turn);
        turns.into_iter().map(|(_, address)| address).collect()
    }

    /// Every address of the peer that is known.
    pub(crate) fn remotes(&self) -> impl Iterator<Item = SocketAddr> {
        self.remotes.iter()
    }

    /// Whether only the peer's word tells that somebody wants to be asked at an address.
    pub(crate) fn is_unverified(&self, address: SocketAddr) -> bool {
        self.remotes.is_unverified(address)
    }

    /// Whether a question may go to an address now; yes takes it out of the budget.
    ///
    /// # Errors
    /// When it may, at the earliest.
    pub(crate) fn may_ask(&mut self, now: Instant, address: SocketAddr) -> Result<(), Instant> {
        if self.is_unverified(address) { self.budget.take(now, address) } else { Ok(()) }
    }

    /// Somebody answered at an address of the peer.
    pub(crate) fn on_answered(&mut self, address: SocketAddr) {
        self.remotes.on_answered(address);
        self.budget.on_answered(address);
    }

    /// The pairs of `local`'s interface with the peer's addresses that are tried for one path (spec 6.4).
    pub(crate) fn targets(&self, local: LocalAddress) -> Vec<FourTuple> {
        let subflows =
            self.locals.iter().map(|candidate| candidate.address).filter(|address| *address != local);
        let own = Some(local).filter(|local| !self.terms_of(local).is_spent());
        let locals: Vec<_> =
            own.into_iter().chain(subflows.filter(|address| same_interface(address, &local))).collect();
        let remotes: Vec<_> = self.remotes().collect();
        let mut targets = crossed(&locals, &remotes);
        targets.truncate(super::probe::MAX_TARGETS);
        targets
    }

    /// All pairs of one family that may be used, by own address.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (FourTuple, Role)> {
        let locals = self.locals.iter().filter(|candidate| self.may_use(candidate));
        locals.flat_map(|candidate| {
            let fitting =
                self.remotes().filter(|remote| remote.is_ipv4() == candidate.address.address.is_ipv4());
            let tuples = fitting.map(|remote| FourTuple { local: candidate.address, remote });
            tuples.filter(shares_link).map(|tuple| (tuple, candidate.role))
        })
    }

    /// Whether the path over the interface of `local` was closed by an application.
    pub(crate) fn is_set_aside(&self, local: &LocalAddress) -> bool {
        self.set_aside.iter().any(|aside| same_interface(&aside.local, local))
    }

    /// The paths that should be opened beside those that use or try `busy`.
    pub(crate) fn missing(&self, busy: &[LocalAddress]) -> Vec<OpenPath> {
        let mut open: Vec<OpenPath> = Vec::new();
        for candidate in self.locals.iter().filter(|candidate| self.may_use(candidate)) {
            let aside = self.set_aside.iter().map(|aside| &aside.local);
            let taken = busy.iter().chain(aside).any(|address| same_interface(address, &candidate.address));
            let planned = open.iter().flat_map(|path| path.targets.first());
            if taken || planned.clone().any(|tuple| same_interface(&tuple.local, &candidate.address)) {
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

    pub(crate) fn role_of(&self, address: &LocalAddress) -> Role {
        self.locals
            .iter()
            .find(|candidate| candidate.address == *address)
            .map_or(Role::Primary, |candidate| candidate.role)
    }
}

impl PathManager {
    fn may_use(&self, candidate: &LocalCandidate) -> bool {
        candidate.role != Role::Never && !self.terms_of(&candidate.address).is_spent()
    }

    /// Why an own address is not used any more.
    pub(crate) fn why_left(&self, local: &LocalAddress) -> PathReason {
        let terms = self.terms_of(local);
        if terms.is_spent() {
            PathReason::CapReached { renewal: terms.renewal }
        } else {
            PathReason::AddressGone
        }
    }

    /// Says what it costs to use the interface of an address.
    pub(crate) fn set_terms(&mut self, local: LocalAddress, terms: PathTerms) {
        self.terms.retain(|(known, _)| !same_interface(known, &local));
        if terms != PathTerms::default() {
            self.terms.push((local, terms));
        }
    }

    /// What it costs to use the interface of an address.
    pub(crate) fn terms_of(&self, local: &LocalAddress) -> PathTerms {
        let known = self.terms.iter().find(|(known, _)| same_interface(known, local));
        known.map_or_else(PathTerms::default, |(_, terms)| *terms)
    }
}

/// Addresses without an interface are told apart by themselves.
pub(crate) fn same_interface(a: &LocalAddress, b: &LocalAddress) -> bool {
    if a.interface == 0 || b.interface == 0 { a == b } else { a.interface == b.interface }
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
