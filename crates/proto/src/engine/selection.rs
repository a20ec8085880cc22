//! Choice of single address pairs: measures, opens, and closes them once their replacements work (spec 6.47 to 6.50,
//! 6.66 to 6.71).

use std::time::Duration;

use manyway_wire::PathId;
use smallvec::SmallVec;

use super::output::Transmitter;
use super::rates::{is_full, measured_rate};
use super::{ChallengePacket, Engine};
use crate::path::selection::PairMode;
use crate::path::{Path, PathReason, PathState, Role};
use crate::{FourTuple, Instant, Transmit};

/// A path that does not work for this long no longer counts.
const LOST_FOR: Duration = Duration::from_secs(10);
/// Packets in flight on a replaced path have this long to arrive.
const DRAINS_FOR: Duration = Duration::from_secs(2);

impl Engine {
    /// Reviews the choice of pairs, if an event may change it.
    pub(crate) fn select_pairs(&mut self, now: Instant) {
        let is_due = self.manager.selection.as_ref().is_some_and(|selection| selection.is_due);
        if !is_due || !self.phase.is_established() {
            return;
        }
        let Some(mut selection) = self.manager.selection.take() else { return };
        selection.checks.on_timeout(now);
        for path in self.paths.iter().filter(|path| path.is_live()) {
            let counts = is_full(path) || selection.checks.lacks_rate(&path.tuple());
            let rate = measured_rate(path).filter(|_| counts);
            selection.checks.note(now, &path.tuple(), path.recovery.rtt().minimum(), rate);
        }
        selection.checks.age(now);
        let any_live = self.paths.iter().any(Path::is_live);
        for path in self.paths.iter().filter(|path| is_lost(path, now, any_live)) {
            selection.checks.on_lost(&path.tuple());
        }
        if self.pairs().trial_ends(&selection).is_some_and(|at| at <= now) {
            selection.give_up_trial(now);
        }
        let candidates = self.pairs().candidates(&selection);
        if self.pairs().is_undecided(&selection, &candidates) {
            let most = self.most(selection.mode);
            let is_full = self.paths.iter().any(is_full) || selection.checks.is_told(now);
            selection.choose(now, &candidates, most, is_full);
        }
        let (mode, wanted) = (selection.mode, selection.wanted.clone());
        self.manager.selection = Some(selection);
        if !any_live {
            self.retarget_paths(now);
        }
        for tuple in &wanted {
            let role = self.manager.role_of(&tuple.local);
            let known = self.paths.iter().find(|path| path.tuple() == *tuple);
            match known.map(|path| (path.id, is_deprecated(path))) {
                Some((id, true)) => self.take_back(now, id, role),
                Some((_, false)) => {}
                None => drop(self.open_path(now, vec![*tuple], role)),
            }
        }
        self.close_replaced(now, mode, &wanted);
        if let Some(selection) = &mut self.manager.selection {
            selection.is_due = false;
        }
    }

    /// The largest number of chosen pairs. An assignment uses one path less than the limit, so that another pair can
    /// be tried before the one that it replaces closes.
    fn most(&self, mode: PairMode) -> usize {
        let limit = usize::try_from(self.config.path_limit).unwrap_or(usize::MAX);
        match mode {
            PairMode::FullMesh => limit + 1,
            PairMode::LocalDisjoint | PairMode::Disjoint => limit.max(1),
        }
    }

    /// Make before break: a path closes when all its replacements work.
    fn close_replaced(&mut self, now: Instant, mode: PairMode, wanted: &[FourTuple]) {
        let replaced = self.paths.iter().filter(|path| self.pairs().is_replaced(path, mode, wanted));
        let replaced: SmallVec<[PathId; 8]> = replaced.map(|path| path.id).collect();
        for id in replaced {
            self.retire(now, id);
        }
    }

    /// A replaced path gets no new data, and closes when its packets in flight had time to arrive.
    fn retire(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get_mut(id) else { return };
        if matches!(path.state(), PathState::Active | PathState::Probation) {
            path.set_role(Role::Backup);
            self.advance_path(now, id, PathState::Backup, PathReason::Replaced);
            self.tell_status(id);
        } else if !is_deprecated(path) || closes_at(path) <= now {
            self.close_own_path(now, id, PathReason::Replaced);
        }
    }

