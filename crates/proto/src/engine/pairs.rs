//! State of each candidate pair.

use std::time::Duration;

use manyway_wire::PathId;

use super::rates::measured_rate;
use super::{Engine, Side};
use crate::path::connectivity_checks::differ;
use crate::path::manager::{PathManager, Selection};
use crate::path::selection::{Candidate, PairMode, share_an_address};
use crate::path::{Path, PathReason, PathSet, PathState, Role};
use crate::{FourTuple, Instant, LocalAddress, Rate};

/// A candidate pair of one family that a client could use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddressPair {
    /// The addresses.
    pub tuple: FourTuple,
    /// The role of its interface.
    pub role: Role,
    /// Its state.
    pub usage: PairUse,
}

/// The state of a candidate pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PairUse {
    /// This path uses it.
    Path(PathId),
    /// The path of its interface looks for a working pair, and challenges this one too.
    Challenged {
        /// The path.
        path: PathId,
    },
    /// The path of its interface uses another pair, which answered first.
    Spare {
        /// The path.
        path: PathId,
    },
    /// No path uses it; connectivity checks measure it now and then.
    Measured {
        /// The smallest RTT of the last checks, if any was answered.
        rtt: Option<Duration>,
    },
    /// The application closed the path of its interface.
    ClosedByApplication,
    /// The limits of both ends allow no further path now.
    NoRoom,
}

/// A pair of unknown rate is tried for this long beside the pairs that it may replace.
const TRIED_FOR: Duration = Duration::from_secs(5);
/// Longest trial, whatever the state of its path.
const TRIED_AT_MOST: Duration = Duration::from_secs(15);
/// Cost of an interface besides its distance, if it is in reserve or its use costs something.
const RESERVE: Duration = Duration::from_secs(10);
const METERED: Duration = Duration::from_secs(1);

/// The candidate pairs, in the present state of the paths and their manager.
#[derive(Clone, Copy)]
pub(super) struct Pairs<'a> {
    paths: &'a PathSet,
    manager: &'a PathManager,
}

impl Engine {
    /// Every candidate pair of one family that a client could use. Costs O(pairs × paths).
    pub(crate) fn address_pairs(&self) -> Vec<AddressPair> {
        if self.side == Side::Server {
            return Vec::new();
        }
        let pairs = self.manager.pairs();
        pairs.map(|(tuple, role)| AddressPair { tuple, role, usage: self.pairs().usage(&tuple) }).collect()
    }

    pub(super) fn pairs(&self) -> Pairs<'_> {
        Pairs { paths: &self.paths, manager: &self.manager }
    }
}

