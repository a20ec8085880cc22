//! Why each pair of addresses is used or not.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use manyway_proto::{
    AddressPair, Date, FourTuple, Instant, PairUse, PathAvailability, PathId, PathReason, PathState,
    PathStatistics, Role, text,
};

use crate::interfaces::{AddressReport, Exclusion};

/// Data that flowed within this time counts as present load.
const LOAD: Duration = Duration::from_secs(2);
/// A path without data for so much longer than another is not needed.
const APART: Duration = Duration::from_secs(1);

/// A pair of addresses, or an own address that leads nowhere, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathReport {
    /// Name of the interface, where one is known.
    pub interface: Option<String>,
    /// The own address; `None` if the interface has none.
    pub local: Option<IpAddr>,
    /// The peer's address; `None` if the own address is not used towards any.
    pub remote: Option<SocketAddr>,
    /// What the interface is meant for; `None` if it is not used.
    pub role: Option<Role>,
    /// The figures of the path, if the pair is one.
    pub path: Option<PathStatistics>,
    /// Why it carries no data; `None` if it does, or would if there were any.
    pub unused: Option<Unused>,
}

/// Why a pair of addresses carries no data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unused {
    /// The interface or the address is not to be used.
    Excluded(Exclusion),
    /// Nobody answers.
    NoAnswer {
        /// Time since the last packet, or since the first question.
        waited: Duration,
    },
    /// Silent with data in flight; it is being questioned.
    Suspect {
        /// Time since the last packet.
        silent: Duration,
    },
    /// The peer hears nothing on it.
    PeerHearsNothing,
    /// The system refuses to send: it has no route.
    NoRoute,
    /// Its address is gone.
    AddressGone,
    /// What may go over its interface is used up.
    CapReached {
        /// When there is more.
        renewal: Option<Date>,
    },
    /// It answers, but lately it died soon after each return; it is left alone for some seconds.
    Flaps {
        /// How many returns of the last minute did not last.
        times: u8,
    },
    /// It answers again and has to prove itself.
    Probation,
    /// Using it would make the paths together slower; it is tried again later.
    Parked(PathReason),
    /// Its role is backup, and another path works.
    Backup,
    /// The peer wants it as a backup, and another path works.
    PeerWantsBackup,
    /// Its role is secondary, and the primaries have room.
    Secondary,
    /// The others carry everything.
    NotNeeded {
        /// Time since it last carried data; `None` if it never did.
        idle: Option<Duration>,
    },
    /// Another pair of the same interface answered first.
    OtherPair {
        /// That pair.
        chosen: FourTuple,
    },
    /// Other pairs were chosen.
    LeftOut {
        /// Its round-trip time when it was asked last; `None` if it does not answer.
        rtt: Option<Duration>,
    },
    /// The application closed the path over this interface.
    Closed,
    /// Both ends allow no more paths.
    NoRoom,
}

