//! Life cycle of a path, with the same word for each state in code, on the wire and on the screen (spec 6.1, 6.2).

use std::fmt;
use std::time::Duration;

use manyway_units::text::cap_reached;

use crate::{Date, Rate};

/// The state of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PathState {
    /// Not validated yet: only PROBE and handshake packets.
    Validating,
    /// Carries data.
    Active,
    /// Validated, in reserve because of its role.
    Backup,
    /// Validated, left out because using it slows the connection; tried again later.
    Parked,
    /// Silent with data in flight: gets no new data, its data is reinjected elsewhere, and path challenges test it.
    Suspect,
    /// Confirmed silent: nothing in flight; path challenges repeat until it answers.
    Dead,
    /// Answers again: carries a little data that is not urgent.
    Probation,
    /// Closed for good; its id is never used again.
    Closed,
}

impl PathState {
    /// Every state, in the order of a path's life.
    pub const ALL: [Self; 8] = [
        Self::Validating,
        Self::Active,
        Self::Backup,
        Self::Parked,
        Self::Suspect,
        Self::Dead,
        Self::Probation,
        Self::Closed,
    ];

    /// Whether a path may change from this state to `next`: the transition table.
    pub const fn may_become(self, next: Self) -> bool {
        use PathState::{Active, Backup, Closed, Dead, Parked, Probation, Suspect, Validating};
        match self {
            Validating => matches!(next, Active | Backup | Dead | Closed),
            Active => matches!(next, Backup | Parked | Suspect | Dead | Closed),
            Parked => matches!(next, Active | Backup | Suspect | Dead | Closed),
            Backup => matches!(next, Active | Suspect | Dead | Closed),
            Suspect => matches!(next, Active | Backup | Dead | Closed),
            Dead => matches!(next, Probation | Closed),
            Probation => matches!(next, Active | Backup | Suspect | Dead | Closed),
            Closed => false,
        }
    }

    /// Whether the path may carry data.
    pub const fn carries_data(self) -> bool {
        matches!(self, Self::Active | Self::Backup | Self::Parked | Self::Probation)
    }

    /// The word for the state, as on the screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Validating => "validating",
            Self::Active => "active",
            Self::Backup => "backup",
            Self::Parked => "parked",
            Self::Suspect => "suspect",
            Self::Dead => "dead",
            Self::Probation => "probation",
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for PathState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Why a path entered its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathReason {
    /// The handshake completed on it.
    Connected,
    /// This end tries an address pair.
    Opened,
    /// The peer opened it.
    OpenedByPeer,
    /// The peer's address on it changed.
    Moved,
    /// A PROBE was answered.
    Validated,
    /// A late acknowledgement arrived.
    Answered,
    /// Nothing arrived for this long with data in flight.
    Silence {
        /// Time since the last arrival.
        lasted: Duration,
    },
    /// The probe timer fired.
    ProbeTimeout {
        /// Number of consecutive timeouts.
        count: u32,
    },
    /// The peer received nothing on it although data was sent.
    PeerReceivedNothing,
    /// A router or host reported that it could not deliver a packet (ICMP).
    Unreachable,
    /// The system refused to send on it: its address or route is gone.
    SendRefused,
    /// Its carrier, a connection of its own, has ended.
    CarrierClosed,
    /// A firewall of this host forbids sending on it.
    SendDenied,
    /// It worked for long enough.
    ProbationServed,
    /// Its local address is gone, or the peer took back the remote one.
    AddressGone,
    /// The quota of its interface is used up.
    CapReached {
        /// When the quota is renewed.
        renewal: Option<Date>,
    },
    /// The peer closed it.
    ClosedByPeer,
    /// The application closed it.
    ClosedByApplication,
    /// Cheaper address pairs replace it.
    Replaced,
    /// Path challenges were not answered, on a suspect path or from a new address of the peer.
    NoAnswer,
    /// It answers, but drops datagrams of 1200 bytes, which every path must carry.
    OnlySmall,
    /// It answers, and stays dead for a while because it recently died soon after each return.
    Flaps {
        /// How many returns of the last minute did not last; at most 6 are counted.
        times: u8,
    },
    /// All paths together deliver less than the best of them could: the connection leaves this one out for a moment,
    /// to see whether it is the cause.
    TriedWithout,
    /// It is parked: more data arrives without it.
    DoesNotPay {
        /// The rate of in-order data with it.
        with: Rate,
        /// The rate of in-order data without it.
        without: Rate,
    },
    /// It was parked, and carries data again to see whether it pays now.
    TriedAgain,
    /// It carries data again, because no more arrived without it.
    Pays,
}

impl fmt::Display for PathReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => write!(f, "connected"),
            Self::Opened => write!(f, "trying the address pair"),
            Self::OpenedByPeer => write!(f, "opened by the peer"),
            Self::Moved => write!(f, "the peer's address changed"),
            Self::Validated => write!(f, "path challenge answered"),
            Self::Answered => write!(f, "answers again"),
            Self::Silence { lasted } => write!(f, "silent for {} ms with data in flight", lasted.as_millis()),
            Self::ProbeTimeout { count: 1 } => write!(f, "probe timeout"),
            Self::ProbeTimeout { count } => write!(f, "{count} probe timeouts in a row"),
            Self::PeerReceivedNothing => write!(f, "the peer received nothing on it"),
            Self::Unreachable => write!(f, "ICMP unreachable"),
            Self::SendRefused => write!(f, "no route (address removed?)"),
            Self::CarrierClosed => write!(f, "its connection has ended"),
            Self::SendDenied => write!(f, "a firewall of this host forbids sending"),
            Self::ProbationServed => write!(f, "stable again"),
            Self::AddressGone => write!(f, "one of its addresses is gone"),
            Self::CapReached { renewal } => f.write_str(&cap_reached(None, *renewal)),
            Self::ClosedByPeer => write!(f, "closed by the peer"),
            Self::ClosedByApplication => write!(f, "closed by the application"),
            Self::Replaced => write!(f, "another address pair takes its place"),
            Self::NoAnswer => write!(f, "no answer to path challenges"),
            Self::OnlySmall => write!(f, "answers, but drops datagrams of 1200 bytes"),
            Self::Flaps { times } => write!(f, "answers, but died soon after each of {times} returns"),
            Self::TriedWithout => {
                write!(f, "the paths together are slower than the best one: tried without it")
            }
            Self::DoesNotPay { with, without } => {
                write!(f, "slows the connection ({without} without it, {with} with it)")
            }
            Self::TriedAgain => write!(f, "tried again"),
            Self::Pays => write!(f, "no more arrives without it"),
        }
    }
}

