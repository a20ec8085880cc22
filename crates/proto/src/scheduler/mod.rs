//! Which path carries the next burst: one pure question, asked once per burst.
//!
//! A [`Scheduler`] sees figures ([`View`]) and answers ([`Decision`]); what it wants to remember between two questions
//! it keeps itself. [`Schedulers`] finds one by its name, with settings behind it (`weighted=1:1:2`), also one's own.

pub(crate) mod background;
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
mod redundant;
mod registry;
mod round_robin;
mod stream_bound;
mod view;
mod weighted;

use std::fmt;
use std::time::Duration;

use manyway_wire::{PathId, StreamId};

pub use blest::Blest;
pub use cost::Cost;
pub use earliest::Earliest;
pub use ecf::Ecf;
pub use min_rtt::MinRtt;
pub use outstanding_ratio::OutstandingRatio;
pub use primary::Primary;
pub use purpose::Purpose;
pub(crate) use purpose::{in_use_for_urgent, purpose_of, with_purpose};
pub use redundant::Redundant;
pub use registry::{SchedulerFactory, Schedulers, by_name, names};
pub use round_robin::RoundRobin;
pub use stream_bound::StreamBound;
pub use view::{NextUp, PathRecord, PathTerms, PathView, ReadyStream, RttView, Stuck, Tier, View};
pub use weighted::Weighted;

use crate::path::PathState;
use crate::{ByteCount, Instant};

/// Chooses paths. It sees figures and answers; it has no effect outside itself.
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

    /// Answers which path carries the next burst.
    ///
    /// Called while something waits ([`View::sendable`]), and for schedulers that ask for it
    /// ([`Self::sends_copies`]) while something is on its way that could be sent once more ([`View::stuck`]): once a burst
    /// until the answer is [`Decision::Wait`], and again after everything that may change the answer: an acknowledgement,
    /// a loss, new bytes, new credit, a path that comes or goes, a moment that the pacer or [`Decision::Wait`] named. An
    /// answer that can not be carried out takes the room of its path away ([`PathView::sendable`] is zero) and the
    /// question is put again. To cost O(paths), without an allocation.
    fn decide(&mut self, view: &View<'_>) -> Decision;

    /// Hears what happened since the last question. Default: nothing is done with it.
    fn on_event(&mut self, event: &Event) {
        let _ = event;
    }

    /// Whether the guard may park paths that make all together slower (spec 6.42). Default: it may. Not for schedulers
    /// that use paths to another end than speed.
    fn is_guarded(&self) -> bool {
        true
    }

    /// Hears that something interactive or with a deadline waits, before [`Self::may_use`] is asked. The view has
    /// the time, the paths, and what waits of all classes. Default: nothing is done with it.
    fn on_urgent(&mut self, view: &View<'_>) {
        let _ = view;
    }

    /// Whether the path may be used at all. It is asked for what is interactive or has a deadline, which is not for the
    /// scheduler otherwise (spec 8.52), and for [`Self::purpose`]; that [`Self::decide`] uses no other path is for the
    /// scheduler to see to. `paths` are those of [`View::paths`], with room where their windows have some. One that may not
    /// is as if it did not work, so that the reserve stands in for it; what is urgent and may go on no path waits with the
    /// rest for [`Self::decide`]. Default: every path may.
    fn may_use(&self, path: &PathView, paths: &[PathView]) -> bool {
        let _ = (path, paths);
        true
    }

    /// Takes the next thing that it wants the application to know. Default: nothing.
    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }

    /// Whether it may answer with [`Source::Reinject`]: then [`View::stuck`] is filled, and it is also asked when
    /// nothing waits. Default: it may not.
    fn sends_copies(&self) -> bool {
        false
    }

    /// On how many paths beside `first`, where it arrives first, what is interactive or has a deadline goes as well
    /// ([`View::next`], if it was not sent before). Which these are is not for the scheduler: those on which it arrives
    /// next. Default: none.
    fn urgent_copies(&self, view: &View<'_>, first: &PathView) -> usize {
        let _ = (view, first);
        0
    }

    /// Whether it chooses among streams: then [`View::ready`] is filled, which costs a look at up to
    /// [`View::MOST_READY`] streams a burst. Default: it does not.
    fn chooses_streams(&self) -> bool {
        false
    }

    /// Says what it has a path in use for ([`View::in_use`], and the reserve that stands in for those which may not be
    /// used: [`Self::may_use`]). Asked when somebody wants to know why the path carries data or none: it changes
    /// nothing. Default: [`Purpose::Any`].
    fn purpose(&self, path: &PathView, view: &View<'_>) -> Purpose {
        let _ = (path, view);
        Purpose::Any
    }
}

