//! Every address pair and every local address, and why each is used or not.

mod why;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use manyway_proto::scheduler::Purpose;
use manyway_proto::{
    AddressPair, FourTuple, Instant, PairUse, PathAvailability, PathId, PathReason, PathState,
    PathStatistics, Role,
};

use crate::interfaces::AddressReport;
pub use why::{Unused, Used, Why};

/// Data within this time counts as current load.
const LOAD: Duration = Duration::from_secs(2);
/// A path whose last data is this much older than another's carries none.
const APART: Duration = Duration::from_secs(1);

/// An address pair, or a local address that leads nowhere, and its use.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathReport {
    /// Name of the interface, where one is known.
    pub interface: Option<String>,
    /// The local address; `None` if the interface has none.
    pub local: Option<IpAddr>,
    /// The peer's address; `None` if the local address is not used towards any.
    pub remote: Option<SocketAddr>,
    /// The role of the interface; `None` if it is not used.
    pub role: Option<Role>,
    /// The figures of the path, if the pair has one.
    pub path: Option<PathStatistics>,
    /// Why it carries data, or would under load; or why it carries none.
    pub why: Why,
}

/// The input of a report.
pub(crate) struct Facts<'a> {
    pub(crate) now: Instant,
    pub(crate) paths: &'a [PathStatistics],
    pub(crate) pairs: &'a [AddressPair],
    /// The scheduler's purpose of each path in use.
    pub(crate) purposes: &'a [(PathId, Purpose)],
    /// Every local address, and the interfaces without one.
    pub(crate) addresses: Vec<AddressReport>,
    /// The name of an interface of that number.
    pub(crate) name: &'a dyn Fn(u32) -> Option<String>,
}