impl Pairs<'_> {
    /// The pairs that a path without a response challenges: all of its interface. Where pairs are chosen one by one,
    /// the path challenges its own pair, and the unused ones of its interface only while no path works.
    pub(super) fn targets(&self, id: PathId) -> Vec<FourTuple> {
        let Some(path) = self.paths.get(id) else { return Vec::new() };
        if !path.is_datagram() {
            return vec![path.tuple()];
        }
        let mut targets = self.manager.targets(path.tuple().local);
        if self.manager.selection.is_some() {
            let none_live = !self.paths.iter().any(Path::is_live);
            targets.retain(|tuple| *tuple == path.tuple() || (none_live && !self.is_taken(id, tuple)));
        }
        targets
    }

    /// Whether another path than this one uses these addresses. A path without any acknowledgement does not keep a
    /// dead one from them: the peer may lack a connection ID to answer with (spec 6.11).
    pub(super) fn is_taken(&self, id: PathId, tuple: &FourTuple) -> bool {
        let is_dead = self.paths.get(id).is_some_and(|path| path.state() == PathState::Dead);
        let holds = |other: &Path| other.id != id && other.tuple() == *tuple;
        self.paths.iter().any(|other| holds(other) && !(is_dead && is_unvalidated(other)))
    }

    /// Why the local address of a path is no longer used.
    pub(super) fn why_left(&self, id: PathId) -> PathReason {
        let local = self.paths.get(id).map(|path| path.tuple().local);
        local.map_or(PathReason::AddressGone, |local| self.manager.why_left(&local))
    }

    pub(super) fn keeps(&self, path: &Path) -> bool {
        let local = path.tuple().local;
        if path.is_datagram() { self.manager.has_local(&local) } else { self.manager.has_host(&local) }
    }

    fn usage(&self, tuple: &FourTuple) -> PairUse {
        if let Some(path) = self.paths.iter().find(|path| path.tuple() == *tuple) {
            return PairUse::Path(path.id);
        }
        if let Some(selection) = &self.manager.selection {
            let pair = selection.checks.pairs().find(|(checked, ..)| checked == tuple);
            return match pair {
                Some((_, rtt, _)) => PairUse::Measured { rtt },
                None if self.manager.is_closed_by_application(&tuple.local) => PairUse::ClosedByApplication,
                None => PairUse::NoRoom,
            };
        }
        let of_interface = |other: &LocalAddress| other.shares_interface(&tuple.local);
        let mut datagrams = self.paths.iter().filter(|path| path.is_datagram());
        let Some(path) = datagrams.find(|path| of_interface(&path.tuple().local)) else {
            let is_closed = self.manager.is_closed_by_application(&tuple.local);
            return if is_closed { PairUse::ClosedByApplication } else { PairUse::NoRoom };
        };
        let looks = matches!(path.state(), PathState::Validating | PathState::Dead);
        if looks && path.prober.is_target(tuple) {
            PairUse::Challenged { path: path.id }
        } else {
            PairUse::Spare { path: path.id }
        }
    }

    /// Whether to choose again: addresses or costs changed, and all pairs had time to answer; or a pair in use is
    /// lost.
    pub(super) fn is_undecided(&self, selection: &Selection, candidates: &[Candidate]) -> bool {
        let is_lost = |tuple: &FourTuple| !candidates.iter().any(|candidate| candidate.tuple == *tuple);
        if selection.wanted.iter().any(is_lost) || selection.is_trial_over(candidates) {
            return true;
        }
        let is_news = |candidate: &Candidate| {
            let before = selection.judged.iter().find(|(tuple, _)| *tuple == candidate.tuple);
            before.is_none_or(|(_, cost)| differ(*cost, candidate.cost()))
        };
        (selection.is_stale || candidates.iter().any(is_news))
            && selection.checks.settles_at(|tuple| self.has_path(tuple)).is_none()
    }

    pub(super) fn has_path(&self, tuple: &FourTuple) -> bool {
        self.paths.iter().any(|path| path.tuple() == *tuple)
    }

    /// The pairs that are known to work. In a full mesh, which uses every pair up to the limit, rates do not count.
    pub(super) fn candidates(&self, selection: &Selection) -> Vec<Candidate> {
        let candidate = |(tuple, rtt, rate): (FourTuple, Option<Duration>, Option<Rate>)| {
            let rate = rate.filter(|_| selection.mode == PairMode::Disjoint);
            let rests = selection.checks.rests(&tuple);
            Some(Candidate { tuple, rtt: rtt?, rate, rests, penalty: self.penalty(&tuple.local) })
        };
        selection.checks.pairs().filter_map(candidate).collect()
    }

    fn penalty(&self, local: &LocalAddress) -> Duration {
        let reserve = match self.manager.role_of(local) {
            Role::Primary | Role::Secondary => Duration::ZERO,
            Role::Backup | Role::Never => RESERVE,
        };
        if self.manager.terms_of(local).cost > 0 { reserve + METERED } else { reserve }
    }

    /// Whether the replacements of a path work.
    pub(super) fn is_replaced(&self, path: &Path, mode: PairMode, wanted: &[FourTuple]) -> bool {
        if wanted.is_empty() || wanted.contains(&path.tuple()) || !path.is_datagram() {
            return false;
        }
        let works =
            |tuple: &FourTuple| self.paths.iter().any(|path| path.tuple() == *tuple && path.is_live());
        match mode {
            PairMode::FullMesh => {
                wanted.iter().any(|tuple| !self.has_path(tuple)) && wanted.iter().any(works)
            }
            PairMode::LocalDisjoint | PairMode::Disjoint => {
                let takes_over = |tuple: &FourTuple| works(tuple) && !self.is_tried(tuple, path);
                let mut rivals =
                    wanted.iter().filter(|tuple| share_an_address(tuple, &path.tuple())).peekable();
                rivals.peek().is_some() && rivals.all(takes_over)
            }
        }
    }

    /// Whether a pair is on trial beside a path. The path stays until the rate of the pair is known: a slow pair
    /// would delay all data if it were alone.
    fn is_tried(&self, tuple: &FourTuple, path: &Path) -> bool {
        let Some(Selection { checks, trial: Some(trial), .. }) = self.manager.selection.as_deref() else {
            return false;
        };
        trial.left.contains(&path.tuple()) && checks.lacks_rate(tuple)
    }

    /// When the trial ends.
    pub(super) fn trial_ends(&self, selection: &Selection) -> Option<Instant> {
        let trial = selection.trial.as_ref()?;
        let is_open = |path: &&Path| {
            let is_tried = selection.tried().any(|tuple| *tuple == path.tuple());
            path.is_live() && is_tried && selection.checks.lacks_rate(&path.tuple())
        };
        let tried = self.paths.iter().filter(is_open).map(|path| path.since() + TRIED_FOR);
        tried.chain([trial.since + TRIED_AT_MOST]).min()
    }

    /// At once, if the rate of a path has become measurable and was unknown.
    pub(super) fn rate_news(&self, selection: &Selection) -> Option<Instant> {
        let is_news = |path: &&Path| {
            path.is_live() && selection.checks.lacks_rate(&path.tuple()) && measured_rate(path).is_some()
        };
        self.paths.iter().find(is_news).map(Path::since)
    }

    /// When stream data last went over any path.
    pub(super) fn carried_at(&self) -> Option<Instant> {
        self.paths.iter().filter_map(Path::last_data).max()
    }
}

/// Whether a path has not been validated yet.
pub(super) fn is_unvalidated(path: &Path) -> bool {
    let never = path.recovery.last_progress().is_none();
    path.state() == PathState::Validating || (path.state() == PathState::Dead && never)
}
