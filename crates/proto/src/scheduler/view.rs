//! What a scheduler may know: the figures of the connection and of its paths.

use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_wire::{PathId, StreamId};

use crate::path::{PathState, Role};
use crate::{ByteCount, Class, Date, Instant, Rate};

/// What a scheduler may know. Made anew for each question, in O(paths).
///
/// ```
/// use manyway_proto::scheduler::{PathView, View};
/// use manyway_proto::{ByteCount, Instant, PathId};
/// let paths = [PathView::new(PathId(0)), PathView::new(PathId(1))];
/// let mut view = View::new(Instant::from_nanos(0), &paths);
/// view.backlog = ByteCount(100_000);
/// view.window_left = ByteCount(40_000);
/// assert_eq!(view.sendable(), ByteCount(40_000));
/// assert_eq!(view.candidates().count(), 2);
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct View<'a> {
    /// The present moment.
    pub now: Instant,
    /// New bytes that wait and that the credit of their own streams allows, those that [`Source::Skip`] left out
    /// included.
    ///
    /// [`Source::Skip`]: super::Source::Skip
    pub backlog: ByteCount,
    /// The part of [`Self::backlog`] that was left out before: it has its credit already.
    pub skipped: ByteCount,
    /// Bytes to be sent again, because they got lost or are in doubt, and the rest of messages that were begun. They need
    /// no credit.
    pub repeats: ByteCount,
    /// The path on which the newest of [`Self::repeats`] got lost or is in doubt: not the one to send them on, if
    /// there is another.
    pub repeats_from: Option<PathId>,
    /// Credit that the peer still grants for new bytes beyond the highest that was sent: that of the connection or of
    /// the next stream, whichever is less.
    pub window_left: ByteCount,
    /// The same credit counted from the first byte that is not acknowledged: about what the peer can keep.
    pub window_total: ByteCount,
    /// What may be spent on copies ([`Source::Reinject`]) at the moment.
    ///
    /// [`Source::Reinject`]: super::Source::Reinject
    pub copy_budget: ByteCount,
    /// Of which new bytes the next are; `None` if there are none.
    pub next: Option<NextUp>,
    /// The streams that could send, in their usual order, for a scheduler that chooses among them: at most
    /// [`Self::MOST_READY`], empty for the others.
    pub ready: &'a [ReadyStream],
    /// What holds up delivery longest, if it is in flight on a path (and not among [`Self::repeats`]); only for
    /// schedulers that ask for it ([`Scheduler::sends_copies`](super::Scheduler::sends_copies)).
    pub stuck: Option<Stuck>,
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

/// A stream that could send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadyStream {
    /// Which.
    pub stream: StreamId,
    /// Higher goes first.
    pub priority: i8,
    /// What its bytes are for.
    pub class: Class,
    /// When those that go first are worth nothing any more.
    pub deadline: Option<Instant>,
    /// Bytes to be sent for the first time, within its own credit.
    pub fresh: ByteCount,
    /// Bytes to be sent again, and the rest of messages that were begun.
    pub repeats: ByteCount,
}

/// The oldest bytes in flight for which the peer's application waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stuck {
    /// Their stream.
    pub stream: StreamId,
    /// Where the path has them in flight.
    pub path: PathId,
    /// How many they are at least: what their packet carries.
    pub bytes: ByteCount,
    /// When they left.
    pub sent_at: Instant,
    /// How often they were copied already.
    pub copies: u32,
}

/// In which order groups of paths are used (spec 8.23).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Primaries that are active.
    First,
    /// Secondaries, and paths on probation.
    Second,
    /// Backups, and paths that the guard parked: only while no path of the others is in a state that carries data, but
    /// for those that may not be used without leave ([`Scheduler::may_use`](super::Scheduler::may_use)).
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
    /// How long a packet needs to the peer, queues included. The clocks of the two ends are not compared: the fastest
    /// path is taken to need half a round trip, and of the others the difference to it is measured. Half a round trip
    /// for a path on which it was not measured. A queue of which nothing was heard for a while is taken to drain.
    pub delay: Duration,
    /// Measured delivery rate, the largest of the last ten round trips and of 2 s at least, what the application limited
    /// only if it was larger; zero before the first measurement.
    pub delivery_rate: Rate,
    /// Congestion window.
    pub window: ByteCount,
    /// Bytes sent and not yet acknowledged.
    pub in_flight: ByteCount,
    /// Bytes that may be sent now; zero if the window is full or the pacer says later.
    pub sendable: ByteCount,
    /// When the pacer lets the next burst go, if it is what holds the path back.
    pub next_departure: Option<Instant>,
    /// Size of a full datagram.
    pub datagram: ByteCount,
    /// Whether the window still grows exponentially in search of the capacity.
    pub in_slow_start: bool,
    /// What it did so far.
    pub record: PathRecord,
    /// What using it costs.
    pub terms: PathTerms,
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
    /// The smallest moving average that was seen: the round trip without a queue. Where round trips vary by chance,
    /// [`Self::minimum`] is rarer than what they are about.
    pub base: Duration,
}