impl Unused {
    /// The reason in one word, for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Excluded(Exclusion::CapReached { .. }) | Self::CapReached { .. } => "cap-reached",
            Self::Excluded(_) => "excluded",
            Self::NoAnswer { .. } => "no-answer",
            Self::Suspect { .. } => "suspect",
            Self::PeerHearsNothing => "peer-hears-nothing",
            Self::NoRoute => "no-route",
            Self::AddressGone => "address-gone",
            Self::Flaps { .. } => "flaps",
            Self::Probation => "probation",
            Self::Parked(_) => "parked",
            Self::Backup => "backup",
            Self::PeerWantsBackup => "peer-wants-backup",
            Self::Secondary => "secondary",
            Self::NotNeeded { .. } => "not-needed",
            Self::OtherPair { .. } => "other-pair",
            Self::LeftOut { .. } => "left-out",
            Self::Closed => "closed",
            Self::NoRoom => "no-room",
        }
    }
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Excluded(reason) => reason.fmt(f),
            Self::NoAnswer { waited } => write!(f, "no answer on UDP for {}", Span(*waited)),
            Self::Suspect { silent } => write!(f, "silent for {}, being questioned", Span(*silent)),
            Self::PeerHearsNothing => write!(f, "the peer hears nothing on it"),
            Self::NoRoute => write!(f, "no route: the system refuses to send"),
            Self::AddressGone => write!(f, "its address is gone"),
            Self::CapReached { renewal } => f.write_str(&text::cap_reached(None, *renewal)),
            Self::Flaps { times } => {
                write!(f, "answers, but died soon after each of {times} returns: left alone for some seconds")
            }
            Self::Probation => write!(f, "answers again, on probation"),
            Self::Parked(reason) => write!(f, "parked: {reason}"),
            Self::Backup => write!(f, "role backup: only when none of the others works"),
            Self::PeerWantsBackup => {
                write!(f, "backup at the peer: only when none of the others works")
            }
            Self::Secondary => write!(f, "role secondary: only when the primaries are full"),
            Self::NotNeeded { idle: Some(idle) } => {
                write!(f, "slower than needed: no data for {}", Span(*idle))
            }
            Self::NotNeeded { idle: None } => write!(f, "slower than needed: no data yet"),
            Self::OtherPair { chosen } => {
                let (local, remote) = (chosen.local.address.ip().to_canonical(), chosen.remote);
                write!(f, "one path for each interface: {local} to {remote} answered first")
            }
            Self::LeftOut { rtt: Some(rtt) } => {
                write!(f, "left out: other pairs cost less ({} ms here)", rtt.as_millis())
            }
            Self::LeftOut { rtt: None } => write!(f, "left out: no answer on UDP"),
            Self::Closed => write!(f, "closed by the application"),
            Self::NoRoom => write!(f, "the two ends allow no more paths"),
        }
    }
}

/// A time that people wait.
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0 => write!(f, "{} ms", self.0.as_millis()),
            seconds @ 1..120 => write!(f, "{seconds} s"),
            seconds => write!(f, "{} min", seconds / 60),
        }
    }
}

/// What a report is made of.
pub(crate) struct Facts<'a> {
    pub(crate) now: Instant,
    pub(crate) paths: &'a [PathStatistics],
    pub(crate) pairs: &'a [AddressPair],
    /// Every own address, with the interfaces that have none.
    pub(crate) addresses: Vec<AddressReport>,
    /// The name of an interface of that number.
    pub(crate) name: &'a dyn Fn(u32) -> Option<String>,
}

