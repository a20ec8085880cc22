//! Which path carries the next burst: one pure question, asked once per burst.
//!
//! A [`Scheduler`] sees figures ([`View`]) and answers ([`Decision`]); what it wants to remember between two questions
//! it keeps itself. [`Schedulers`] finds one by its name, also one's own.

mod min_rtt;
mod registry;
mod round_robin;
mod view;

use std::fmt;

use manyway_wire::PathId;

pub use min_rtt::MinRtt;
pub use registry::{SchedulerFactory, Schedulers, by_name, names};
pub use round_robin::RoundRobin;
pub use view::{NextUp, PathView, RttView, Tier, View};

use crate::ByteCount;

/// Chooses paths. It sees figures and answers; it has no effect outside itself.
///
/// ```
/// use manyway_proto::scheduler::{Decision, Scheduler, View};
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
///             Some(path) => Decision::Send { path: path.id, quantum: path.sendable },
///             None => Decision::Wait,
///         }
///     }
/// }
/// ```
pub trait Scheduler: Send + fmt::Debug {
    /// The name by which it is chosen.
    fn name(&self) -> &'static str;

    /// Answers which path carries the next burst.
    ///
    /// Called while something waits to be sent, once a burst until the answer is [`Decision::Wait`]. An answer that can
    /// not be carried out takes the room of its path away ([`PathView::sendable`] is zero) and the question is put
    /// again. To cost O(paths), without an allocation.
    fn decide(&mut self, view: &View<'_>) -> Decision;
}

/// The answer of a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Send up to `quantum` bytes on `path`: repeats and new data, by priority and turn.
    Send {
        /// The path; it has room.
        path: PathId,
        /// Most bytes of this burst; rounded up to one datagram.
        quantum: ByteCount,
    },
    /// Send nothing before something changes.
    Wait,
}

#[cfg(test)]
mod tests;