/// What a path did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PathRecord {
    /// UDP payload sent on it.
    pub bytes_sent: ByteCount,
    /// Packets lost lately, of a million.
    pub loss: u32,
    /// Time since the delivery rate was measured last; `None` if it never was.
    pub rate_age: Option<Duration>,
    /// Time since an acknowledgement of something new; `None` if there was none.
    pub ack_age: Option<Duration>,
}

/// What using a path costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathTerms {
    /// Class of its price: 0 is free, a higher one costs more. Default 0.
    pub cost: u8,
    /// Its share of the load, for schedulers that go by shares (`weighted=fixed`). Default 1, up to 1000; others count as
    /// the nearest of [`Self::WEIGHTS`].
    pub weight: u32,
    /// Bytes that may still be sent and received over its interface; `None` without a limit, the default.
    pub quota_left: Option<ByteCount>,
    /// When there is quota again, for people: the core only hands it on. Default `None`.
    pub renewal: Option<Date>,
}

impl Default for PathTerms {
    fn default() -> Self {
        Self { cost: 0, weight: 1, quota_left: None, renewal: None }
    }
}

impl PathTerms {
    /// What [`Self::weight`] may be.
    pub const WEIGHTS: RangeInclusive<u32> = 1..=1000;

    /// Whether nothing may be sent or received any more.
    pub fn is_spent(&self) -> bool {
        self.quota_left == Some(ByteCount::ZERO)
    }
}

impl<'a> View<'a> {
    /// Most streams of [`Self::ready`].
    pub const MOST_READY: usize = 64;

    /// A view of these paths in which nothing waits, without credit: to be filled in.
    pub fn new(now: Instant, paths: &'a [PathView]) -> Self {
        Self {
            now,
            backlog: ByteCount::ZERO,
            skipped: ByteCount::ZERO,
            repeats: ByteCount::ZERO,
            repeats_from: None,
            window_left: ByteCount::ZERO,
            window_total: ByteCount::ZERO,
            copy_budget: ByteCount::ZERO,
            next: None,
            ready: &[],
            stuck: None,
            paths,
        }
    }

    /// New bytes that could be sent now: those within the credit, and those that have theirs already.
    pub fn fresh(&self) -> ByteCount {
        self.skipped + (self.backlog - self.skipped).min(self.window_left)
    }

    /// Bytes that could be sent now, repeats included.
    pub fn sendable(&self) -> ByteCount {
        self.repeats + self.fresh()
    }

    /// The paths that may be given data now, of the best tier that has any with room.
    pub fn candidates(&self) -> impl Iterator<Item = &'a PathView> + Clone + use<'a> {
        let lives = self.paths.iter().any(is_working);
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
    /// there is none of them. A scheduler to which one of the first two tiers is as one that does not work takes from
    /// the reserve all the same, as `primary` does while that one needs leave.
    pub fn in_use(&self) -> impl Iterator<Item = &'a PathView> + Clone + use<'a> {
        self.in_use_of(|_| true)
    }

    /// The paths that would be used if there were only those that may be.
    pub(crate) fn in_use_of<F>(&self, may_be: F) -> impl Iterator<Item = &'a PathView> + Clone + use<'a, F>
    where
        F: Fn(&PathView) -> bool + Clone,
    {
        let candidates = self.paths.iter().filter(move |path| may_be(path));
        let lives = candidates.clone().any(is_working);
        candidates.filter(move |path| path.tier().is_some_and(|tier| (tier < Tier::Reserve) == lives))
    }

    /// The path of this id.
    pub fn path(&self, id: PathId) -> Option<&'a PathView> {
        self.paths.iter().find(|path| path.id == id)
    }
}

/// Whether a path is of the first two tiers.
fn is_working(path: &PathView) -> bool {
    path.tier().is_some_and(|tier| tier < Tier::Reserve)
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
            rtt: RttView { smoothed: rtt, variation: rtt / 10, minimum: rtt, base: rtt },
            delay: rtt / 2,
            delivery_rate: Rate::ZERO,
            window: ByteCount(12_000),
            in_flight: ByteCount::ZERO,
            sendable: ByteCount(12_000),
            next_departure: None,
            datagram: ByteCount(1200),
            in_slow_start: false,
            record: PathRecord::default(),
            terms: PathTerms::default(),
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
            (
                PathState::Active | PathState::Backup | PathState::Parked | PathState::Probation,
                Role::Backup,
            )
            | (PathState::Backup | PathState::Parked, Role::Primary | Role::Secondary) => Some(Tier::Reserve),
            (PathState::Validating | PathState::Suspect | PathState::Dead | PathState::Closed, _)
            | (_, Role::Never) => None,
        }
    }

    /// How much of a queue is still there that was measured `age` ago: no less than what this end has in it, and beyond
    /// that it drains in the time that it held packets.
    pub(crate) fn present_queue(&self, measured: Duration, age: Duration) -> Duration {
        let own = (self.in_flight / self.expected_rate()).saturating_sub(self.rtt.minimum);
        measured.min(own.max(measured.saturating_sub(age)))
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
