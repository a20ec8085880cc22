//! The reasons: a keyword for programs, a sentence for people.

use std::fmt;
use std::time::Duration;

use manyway_proto::scheduler::Purpose;
use manyway_proto::{Carrier, Date, FourTuple, PathReason};
use manyway_units::text;

use crate::interfaces::Exclusion;

/// Whether an address pair is used, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It carries data, or would under load.
    Used(Used),
    /// It carries none.
    Unused(Unused),
}

impl Why {
    /// Whether it carries data, or would under load.
    pub fn is_used(&self) -> bool {
        matches!(self, Self::Used(_))
    }

    /// The reason as a keyword, for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Used(reason) => reason.word(),
            Self::Unused(reason) => reason.word(),
        }
    }
}

/// The reason as a sentence, for people.
impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Used(reason) => reason.fmt(f),
            Self::Unused(reason) => reason.fmt(f),
        }
    }
}

/// Why a path carries data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Used {
    /// The scheduler's purpose.
    For(Purpose),
    /// The peer sends on it, this end does not.
    ByPeer,
    /// No other path works.
    Alone,
    /// Its role is backup, and no other path works.
    Backup,
    /// The peer wants it as a backup, and no other path works.
    PeerWantsBackup,
    /// Its role is secondary, and no primary works.
    Secondary,
    /// Parked, but no other path works.
    Parked,
    /// On probation.
    Probation,
}

impl Used {
    /// The reason as a keyword, for programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::For(purpose) => purpose.word(),
            Self::ByPeer => "by-peer",
            Self::Alone => "alone",
            Self::Backup => "backup",
            Self::PeerWantsBackup => "peer-wants-backup",
            Self::Secondary => "secondary",
            Self::Parked => "parked",
            Self::Probation => "probation",
        }
    }
}

impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::For(purpose) => purpose.why_used(),
            Self::ByPeer => "the peer sends on it",
            Self::Alone => "the only path that works",
            Self::Backup => "role backup: none of the others works",
            Self::PeerWantsBackup => "backup at the peer: none of the others works",
            Self::Secondary => "role secondary: none of the primaries works",
            Self::Parked => "parked, but none of the others works",
            Self::Probation => "answers again, on probation",
        })
    }
}

/// Why an address pair carries no data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unused {
    /// The interface or the address is excluded.
    Excluded(Exclusion),
    /// No answer arrives.
    NoAnswer {
        /// Time since the last packet, or since the first probe.
        waited: Duration,
        /// What carries its packets.
        carrier: Carrier,
    },
    /// Silent with data in flight, or reported unreachable; it is being probed.
    Suspect {
        /// Time since the last packet.
        silent: Duration,
        /// The reason of the suspicion.
        reason: PathReason,
    },
    /// The peer receives nothing on it.
    PeerReceivesNothing,
    /// The system has no route.
    NoRoute,
    /// A firewall of this host blocks it.
    Denied,
    /// Its address is gone.
    AddressGone,
    /// The cap of its interface is reached.
    CapReached {
        /// When the cap is renewed.
        renewal: Option<Date>,
    },
    /// It answers, but drops datagrams of 1200 bytes, which every path must carry.
    OnlySmall,
    /// It answers, but lately it died soon after each return; it is not used for some seconds.
    Flaps {
        /// Number of such returns in the last minute.
        times: u8,
    },
    /// On probation.
    Probation,
    /// Its use would slow down all paths together; it is tried again later.
    Parked(PathReason),
    /// Its role is backup, and another path works.
    Backup,
    /// The peer wants it as a backup, and another path works.
    PeerWantsBackup,
    /// The scheduler of this end gives it no data.
    NotNeeded {
        /// Its purpose.
        purpose: Purpose,
        /// Time since it last carried data; `None` if it never did.
        idle: Option<Duration>,
    },
    /// Only the peer sends, on other paths.
    PeerSendsElsewhere {
        /// Time since it last carried data; `None` if it never did.
        idle: Option<Duration>,
    },
    /// Another pair of the same interface answered first.
    OtherPair {
        /// That pair.
        chosen: FourTuple,
    },
    /// Other pairs were selected.
    LeftOut {
        /// Its last measured round-trip time; `None` if it does not answer.
        rtt: Option<Duration>,
    },
    /// The application closed the path over this interface.
    Closed,
    /// The limit on paths is reached.
    NoRoom,
}

impl Unused {
    /// The reason as a keyword, for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Excluded(Exclusion::CapReached { .. }) | Self::CapReached { .. } => "cap-reached",
            Self::Excluded(_) => "excluded",
            Self::NoAnswer { .. } => "no-answer",
            Self::Suspect { .. } => "suspect",
            Self::PeerReceivesNothing => "peer-receives-nothing",
            Self::NoRoute => "no-route",
            Self::Denied => "denied",
            Self::AddressGone => "address-gone",
            Self::OnlySmall => "only-small",
            Self::Flaps { .. } => "flaps",
            Self::Probation => "probation",
            Self::Parked(_) => "parked",
            Self::Backup => "backup",
            Self::PeerWantsBackup => "peer-wants-backup",
            Self::NotNeeded { purpose, .. } => purpose.word(),
            Self::PeerSendsElsewhere { .. } => "peer-sends-elsewhere",
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
            Self::NoAnswer { waited, carrier: Carrier::Tcp } => {
                write!(f, "no answer on TCP for {}", Span(*waited))
            }
            Self::NoAnswer { waited, .. } => write!(f, "no answer on UDP for {}", Span(*waited)),
            Self::Suspect { reason: reason @ PathReason::Unreachable, .. } => {
                write!(f, "{reason}; being probed")
            }
            Self::Suspect { silent, .. } => write!(f, "silent for {}, being probed", Span(*silent)),
            Self::PeerReceivesNothing => write!(f, "the peer receives nothing on it"),
            Self::NoRoute => write!(f, "no route (address removed?)"),
            Self::Denied => write!(f, "a firewall of this host forbids sending"),
            Self::AddressGone => write!(f, "one of its addresses is gone"),
            Self::CapReached { renewal } => f.write_str(&text::cap_reached(None, *renewal)),
            Self::OnlySmall => write!(f, "{}", PathReason::OnlySmall),
            Self::Flaps { times } => {
                write!(f, "answers, but died soon after each of {times} returns: left alone for some seconds")
            }
            Self::Probation => write!(f, "answers again, on probation"),
            Self::Parked(reason) => write!(f, "parked: {reason}"),
            Self::Backup => write!(f, "role backup: only when none of the others works"),
            Self::PeerWantsBackup => {
                write!(f, "backup at the peer: only when none of the others works")
            }
            Self::NotNeeded { purpose, idle } => write!(f, "{}; {}", purpose.why_unused(), NoData(*idle)),
            Self::PeerSendsElsewhere { idle } => write!(f, "the peer sends elsewhere; {}", NoData(*idle)),
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

/// How long a path has carried no data.
struct NoData(Option<Duration>);

impl fmt::Display for NoData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(idle) => write!(f, "no data for {}", Span(idle)),
            None => write!(f, "no data yet"),
        }
    }
}

/// A duration as people write it.
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

#[cfg(test)]
mod tests;