impl Facts<'_> {
    /// Paths first, then the other pairs, then what leads nowhere.
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
                unused: Some(Unused::Excluded(reason)),
            })
        });
        report.extend(rest);
        report
    }

    fn of_path(&self, path: &PathStatistics) -> PathReport {
        self.row(&path.tuple, path.role, Some(path), self.why_unused(path))
    }

    fn of_pair(&self, pair: &AddressPair) -> Option<PathReport> {
        let unused = match pair.usage {
            PairUse::Path(_) => return None,
            PairUse::Asked { path } => {
                self.find(path).map(|path| Unused::NoAnswer { waited: self.silent(path) })
            }
            PairUse::Spare { path } => self.find(path).map(|path| Unused::OtherPair { chosen: path.tuple }),
            PairUse::Measured { rtt } => Some(Unused::LeftOut { rtt }),
            PairUse::SetAside => Some(Unused::Closed),
            PairUse::NoRoom | _ => Some(Unused::NoRoom),
        };
        Some(self.row(&pair.tuple, pair.role, None, unused))
    }

    fn row(
        &self,
        tuple: &FourTuple,
        role: Role,
        path: Option<&PathStatistics>,
        unused: Option<Unused>,
    ) -> PathReport {
        PathReport {
            interface: (self.name)(tuple.local.interface),
            local: Some(tuple.local.address.ip().to_canonical()),
            remote: Some(tuple.remote),
            role: Some(role),
            path: path.copied(),
            unused,
        }
    }

    fn find(&self, id: PathId) -> Option<&PathStatistics> {
        self.paths.iter().find(|path| path.id == id)
    }

    fn silent(&self, path: &PathStatistics) -> Duration {
        self.now - path.heard_at
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the protocol's lists are open")]
    fn why_unused(&self, path: &PathStatistics) -> Option<Unused> {
        let peer_is_deaf = matches!(path.peer_says, PathAvailability::Suspect | PathAvailability::Dead);
        match path.state {
            PathState::Validating => Some(Unused::NoAnswer { waited: self.silent(path) }),
            PathState::Suspect => Some(Unused::Suspect { silent: self.silent(path) }),
            PathState::Dead => Some(match path.reason {
                PathReason::SendRefused => Unused::NoRoute,
                PathReason::AddressGone => Unused::AddressGone,
                PathReason::CapReached { renewal } => Unused::CapReached { renewal },
                PathReason::Flaps { times } if self.silent(path) < APART => Unused::Flaps { times },
                _ => Unused::NoAnswer { waited: self.silent(path) },
            }),
            _ if peer_is_deaf => Some(Unused::PeerHearsNothing),
            PathState::Backup if self.another_works(path.id) => Some(Unused::Backup),
            PathState::Parked if self.another_works(path.id) => Some(Unused::Parked(path.reason)),
            _ if path.peer_says == PathAvailability::Backup && self.another_works(path.id) => {
                Some(Unused::PeerWantsBackup)
            }
            PathState::Probation if self.another_works(path.id) => Some(Unused::Probation),
            PathState::Active if !self.is_needed(path) => Some(match path.role {
                Role::Secondary => Unused::Secondary,
                Role::Primary | Role::Backup | Role::Never => {
                    Unused::NotNeeded { idle: path.data_at.map(|at| self.now - at) }
                }
            }),
            _ => None,
        }
    }

    /// Whether a path works that is no backup.
    fn another_works(&self, id: PathId) -> bool {
        self.paths.iter().any(|path| {
            let deaf = matches!(path.peer_says, PathAvailability::Suspect | PathAvailability::Dead);
            path.id != id && path.state == PathState::Active && !deaf
        })
    }

    /// Whether data went over it lately, or none went anywhere.
    fn is_needed(&self, path: &PathStatistics) -> bool {
        let Some(newest) = self.paths.iter().filter_map(|path| path.data_at).max() else { return true };
        let idle_for = |at: Instant| newest - at;
        self.now - newest > LOAD || path.data_at.is_some_and(|at| idle_for(at) < APART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manyway_proto::LocalAddress;

    #[test]
    fn every_reason_has_a_sentence_and_a_word() {
        let seconds = Duration::from_secs;
        let local = LocalAddress { interface: 2, address: "192.0.2.7:40000".parse().unwrap() };
        let chosen = FourTuple { local, remote: "203.0.113.5:4455".parse().unwrap() };
        let all = [
            Unused::Excluded(Exclusion::ByUser),
            Unused::NoAnswer { waited: seconds(12) },
            Unused::NoAnswer { waited: seconds(600) },
            Unused::Suspect { silent: Duration::from_millis(120) },
            Unused::PeerHearsNothing,
            Unused::NoRoute,
            Unused::AddressGone,
            Unused::Flaps { times: 3 },
            Unused::Probation,
            Unused::Parked(PathReason::TriedWithout),
            Unused::Backup,
            Unused::PeerWantsBackup,
            Unused::Secondary,
            Unused::NotNeeded { idle: Some(seconds(3)) },
            Unused::NotNeeded { idle: None },
            Unused::OtherPair { chosen },
            Unused::LeftOut { rtt: Some(Duration::from_millis(80)) },
            Unused::LeftOut { rtt: None },
            Unused::Closed,
            Unused::NoRoom,
        ];
        let told: Vec<_> = all.iter().map(|reason| format!("{}: {reason}", reason.word())).collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        excluded: excluded by the user
        no-answer: no answer on UDP for 12 s
        no-answer: no answer on UDP for 10 min
        suspect: silent for 120 ms, being questioned
        peer-hears-nothing: the peer hears nothing on it
        no-route: no route: the system refuses to send
        address-gone: its address is gone
        flaps: answers, but died soon after each of 3 returns: left alone for some seconds
        probation: answers again, on probation
        parked: parked: the paths together are slower than the best one: tried without it
        backup: role backup: only when none of the others works
        peer-wants-backup: backup at the peer: only when none of the others works
        secondary: role secondary: only when the primaries are full
        not-needed: slower than needed: no data for 3 s
        not-needed: slower than needed: no data yet
        other-pair: one path for each interface: 192.0.2.7 to 203.0.113.5:4455 answered first
        left-out: left out: other pairs cost less (80 ms here)
        left-out: left out: no answer on UDP
        closed: closed by the application
        no-room: the two ends allow no more paths
        ");
    }
}