/// The answer of a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Sends up to `quantum` bytes of `source` on `path`.
    Send {
        /// The path; it has room.
        path: PathId,
        /// Most bytes of this burst; rounded up to one datagram.
        quantum: ByteCount,
        /// What to send.
        source: Source,
    },
    /// Sends the same bytes on each of `paths`: up to `quantum` bytes of `source` on the first, and a copy of them on
    /// the others as soon as those have room, before anything else. The first copy that arrives counts; what has
    /// arrived is not copied any more, and what arrives twice is counted at both ends.
    Copy {
        /// The paths. The first has room; the others need not.
        paths: PathList,
        /// Most bytes of this burst; rounded up to one datagram.
        quantum: ByteCount,
        /// What to send.
        source: Source,
    },
    /// Sends nothing before something changes, or before `until` at the latest.
    Wait {
        /// When to ask again if nothing changes; `None` if only a change can help.
        until: Option<Instant>,
    },
}

impl Decision {
    /// Sends nothing before something changes.
    pub const WAIT: Self = Self::Wait { until: None };

    /// Sends up to `quantum` bytes of `source` on `path`.
    pub const fn send(path: PathId, quantum: ByteCount, source: Source) -> Self {
        Self::Send { path, quantum, source }
    }
}

/// Which bytes a burst carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Source {
    /// What waits, in the usual order: by priority and class, then repeats first, then by deadline and turn.
    #[default]
    Next,
    /// New bytes only, those that follow on so many of the bytes that were not sent yet: for a path on which they
    /// arrive when the others have brought what was left out. `Skip(0)` is new bytes in their usual order.
    ///
    /// What is left out is the next that other bursts get. Nothing is sent if there are not so many new bytes, or no
    /// credit for what follows on them. Of several streams with the same priority each leaves out its share. Messages
    /// are neither left out nor cut: nothing is sent if one is among the bytes to leave out, or follows on them.
    Skip(ByteCount),
    /// Repeats only: bytes that got lost, or are in doubt on a path that seems to fail, and the rest of messages that
    /// were begun.
    Repeat,
    /// A copy of [`View::stuck`], and of what follows it on the same path, up to the quantum. The original stays in
    /// flight; it is no loss. Sent only within the budget for copies ([`View::copy_budget`]).
    Reinject,
    /// Repeats and new bytes of this stream, which is one of [`View::ready`].
    Stream(StreamId),
}

/// What happened, for schedulers that learn from it.
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
    /// Packets arrived that were not known to have arrived.
    Acked {
        /// The path on which they went.
        path: PathId,
        /// Bytes of datagrams.
        bytes: ByteCount,
        /// The newest round trip of the path.
        latest_rtt: Duration,
    },
    /// Packets got lost.
    Lost {
        /// The path on which they went.
        path: PathId,
        /// Bytes of datagrams.
        bytes: ByteCount,
    },
    /// A path came into another state; one that is closed is gone for good.
    Path {
        /// The path.
        path: PathId,
        /// Its new state.
        state: PathState,
    },
    /// The application wants this path as primary, or leaves that to the scheduler again.
    PrimaryWished {
        /// The path.
        path: Option<PathId>,
    },
    /// The application allows that a path is used although it costs more than the last primary that needed no leave.
    CostlyAllowed {
        /// The path.
        path: PathId,
    },
}

/// What a scheduler wants the application to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// New data goes on this path from now on.
    PrimaryIs(PathId),
    /// Nothing that costs less works: may this path be used? Data waits for [`Event::CostlyAllowed`].
    AsksForCostly(PathId),
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

    /// Adds a path at the end; does nothing if the list is full or has it already.
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
