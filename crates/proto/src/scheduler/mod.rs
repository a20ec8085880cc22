//! Which path carries the next burst: one decision for each burst, as a pure function.
//!
//! A [`Scheduler`] reads a [`View`] and returns a [`Decision`]; state between two decisions is its own.
//! [`Schedulers`] finds one by its name, with optional settings (`weighted=1:1:2`), including custom ones.

pub(crate) mod background;
mod binding;
mod blest;
mod choice;
mod cost;
mod earliest;
mod ecf;
pub(crate) mod guard;
mod min_rtt;
mod outstanding_ratio;
mod primary;
mod purpose;
mod purposes;
mod redundant;
mod registry;
mod round_robin;
mod stream_bound;
mod view;
mod weighted;

use std::fmt;
use std::time::Duration;

use manyway_wire::{PathId, StreamId};

pub use binding::Binding;
pub use blest::Blest;
pub use cost::Cost;
pub use earliest::Earliest;
pub use ecf::Ecf;
pub use min_rtt::MinRtt;
pub use outstanding_ratio::OutstandingRatio;
pub use primary::Primary;
pub use purpose::Purpose;
pub(crate) use purposes::{in_use_for_urgent, purpose_of, with_purpose};
pub use redundant::Redundant;
pub use registry::{SchedulerFactory, Schedulers, by_name, names};
pub use round_robin::RoundRobin;
pub use stream_bound::StreamBound;
pub use view::{HeadOfLine, NextUp, PathRecord, PathTerms, PathView, ReadyStream, RttView, Tier, View};
pub use weighted::Weighted;

use crate::path::PathState;
use crate::{ByteCount, Instant};

/// Chooses paths. A scheduler reads views and returns decisions; it has no effect outside itself.
///
/// ```
/// use manyway_proto::scheduler::{Decision, Scheduler, Source, View};
///
/// /// Sends everything on the first path that has room.
/// #[derive(Debug)]
/// struct FirstFit;
///
/// impl Scheduler for FirstFit {
///     fn name(&self) -> &'static str {
///         "first-fit"
///     }
///     fn decide(&mut self, view: &View<'_>) -> Decision {
///         match view.candidates().next() {
///             Some(path) => Decision::send(path.id, path.sendable, Source::Next),
///             None => Decision::WAIT,
///         }
///     }
/// }
/// ```
pub trait Scheduler: Send + fmt::Debug {
    /// The name by which it is chosen.
    fn name(&self) -> &'static str;

    /// Decides which path carries the next burst.
    ///
    /// Called while data waits ([`View::sendable`]), and for schedulers that request it ([`Self::sends_copies`])
    /// while data is in flight that could be copied ([`View::head_of_line`]): once a burst until the decision is
    /// [`Decision::Wait`], and again after every event that may change the decision: an acknowledgement, a loss, new
    /// bytes, new credit, a path that opens or closes, a time that the pacer or [`Decision::Wait`] set. If a decision
    /// cannot be carried out, its path loses its available window ([`PathView::sendable`] is zero) and the scheduler
    /// decides again. Should cost O(paths), without an allocation.
    fn decide(&mut self, view: &View<'_>) -> Decision;

    /// Receives events since the last decision. Default: ignores them.
    fn on_event(&mut self, event: &Event) {
        let _ = event;
    }

    /// Whether the guard may park paths that slow down all others (spec 6.42). Default: it may. Not for schedulers
    /// that use paths for another purpose than speed.
    fn is_guarded(&self) -> bool {
        true
    }

    /// Interactive data or data with a deadline waits; called before [`Self::may_use`]. The view has the time, the
    /// paths, and the waiting data of all classes. Default: ignores it.
    fn on_urgent(&mut self, view: &View<'_>) {
        let _ = view;
    }

    /// Whether the path may be used at all. Called for interactive data and data with a deadline, which otherwise
    /// does not concern the scheduler (spec 8.52), and for [`Self::purpose`]; [`Self::decide`] itself has to respect
    /// it. `paths` are those of [`View::paths`], with [`PathView::sendable`] from their windows alone. A path that
    /// may not be used counts as one that does not work, so a reserve replaces it; urgent data that may use no path
    /// waits with the rest for [`Self::decide`]. Default: every path may.
    fn may_use(&self, path: &PathView, paths: &[PathView]) -> bool {
        let _ = (path, paths);
        true
    }

    /// Takes the next notice for the application. Default: none.
    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }

    /// Whether it may return [`Source::Reinject`]: then [`View::head_of_line`] is filled, and it is also called when no data
    /// waits. Default: it may not.
    fn sends_copies(&self) -> bool {
        false
    }

    /// On how many paths besides `first`, on which it arrives first, interactive data or data with a deadline is sent
    /// as well ([`View::next`], if it was not sent before). The scheduler does not choose these paths: they are those
    /// on which it arrives next. Default: none.
    fn urgent_copies(&self, view: &View<'_>, first: &PathView) -> usize {
        let _ = (view, first);
        0
    }

    /// Whether it chooses among streams: then [`View::ready`] is filled, which costs a scan of up to
    /// [`View::MOST_READY`] streams for each burst. Default: it does not.
    fn chooses_streams(&self) -> bool {
        false
    }

    /// Whether it follows [`Event::StreamBound`]. Default: it does not.
    fn binds_streams(&self) -> bool {
        false
    }