    /// A replaced path is wanted again.
    fn take_back(&mut self, now: Instant, id: PathId, role: Role) {
        let Some(path) = self.paths.get_mut(id) else { return };
        path.set_role(role);
        let working = path.working_state();
        self.advance_path(now, id, working, PathReason::TriedAgain);
        self.tell_status(id);
    }

    /// When to review the choice, or to send the next connectivity check.
    pub(crate) fn selection_deadline(&self) -> Option<Instant> {
        let selection = self.manager.selection.as_ref().filter(|_| self.phase.is_established())?;
        let pairs = self.pairs();
        let lost = self.paths.iter().filter(|path| {
            matches!(path.state(), PathState::Validating | PathState::Dead)
                && selection.wanted.contains(&path.tuple())
        });
        let lost_at = lost.map(|path| path.since() + LOST_FOR).min();
        let leaving = self
            .paths
            .iter()
            .filter(|path| is_deprecated(path) && pairs.is_replaced(path, selection.mode, &selection.wanted));
        let closes = leaving.map(closes_at).min();
        let is_used = |tuple: &FourTuple| pairs.has_path(tuple);
        let checks = &selection.checks;
        let next_check = self.check_carrier().and_then(|_| checks.deadline(pairs.carried_at(), is_used));
        let rates = [pairs.trial_ends(selection), pairs.rate_news(selection)];
        [lost_at, closes, next_check, checks.settles_at(is_used)].into_iter().chain(rates).flatten().min()
    }

    /// Handles the passing of time.
    pub(crate) fn selection_timeout(&mut self, now: Instant) {
        if self.selection_deadline().is_some_and(|at| at <= now) {
            self.manager.reconsider();
            self.select_pairs(now);
        }
    }

    /// The path whose id connectivity checks of other pairs use.
    fn check_carrier(&self) -> Option<PathId> {
        self.paths.best_live(None).filter(|path| self.paths.can_send(path)).map(|path| path.id)
    }
}

impl Transmitter<'_> {
    /// A PROBE between addresses that no path uses, over the id of a working path. It is not in flight, and its
    /// acknowledgement says nothing about the path (spec 6.49).
    pub(crate) fn transmit_check(&mut self) -> Option<Transmit> {
        self.engine.manager.selection.as_ref()?;
        let id = self.engine.check_carrier()?;
        let carried_at = self.engine.pairs().carried_at();
        let mut selection = self.engine.manager.selection.take()?;
        let used: SmallVec<[FourTuple; 8]> = self.engine.paths.iter().map(|path| path.tuple()).collect();
        let challenge = selection.checks.next_challenge(
            self.now,
            &mut self.engine.shared.rng,
            (carried_at, |tuple: &FourTuple| used.contains(tuple)),
            |address| self.engine.manager.may_challenge(self.now, address),
        );
        // The choice may have waited for the second check of a pair.
        selection.is_due |= challenge.is_some();
        self.engine.manager.selection = Some(selection);
        let (tuple, nonce) = challenge?;
        let packet = ChallengePacket { tuple, response: None, challenge: Some(nonce), is_full: false };
        self.build_challenge(id, &packet)
    }
}

/// Whether a path no longer counts: it has not worked for long, or not at all while no other works either.
fn is_lost(path: &Path, now: Instant, any_live: bool) -> bool {
    match path.state() {
        PathState::Dead => !any_live || path.in_state_for(now) >= LOST_FOR,
        PathState::Validating => path.in_state_for(now) >= LOST_FOR,
        PathState::Active
        | PathState::Backup
        | PathState::Parked
        | PathState::Suspect
        | PathState::Probation
        | PathState::Closed => false,
    }
}

/// Whether other paths have replaced a path, which is idle until it closes.
pub(crate) fn is_deprecated(path: &Path) -> bool {
    path.state() == PathState::Backup && path.reason() == PathReason::Replaced
}

/// When a replaced path closes.
fn closes_at(path: &Path) -> Instant {
    let recovery = &path.recovery;
    let had_time = if recovery.packets_in_flight() == 0 { recovery.pto() * 2 } else { DRAINS_FOR };
    path.since() + had_time.min(DRAINS_FOR)
}
