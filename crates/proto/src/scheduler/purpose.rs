//! Purposes: why a scheduler gives a path data or none, as an explanation for users.

/// The purpose of a path in use ([`Scheduler::purpose`](super::Scheduler::purpose)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Purpose {
    /// Whatever the scheduler gives it; the scheduler does not explain itself.
    Any,
    /// Its turn or share of all data.
    RoundRobin,
    /// Its part of all data except small traffic, which stays on the oldest path.
    Bulk,
    /// The data that arrives first on it.
    EarliestArrival,
    /// All data, as far as its window permits: no path has a lower RTT.
    LowestRtt,
    /// Data that paths with a lower RTT do not carry.
    HigherRtt,
    /// Data that paths of a better role do not carry.
    Secondary,
    /// Late or urgent data, and data that paths with a lower RTT do not carry.
    Urgent,
    /// A copy of all data, as far as its window permits.
    Copies,
    /// All new data: it is the primary path.
    Primary,
    /// All new data, while the primary path does not work.
    Fallback,
    /// Retransmissions: another path is primary.
    Retransmissions,
    /// Nothing without permission of the application: it costs more than the last primary that needed none.
    NeedsConsent,
    /// The streams that are bound to it.
    Streams,
    /// Streams that are bound to a path that does not work.
    OrphanedStreams,
    /// The next stream: none is bound to it.
    Unbound,
    /// Data that cheaper paths do not carry.
    MoreCostly,
    /// Nothing at the moment: it costs something, and background data does not use it.
    NoBackground,
    /// Nothing: the quota of its interface is used up.
    CapReached,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Self; 19] = [
        Self::Any,
        Self::RoundRobin,
        Self::Bulk,
        Self::EarliestArrival,
        Self::LowestRtt,
        Self::HigherRtt,
        Self::Secondary,
        Self::Urgent,
        Self::Copies,
        Self::Primary,
        Self::Fallback,
        Self::Retransmissions,
        Self::NeedsConsent,
        Self::Streams,
        Self::OrphanedStreams,
        Self::Unbound,
        Self::MoreCostly,
        Self::NoBackground,
        Self::CapReached,
    ];

    /// Whether it gets new data if there is enough.
    pub const fn takes_new_data(self) -> bool {
        !matches!(self, Self::Retransmissions | Self::NeedsConsent | Self::NoBackground | Self::CapReached)
    }

    /// The purpose in one word, for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::RoundRobin => "round-robin",
            Self::Bulk => "bulk",
            Self::EarliestArrival => "earliest-arrival",
            Self::LowestRtt => "lowest-rtt",
            Self::HigherRtt => "higher-rtt",
            Self::Secondary => "secondary",
            Self::Urgent => "urgent",
            Self::Copies => "copies",
            Self::Primary => "primary",
            Self::Fallback => "fallback",
            Self::Retransmissions => "retransmissions",
            Self::NeedsConsent => "needs-consent",
            Self::Streams => "streams",
            Self::OrphanedStreams => "orphaned-streams",
            Self::Unbound => "unbound",
            Self::MoreCostly => "more-costly",
            Self::NoBackground => "no-background",
            Self::CapReached => "cap-reached",
        }
    }

    /// Why the path carries data, for people.
    pub const fn why_used(self) -> &'static str {
        match self {
            Self::Any => "the scheduler gives it data",
            Self::RoundRobin => "takes its turn",
            Self::Bulk => "carries its share of all but small traffic",
            Self::EarliestArrival => "data arrives earliest over it",
            Self::LowestRtt => "has the lowest RTT",
            Self::HigherRtt => "carries what paths with a lower RTT cannot",
            Self::Secondary => "role secondary: carries what the primaries cannot",
            Self::Urgent => "carries late and urgent data, and what paths with a lower RTT cannot",
            Self::Copies => "carries a copy of all data",
            Self::Primary => "is the primary path",
            Self::Fallback => "replaces the primary path, which does not work",
            Self::Retransmissions => "not the primary path: carries retransmissions",
            Self::NeedsConsent => "costs more, and the application has not allowed it",
            Self::Streams => "streams are bound to it",
            Self::OrphanedStreams => "carries streams bound to a path that does not work",
            Self::Unbound => "the next stream without a path goes over it",
            Self::MoreCostly => "costs more: carries what cheaper paths cannot",
            Self::NoBackground => "costs something: background data does not use it",
            Self::CapReached => "the data cap of its interface is reached",
        }
    }

    /// Why the path carries none, for people.
    pub const fn why_unused(self) -> &'static str {
        match self {
            Self::Any => "the scheduler gives it no data",
            Self::RoundRobin => "its turn has not come",
            Self::Bulk => "small traffic stays on the oldest path",
            Self::EarliestArrival => "data would arrive later over it",
            Self::LowestRtt => "has the lowest RTT only since a moment ago",
            Self::HigherRtt => "higher RTT: paths with a lower one suffice",
            Self::Secondary => "role secondary: waits until the primaries are full",
            Self::Urgent => "higher RTT, and no data is late or urgent",
            Self::Copies => "no window for copies",
            Self::Primary => "the primary path only since a moment ago",
            Self::Fallback => "replaces the primary path only since a moment ago",
            Self::Retransmissions => "not the primary path: only for retransmissions",
            Self::NeedsConsent => "costs more: needs permission of the application",
            Self::Streams | Self::OrphanedStreams => "the streams bound to it send nothing",
            Self::Unbound => "no stream is bound to it",
            Self::MoreCostly => "costs more: cheaper paths suffice",
            Self::NoBackground => "costs something: background data does not use it",
            Self::CapReached => "the data cap of its interface is reached",
        }
    }
}