    /// The purpose of a path in use ([`View::in_use`], and the reserve that replaces paths that may not be used:
    /// [`Self::may_use`]). Called to explain to a user why the path carries data or none; changes nothing. Default:
    /// [`Purpose::Any`].
    fn purpose(&self, path: &PathView, view: &View<'_>) -> Purpose {
        let _ = (path, view);
        Purpose::Any
    }
}

/// The decision of a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Sends up to `quantum` bytes of `source` on `path`.
    Send {
        /// The path; it can send.
        path: PathId,
        /// Most bytes of this burst; rounded up to one datagram.
        quantum: ByteCount,
        /// What to send.
        source: Source,
    },
    /// Sends the same bytes on each of `paths`: up to `quantum` bytes of `source` on the first, and copies on the
    /// others as soon as those can send, before anything else. The first copy that arrives counts; data that has
    /// arrived is not copied any more, and both ends count duplicates.
    Copy {
        /// The paths. The first can send; the others need not.
        paths: PathList,
        /// Most bytes of this burst; rounded up to one datagram.
        quantum: ByteCount,
        /// What to send.
        source: Source,
    },
    /// Sends nothing until something changes, or until `until` at the latest.
    Wait {
        /// When to decide again if nothing changes; `None` if only a change can help.
        until: Option<Instant>,
    },
}

impl Decision {
    /// Sends nothing until something changes.
    pub const WAIT: Self = Self::Wait { until: None };

    /// Sends up to `quantum` bytes of `source` on `path`.
    pub const fn send(path: PathId, quantum: ByteCount, source: Source) -> Self {
        Self::Send { path, quantum, source }
    }
}

/// The data of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Source {
    /// The waiting data in the usual order: by priority and class, then retransmissions first, then by deadline and
    /// turn.
    #[default]
    Next,
    /// New bytes only, starting this many unsent bytes further on: for a path on which they arrive when the others
    /// have delivered the deferred ones. `Skip(0)` is new bytes in their usual order.
    ///
    /// Other bursts send the deferred bytes next. Nothing is sent if there are not so many new bytes, or no credit
    /// for those behind them. Of several streams with the same priority each defers its share. Unordered messages are
    /// deferred as a whole. Ordered ones are not: nothing is sent if one is among the deferred bytes.
    Skip(ByteCount),
    /// Retransmissions only: bytes that were lost, or were in flight on a suspect path, and the rest of partially
    /// sent messages.
    Retransmission,
    /// A copy of [`View::head_of_line`], and of its successors on the same path, up to the quantum. The original stays in
    /// flight; it is not declared lost. Sent only within the budget for copies ([`View::copy_budget`]).
    Reinject,
    /// Retransmissions and new bytes of this stream, which is one of [`View::ready`].
    Stream(StreamId),
}

/// Events for schedulers that learn from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A burst left, by the last decision.
    Sent {
        /// The path.
        path: PathId,
        /// Bytes of datagrams.
        bytes: ByteCount,
        /// What it carried.
        source: Source,
    },
    /// Packets were newly acknowledged.
    Acked {
        /// The path that carried them.
        path: PathId,
        /// Bytes of datagrams.
        bytes: ByteCount,
        /// The newest RTT sample of the path.
        latest_rtt: Duration,
    },
    /// Packets were lost.
    Lost {
        /// The path that carried them.
        path: PathId,
        /// Bytes of datagrams.
        bytes: ByteCount,
    },
    /// A path changed its state; a closed one is gone for good.
    Path {
        /// The path.
        path: PathId,
        /// Its new state.
        state: PathState,
    },
    /// The application chooses this path as primary, or leaves the choice to the scheduler again.
    PrimaryWished {
        /// The path.
        path: Option<PathId>,
    },
    /// The application binds a stream to a place, or leaves the choice to the scheduler again. Only for schedulers
    /// that bind streams ([`Scheduler::binds_streams`]).
    StreamBound {
        /// The stream.
        stream: StreamId,
        /// The place.
        to: Option<Binding>,
    },
    /// The application permits a path although it costs more than the last primary that needed no permission.
    CostlyAllowed {
        /// The path.
        path: PathId,
    },
}

/// A notice of a scheduler for the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// New data goes on this path from now on.
    PrimaryIs(PathId),
    /// No cheaper path works: may this path be used? Data waits for [`Event::CostlyAllowed`].
    CostlyPathNeeded(PathId),
}

/// A few paths, in order.
///
/// ```
/// use manyway_proto::{PathId, scheduler::PathList};
/// let paths: PathList = [PathId(2), PathId(0)].into_iter().collect();
/// assert_eq!(paths.as_slice(), [PathId(2), PathId(0)]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct PathList {
    paths: [PathId; Self::MOST],
    length: usize,
}

impl PathList {
    /// Most paths of a list: as many as a connection has by default.
    pub const MOST: usize = 8;

    /// Adds a path at the end; has no effect if the list is full or contains it.
    pub fn push(&mut self, path: PathId) {
        if self.as_slice().contains(&path) {
            return;
        }
        if let Some(place) = self.paths.get_mut(self.length) {
            *place = path;
            self.length += 1;
        }
    }

    /// The paths.
    pub fn as_slice(&self) -> &[PathId] {
        self.paths.get(..self.length).unwrap_or_default()
    }
}

impl FromIterator<PathId> for PathList {
    /// Takes the first [`Self::MOST`] different ones.
    fn from_iter<I: IntoIterator<Item = PathId>>(paths: I) -> Self {
        let mut list = Self::default();
        for path in paths {
            list.push(path);
        }
        list
    }
}

impl fmt::Debug for PathList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
