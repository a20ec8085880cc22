//! Purposes: why a scheduler gives a path data or none, as an explanation for users.

use manyway_wire::PathId;
use smallvec::SmallVec;

use super::{PathView, Scheduler, View, background};

/// The purpose of a path in use ([`Scheduler::purpose`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Purpose {
    /// Whatever the scheduler gives it; the scheduler does not explain itself.
    Any,
    /// Its turn or share of all data.
    Turn,
    /// Its part of all data except small traffic, which stays on the oldest path.
    Bulk,
    /// The data that arrives first on it.
    Speed,
    /// All data, as far as its window permits: no path has a shorter RTT.
    Nearest,
    /// Data that nearer paths do not carry.
    Farther,
    /// Data that paths of a better role do not carry.
    Secondary,
    /// Late or urgent data, and data that nearer paths do not carry.
    Urgent,
    /// A copy of all data, as far as its window permits.
    Copies,
    /// All new data: it is the primary path.
    Primary,
    /// All new data, while the primary path does not work.
    StandIn,
    /// Retransmissions: another path is primary.
    Repeats,
    /// Nothing without permission of the application: it costs more than the last primary that needed none.
    NeedsLeave,
    /// The streams that are bound to it.
    Streams,
    /// Streams that are bound to a path that does not work.
    Guests,
    /// The next stream: none is bound to it.
    Unbound,
    /// Data that cheaper paths do not carry.
    Dearer,
    /// Nothing at the moment: it costs something, and background data is not paid for.
    Unpaid,
    /// Nothing: the quota of its interface is used up.
    Spent,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Self; 19] = [
        Self::Any,
        Self::Turn,
        Self::Bulk,
        Self::Speed,
        Self::Nearest,
        Self::Farther,
        Self::Secondary,
        Self::Urgent,
        Self::Copies,
        Self::Primary,
        Self::StandIn,
        Self::Repeats,
        Self::NeedsLeave,
        Self::Streams,
        Self::Guests,
        Self::Unbound,
        Self::Dearer,
        Self::Unpaid,
        Self::Spent,
    ];

    /// Whether it gets new data if there is enough.
    pub const fn takes_new_data(self) -> bool {
        !matches!(self, Self::Repeats | Self::NeedsLeave | Self::Unpaid | Self::Spent)
    }

    /// The purpose in one word, for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Turn => "turn",
            Self::Bulk => "bulk",
            Self::Speed => "speed",
            Self::Nearest => "nearest",
            Self::Farther => "farther",
            Self::Secondary => "secondary",
            Self::Urgent => "urgent",
            Self::Copies => "copies",
            Self::Primary => "primary",
            Self::StandIn => "stand-in",
            Self::Repeats => "repeats",
            Self::NeedsLeave => "needs-leave",
            Self::Streams => "streams",
            Self::Guests => "guests",
            Self::Unbound => "unbound",
            Self::Dearer => "dearer",
            Self::Unpaid => "unpaid",
            Self::Spent => "cap-reached",
        }
    }

    /// Why the path carries data, for people.
    pub const fn why_used(self) -> &'static str {
        match self {
            Self::Any => "the scheduler gives it data",
            Self::Turn => "takes its turn",
            Self::Bulk => "takes part as soon as there is more than a little",
            Self::Speed => "carries what arrives first on it",
            Self::Nearest => "has the shortest round trip",
            Self::Farther => "carries what nearer paths do not",
            Self::Secondary => "role secondary: carries what the primaries do not",
            Self::Urgent => "carries what is late or urgent, and what nearer paths do not",
            Self::Copies => "carries a copy of everything",
            Self::Primary => "is the primary path",
            Self::StandIn => "in place of the primary path, which does not work",
            Self::Repeats => "not the primary path: carries what goes again",
            Self::NeedsLeave => "costs something that nobody allowed",
            Self::Streams => "streams are bound to it",
            Self::Guests => "carries streams that are bound to a path which does not work",
            Self::Unbound => "gets the next stream that needs a path",
            Self::Dearer => "costs more: carries what cheaper paths do not",
            Self::Unpaid => "costs something: background data is not paid for",
            Self::Spent => "what may go over its interface is used up",
        }
    }

    /// Why the path carries none, for people.
    pub const fn why_unused(self) -> &'static str {
        match self {
            Self::Any => "the scheduler gives it nothing",
            Self::Turn => "its turn has not come",
            Self::Bulk => "a little stays on the oldest path",
            Self::Speed => "slower than needed",
            Self::Nearest => "the nearest path only now",
            Self::Farther => "farther than needed",
            Self::Secondary => "role secondary: only when the primaries are full",
            Self::Urgent => "farther than needed, and nothing is late or urgent",
            Self::Copies => "no room for copies",
            Self::Primary => "the primary path only now",
            Self::StandIn => "in place of the primary path only now",
            Self::Repeats => "not the primary path: only for what goes again",
            Self::NeedsLeave => "costs something: only if the application allows it",
            Self::Streams | Self::Guests => "the streams that are bound to it send nothing",
            Self::Unbound => "no stream is bound to it",
            Self::Dearer => "costs more: cheaper paths carry everything",
            Self::Unpaid => "costs something: background data is not paid for",
            Self::Spent => "what may go over its interface is used up",
        }
    }
}

/// The paths in use for urgent data, as if paths that may not carry it did not work.
pub(crate) fn in_use_for_urgent<'a>(
    scheduler: &dyn Scheduler,
    view: &View<'a>,
) -> impl Iterator<Item = &'a PathView> + Clone {
    view.in_use_of(|path| scheduler.may_use(path, view.paths))
}

/// The paths with a purpose: those in use, and those that replace paths without permission.
pub(crate) fn with_purpose<'a>(
    scheduler: &dyn Scheduler,
    view: &View<'a>,
) -> impl Iterator<Item = &'a PathView> {
    let in_use = view.in_use().chain(in_use_for_urgent(scheduler, view));
    let in_use: SmallVec<[PathId; 16]> = in_use.map(|path| path.id).collect();
    view.paths.iter().filter(move |path| in_use.contains(&path.id))
}

/// The purpose of a path, considering that the next data may not be allowed on it.
pub(crate) fn purpose_of(scheduler: &dyn Scheduler, path: &PathView, view: &View<'_>) -> Purpose {
    let purpose = scheduler.purpose(path, view);
    let is_unpaid = background::is_next(view) && background::is_unpaid(path);
    if purpose.takes_new_data() && is_unpaid { Purpose::Unpaid } else { purpose }
}

#[cfg(test)]
mod tests;
