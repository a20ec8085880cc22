//! What a scheduler may know: the figures of the connection and of its paths.

use std::time::Duration;

use manyway_wire::{PathId, StreamId};

use crate::path::{PathState, Role};
use crate::{ByteCount, Class, Instant, Rate};

/// What a scheduler may know. Made anew for each question, in O(paths).
///
/// ```
/// use manyway_proto::scheduler::{PathView, View};
/// use manyway_proto::{ByteCount, Instant, PathId};
/// let paths = [PathView::new(PathId(0)), PathView::new(PathId(1))];
/// let mut view = View::new(Instant::from_nanos(0), &paths);
/// view.backlog = ByteCount(100_000);
/// assert_eq!(view.candidates().count(), 2);
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct View<'a> {
    /// The present moment.
    pub now: Instant,
    /// Bytes that wait and may be sent by the peer's credit, repeats included.
    pub backlog: ByteCount,
    /// Credit that the peer still grants for new bytes of the connection.
    pub window_left: ByteCount,
    /// Of which new bytes the next are; `None` if there are none.
    pub next: Option<NextUp>,
    /// Every path that is open, also full, paced and suspect ones, by ascending id.
    pub paths: &'a [PathView],
}

/// The new bytes that would go next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NextUp {
    /// Their stream.
    pub stream: StreamId,
    /// What they are for.
    pub class: Class,
    /// How many of them the stream, or the message, has: all that were not sent yet.
    pub left: ByteCount,
    /// When they are worth nothing any more.
    pub deadline: Option<Instant>,
}

/// In which order groups of paths are used (spec 8.23).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Primaries that are active.
    First,
    /// Secondaries, and paths on probation.
    Second,
    /// Backups: only while no path of the others is in a state that carries data.
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
    /// What its interface is meant for, by the wish of both ends.
    pub role: Role,
    /// Whether the peer takes data on it: not if it called the path suspect or dead.
    pub peer_ready: bool,
    /// Round-trip time.
    pub rtt: RttView,
    /// Measured delivery rate, the largest of the last ten round trips; zero before the first measurement.
    pub delivery_rate: Rate,
    /// Congestion window.
    pub window: ByteCount,
    /// Bytes sent and not yet acknowledged.
    pub in_flight: ByteCount,
    /// Bytes that may be sent now; zero if the window is full or the pacer says later.
    pub sendable: ByteCount,
    /// Size of a full datagram.
    pub datagram: ByteCount,
    /// Whether the window still grows exponentially in search of the capacity.
    pub in_slow_start: bool,
}

/// Round-trip time of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttView {
    /// The moving average; the assumed one before the first measurement.
    pub smoothed: Duration,
    /// Mean deviation from the average.
    pub variation: Duration,
    /// The smallest that was seen.
    pub minimum: Duration,
}

impl<'a> View<'a> {
    /// A view of these paths in which nothing waits, without credit: to be filled in.
    pub fn new(now: Instant, paths: &'a [PathView]) -> Self {
        Self { now, backlog: ByteCount::ZERO, window_left: ByteCount::ZERO, next: None, paths }
    }

    /// The paths that may be given data now, of the best tier that has any with room.
    pub fn candidates(&self) -> impl Iterator<Item = &'a PathView> + Clone + use<'a> {
        let lives = self.has_working();
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

    /// The paths that are used now, whether they have room or not: those of the first two tiers, or the reserve while
    /// there is none of them.
    pub fn in_use(&self) -> impl Iterator<Item = &'a PathView> + Clone + use<'a> {
        let lives = self.has_working();
        self.paths.iter().filter(move |path| path.tier().is_some_and(|tier| (tier < Tier::Reserve) == lives))
    }

    fn has_working(&self) -> bool {
        self.paths.iter().any(|path| path.tier().is_some_and(|tier| tier < Tier::Reserve))
    }
}

impl PathView {
    /// An idle path that works, with room for ten datagrams and a round trip of 20 ms: to be filled in.
    pub fn new(id: PathId) -> Self {
        let rtt = Duration::from_millis(20);
        Self {
            id,
            state: PathState::Active,
            role: Role::Primary,
            peer_ready: true,
            rtt: RttView { smoothed: rtt, variation: rtt / 10, minimum: rtt },
            delivery_rate: Rate::ZERO,
            window: ByteCount(12_000),
            in_flight: ByteCount::ZERO,
            sendable: ByteCount(12_000),
            datagram: ByteCount(1200),
            in_slow_start: false,
        }
    }

    /// The group that the path belongs to; `None` if it carries no data.
    pub fn tier(&self) -> Option<Tier> {
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

    /// How long a packet needs to the peer, queues included, if both ways take alike: half of the smoothed round trip.
    pub fn delay(&self) -> Duration {
        self.rtt.smoothed / 2
    }

    /// The rate that the path is expected to deliver: the measured one, or a window a round trip before the first
    /// measurement. At least one byte a second.
    pub fn expected_rate(&self) -> Rate {
        let rate = match self.delivery_rate {
            Rate::ZERO => self.window.per(self.rtt.smoothed),
            measured => measured,
        };
        rate.max(Rate::from_bytes_per_second(1))
    }
}