/// Why the system of this host does not send between two addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SendRefusal {
    /// The local address, its interface or the route is gone.
    Unreachable,
    /// A firewall of this host forbids it.
    Denied,
}

/// The role of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Role {
    /// Always carries data.
    #[default]
    Primary,
    /// Carries data when the primaries are full or suspect.
    Secondary,
    /// Carries data only when no other path works.
    Backup,
    /// Never used.
    Never,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
            Self::Backup => "backup",
            Self::Never => "never",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::PathState;

    type Transitions<'a> = BTreeSet<(&'a str, &'a str)>;

    const PATHS: &str = include_str!("../../../../docs/specification/paths.md");
    const TERMS: &str = include_str!("../../../../docs/specification/terms.md");

    /// The transitions that the code allows.
    fn allowed() -> Transitions<'static> {
        let pairs = PathState::ALL.into_iter().flat_map(|from| PathState::ALL.map(|to| (from, to)));
        pairs.filter(|(from, to)| from.may_become(*to)).map(|(from, to)| (from.word(), to.word())).collect()
    }

    /// The transitions in the table of rule 6.2: rows of a state and its successors, of which a dash stands for none.
    fn in_table(chapter: &str) -> Transitions<'_> {
        let rule = chapter.split("\n**6.2 ").nth(1).expect("rule 6.2");
        let rows = rule.lines().skip_while(|line| *line != "| from | to |").skip(2);
        let rows = rows.map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
        let pairs = rows.flat_map(|(from, to)| to.split(", ").map(move |to| (from, to)));
        pairs.filter(|(_, to)| *to != "–").collect()
    }

    /// The arrows between states in the diagram of rule 1.7, and those to *closed*, which the text below it gives to all
    /// other states.
    fn in_diagram(chapter: &str) -> Transitions<'_> {
        let rule = chapter.split("\n**1.7 ").nth(1).expect("rule 1.7");
        let diagram = rule.split("```").nth(1).expect("a diagram");
        let arrows = diagram.lines().filter_map(|line| line.split_once(": ")?.0.split_once(" --> "));
        let arrows: Transitions<'_> = arrows.map(|(from, to)| (from.trim(), to)).collect();
        let arrows = arrows.into_iter().filter(|(from, _)| *from != "[*]");
        let states = PathState::ALL.map(PathState::word).into_iter().filter(|from| *from != "closed");
        arrows.chain(states.map(|from| (from, "closed"))).collect()
    }

    /// Fails with the transitions that only one of the two has.
    fn compare(place: &str, specified: &Transitions<'_>) {
        let allowed = allowed();
        let missing: Vec<_> = allowed.difference(specified).collect();
        let surplus: Vec<_> = specified.difference(&allowed).collect();
        assert!(
            missing.is_empty() && surplus.is_empty(),
            "{place} lacks {missing:?}, and the code does not allow {surplus:?}"
        );
    }

    #[test]
    fn the_table_of_transitions_in_the_specification_is_that_of_the_code() {
        compare("rule 6.2", &in_table(PATHS));
    }

    #[test]
    fn the_diagram_of_states_in_the_specification_is_the_table() {
        compare("the diagram of rule 1.7", &in_diagram(TERMS));
    }

    #[test]
    fn a_table_and_a_diagram_become_transitions() {
        let table = "\n**6.2 P** x\n\n| from | to |\n|---|---|\n| a | b, c |\n| c | – |\n\n| d | e |\n";
        assert_eq!(in_table(table), BTreeSet::from([("a", "b"), ("a", "c")]));
        let diagram = "\n**1.7 P** x\n```mermaid\nd\n    [*] --> a: new\n    a --> b: c: d\n```\n";
        let arrows = in_diagram(diagram);
        assert!(arrows.contains(&("a", "b")) && arrows.contains(&("dead", "closed")), "{arrows:?}");
        assert_eq!(arrows.len(), 8);
    }
}