impl Facts<'_> {
    /// Paths first, then the other pairs, then the local addresses that lead nowhere.
    pub(crate) fn report(self) -> Vec<PathReport> {
        let mut report: Vec<_> = self.paths.iter().map(|path| self.of_path(path)).collect();
        report.extend(self.pairs.iter().filter_map(|pair| self.of_pair(pair)));
        let rest = self.addresses.into_iter().filter_map(|own| {
            let reason = own.excluded?;
            Some(PathReport {
                interface: Some(own.interface),
                local: own.address.map(|prefix| prefix.address),
                remote: None,
                role: None,
                path: None,
                why: Why::Unused(Unused::Excluded(reason)),
            })
        });
        report.extend(rest);
        report
    }

    fn of_path(&self, path: &PathStatistics) -> PathReport {
        self.row(&path.tuple, path.role, Some(path), self.why(path))
    }

    fn of_pair(&self, pair: &AddressPair) -> Option<PathReport> {
        let unused = match pair.usage {
            PairUse::Path(_) => return None,
            PairUse::Challenged { path } => self.no_answer(self.find(path)?),
            PairUse::Spare { path } => Unused::OtherPair { chosen: self.find(path)?.tuple },
            PairUse::Measured { rtt } => Unused::LeftOut { rtt },
            PairUse::ClosedByApplication => Unused::Closed,
            PairUse::NoRoom | _ => Unused::NoRoom,
        };
        Some(self.row(&pair.tuple, pair.role, None, Why::Unused(unused)))
    }

    fn row(&self, tuple: &FourTuple, role: Role, path: Option<&PathStatistics>, why: Why) -> PathReport {
        PathReport {
            interface: (self.name)(tuple.local.interface),
            local: Some(tuple.local.address.ip().to_canonical()),
            remote: Some(tuple.remote),
            role: Some(role),
            path: path.copied(),
            why,
        }
    }

    fn find(&self, id: PathId) -> Option<&PathStatistics> {
        self.paths.iter().find(|path| path.id == id)
    }

    fn no_answer(&self, path: &PathStatistics) -> Unused {
        Unused::NoAnswer { waited: self.silent(path), carrier: path.tuple.carrier }
    }

    fn silent(&self, path: &PathStatistics) -> Duration {
        self.now - path.heard_at
    }

    fn why(&self, path: &PathStatistics) -> Why {
        self.why_out(path).map_or_else(|| self.why_in(path), Why::Unused)
    }

    /// Why a path carries no data regardless of the scheduler.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the protocol's list is open")]
    fn why_out(&self, path: &PathStatistics) -> Option<Unused> {
        match path.state {
            PathState::Validating => Some(self.no_answer(path)),
            PathState::Suspect => Some(Unused::Suspect { silent: self.silent(path), reason: path.reason }),
            PathState::Dead => Some(self.why_dead(path)),
            _ if is_deaf(path) => Some(Unused::PeerReceivesNothing),
            _ if !is_reserve(path) || self.purpose(path).is_some() || self.is_by_peer(path) => None,
            PathState::Parked => Some(Unused::Parked(path.reason)),
            _ if path.peer_says == PathAvailability::Backup => Some(Unused::PeerWantsBackup),
            _ => Some(Unused::Backup),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the protocol's list is open")]
    fn why_dead(&self, path: &PathStatistics) -> Unused {
        match path.reason {
            PathReason::SendRefused => Unused::NoRoute,
            PathReason::SendDenied => Unused::Denied,
            PathReason::AddressGone => Unused::AddressGone,
            PathReason::CapReached { renewal } => Unused::CapReached { renewal },
            PathReason::PeerReceivedNothing => Unused::PeerReceivesNothing,
            PathReason::OnlySmall => Unused::OnlySmall,
            PathReason::Flaps { times } if self.silent(path) < APART => Unused::Flaps { times },
            _ => self.no_answer(path),
        }
    }

    /// Why a path in use carries data or none.
    fn why_in(&self, path: &PathStatistics) -> Why {
        let purpose = self.purpose(path).unwrap_or(Purpose::Any);
        let idle = path.data_at.map(|at| self.now - at);
        let (carries, sends) = self.load(path);
        // The reserve may be in use all the same: in place of paths that need permission.
        let others_work = self.others(path).any(works);
        let may_be_used =
            |path: &PathStatistics| works(path) && self.purpose(path) != Some(Purpose::NeedsConsent);
        let is_on_trial =
            path.state == PathState::Probation && self.others(path).any(may_be_used) && !is_reserve(path);
        match (carries, sends) {
            _ if is_on_trial && !self.sent_since(path) => Why::Unused(Unused::Probation),
            (Some(false), None) => Why::Unused(Unused::PeerSendsElsewhere { idle }),
            (Some(false), Some(_)) => Why::Unused(Unused::NotNeeded { purpose, idle }),
            (None, _) if !purpose.takes_new_data() => Why::Unused(Unused::NotNeeded { purpose, idle }),
            _ if !purpose.takes_new_data() && self.is_by_peer(path) => Why::Used(Used::ByPeer),
            _ if !others_work => Why::Used(why_only(path)),
            _ if path.state == PathState::Probation => Why::Used(Used::Probation),
            _ if self.is_by_peer(path) => Why::Used(Used::ByPeer),
            _ if path.role == Role::Secondary && !self.others(path).any(is_working_primary) => {
                Why::Used(Used::Secondary)
            }
            _ => Why::Used(Used::For(purpose)),
        }
    }

    /// The scheduler's purpose of a path, if it is in use.
    fn purpose(&self, path: &PathStatistics) -> Option<Purpose> {
        self.purposes.iter().find(|(id, _)| *id == path.id).map(|(_, purpose)| *purpose)
    }

    /// Whether a path carries the current load in any direction, and that of this end; `None` without load.
    fn load(&self, path: &PathStatistics) -> (Option<bool>, Option<bool>) {
        let carries = self.is_newest(path.data_at, |path| path.data_at);
        (carries, self.is_newest(path.data_sent_at, |path| path.data_sent_at))
    }

    /// Whether the peer sends on a path, and this end does not.
    fn is_by_peer(&self, path: &PathStatistics) -> bool {
        matches!(self.load(path), (Some(true), None | Some(false)))
    }

    fn others(&self, path: &PathStatistics) -> impl Iterator<Item = &PathStatistics> {
        let id = path.id;
        self.paths.iter().filter(move |other| other.id != id)
    }

    /// Whether `at` is about as late as the latest of all paths; `None` if that is no current load.
    fn is_newest(
        &self,
        at: Option<Instant>,
        of: impl Fn(&PathStatistics) -> Option<Instant>,
    ) -> Option<bool> {
        let newest = self.paths.iter().filter_map(of).max().filter(|newest| self.now - *newest <= LOAD)?;
        Some(at.is_some_and(|at| newest - at < APART))
    }

    fn sent_since(&self, path: &PathStatistics) -> bool {
        path.data_sent_at.is_some_and(|at| at >= path.since)
    }
}

/// Whether the peer reports that it receives nothing.
fn is_deaf(path: &PathStatistics) -> bool {
    matches!(path.peer_says, PathAvailability::Suspect | PathAvailability::Dead)
}

/// Why a path carries data while no other works.
fn why_only(path: &PathStatistics) -> Used {
    if path.state == PathState::Parked {
        Used::Parked
    } else if path.peer_says == PathAvailability::Backup {
        Used::PeerWantsBackup
    } else if is_reserve(path) {
        Used::Backup
    } else {
        Used::Alone
    }
}

/// Whether a path carries data only while no other that the scheduler may use works.
fn is_reserve(path: &PathStatistics) -> bool {
    matches!(path.state, PathState::Backup | PathState::Parked)
        || path.role >= Role::Backup
        || path.peer_says == PathAvailability::Backup
}

/// Whether a path works that is not in reserve.
fn works(path: &PathStatistics) -> bool {
    matches!(path.state, PathState::Active | PathState::Probation) && !is_deaf(path) && !is_reserve(path)
}

fn is_working_primary(path: &PathStatistics) -> bool {
    works(path) && path.state == PathState::Active && path.role == Role::Primary
}

#[cfg(test)]
mod tests;
