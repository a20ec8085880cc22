//! Which path carries the next burst: one pure question, asked once per burst.

mod min_rtt;
mod round_robin;

use std::fmt;
use std::time::Duration;

use manyway_wire::PathId;

pub use min_rtt::MinRtt;
pub use round_robin::RoundRobin;

use crate::path::{PathState, Role};
use crate::{ByteCount, Instant, Rate};

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

    /// Answers which path carries the next burst. Called while something waits to be sent; costs O(paths).
    fn decide(&mut self, view: &View<'_>) -> Decision;
}

/// What a scheduler may know.
#[derive(Debug)]
pub struct View<'a> {
    /// The present moment.
    pub now: Instant,
    /// Bytes that wait and may be sent by the peer's credit, repeats included.
    pub backlog: ByteCount,
    /// Credit that the peer still grants for new bytes of the connection.
    pub window_left: ByteCount,
    /// Every path that is proven, also full, paced and suspect ones, by ascending id.
    pub paths: &'a [PathView],
}

impl View<'_> {
    /// The paths that may be given data now, of the best tier that has any.
    ///
    /// Tiers (spec 8.23): primaries; then secondaries and paths on probation, when the primaries are full; backup
    /// paths only while no other path works at all.
    pub fn candidates(&self) -> impl Iterator<Item = &PathView> {
        let lives = self.paths.iter().any(|path| path.tier().is_some_and(|tier| tier < Tier::Reserve));
        let best = self
            .paths
            .iter()
            .filter(|path| path.sendable > ByteCount::ZERO)
            .filter_map(PathView::tier)
            .filter(|tier| *tier < Tier::Reserve || !lives)
            .min();
        self.paths
            .iter()
            .filter(move |path| path.sendable > ByteCount::ZERO && best.is_some() && path.tier() == best)
    }
}

/// In which order groups of paths are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    First,
    Second,
    Reserve,
}

/// The figures of one path.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct PathView {
    /// Which path.
    pub id: PathId,
    /// Where it stands.
    pub state: PathState,
    /// What its interface is meant for.
    pub role: Role,
    /// Whether the peer takes data on it: not if it called the path suspect or dead.
    pub peer_ready: bool,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// Variation of the round-trip time.
    pub rtt_variation: Duration,
    /// Smallest round-trip time seen.
    pub minimum_rtt: Duration,
    /// Measured delivery rate, zero before the first measurement.
    pub delivery_rate: Rate,
    /// Congestion window.
    pub window: ByteCount,
    /// Bytes sent and not yet acknowledged.
    pub in_flight: ByteCount,
    /// Bytes that may be sent now; zero if the window is full or the pacer says later.
    pub sendable: ByteCount,
    /// Size of a full datagram.
    pub datagram: ByteCount,
}

impl PathView {
    fn tier(&self) -> Option<Tier> {
        if !self.peer_ready {
            return None;
        }
        match (self.state, self.role) {
            (PathState::Active, Role::Primary) => Some(Tier::First),
            (PathState::Active, Role::Secondary)
            | (PathState::Probation, Role::Primary | Role::Secondary) => Some(Tier::Second),
            (PathState::Active | PathState::Backup | PathState::Probation, Role::Backup)
            | (PathState::Backup, Role::Primary | Role::Secondary) => Some(Tier::Reserve),
            (PathState::Validating | PathState::Suspect | PathState::Dead | PathState::Closed, _)
            | (_, Role::Never) => None,
        }
    }
}

/// The answer of a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Send up to `quantum` bytes on `path`: repeats first, then new data.
    Send {
        /// The path.
        path: PathId,
        /// Most bytes of this burst; rounded up to one datagram.
        quantum: ByteCount,
    },
    /// Send nothing before something changes.
    Wait,
}

/// Makes a scheduler for a new connection.
pub type SchedulerFactory = fn() -> Box<dyn Scheduler>;

const BUILT_IN: [(&str, SchedulerFactory); 2] =
    [("min-rtt", || Box::new(MinRtt)), ("round-robin", || Box::new(RoundRobin::default()))];

pub(crate) fn default_factory() -> SchedulerFactory {
    || Box::new(MinRtt)
}

/// Finds a scheduler by its name.
///
/// ```
/// let make = manyway_proto::scheduler::by_name("min-rtt").unwrap();
/// assert_eq!(make().name(), "min-rtt");
/// ```
pub fn by_name(name: &str) -> Option<SchedulerFactory> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, make)| *make)
}

/// The names of all schedulers, for help texts and errors.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests;
