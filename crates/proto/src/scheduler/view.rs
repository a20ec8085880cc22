//! The view of a scheduler: properties of the connection and of its paths.

use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_wire::{PathId, StreamId};

use crate::path::{PathState, Role};
use crate::{ByteCount, Class, Date, Instant, Rate};

/// The information for one decision. Built for each decision, in O(paths).
///
/// ```
/// use manyway_proto::scheduler::{PathView, View};
/// use manyway_proto::{ByteCount, Instant, PathId};
/// let paths = [PathView::new(PathId(0)), PathView::new(PathId(1))];
/// let mut view = View::new(Instant::from_nanos(0), &paths);
/// view.backlog = ByteCount(100_000);
/// view.credit_left = ByteCount(40_000);
/// assert_eq!(view.sendable(), ByteCount(40_000));
/// assert_eq!(view.candidates().count(), 2);
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct View<'a> {
    /// The present time.
    pub now: Instant,
    /// New bytes that wait and that the credit of their own streams permits, including those that [`Source::Skip`]
    /// deferred.
    ///
    /// [`Source::Skip`]: super::Source::Skip
    pub backlog: ByteCount,
    /// The deferred part of [`Self::backlog`]: it has its credit already.
    pub deferred: ByteCount,
    /// Bytes to retransmit, because they were lost or their path is suspect, and the rest of partially sent messages.
    /// They need no credit.
    pub retransmissions: ByteCount,
    /// The path on which the newest of [`Self::retransmissions`] were lost or became suspect: retransmissions should avoid it
    /// if there is another.
    pub retransmit_off: Option<PathId>,
    /// Credit that the peer still grants for new bytes beyond the highest that was sent: that of the connection, or that of
    /// all streams that hold bytes together, whichever is less.
    pub credit_left: ByteCount,
    /// The same credit counted from the first unacknowledged byte: about the buffer of the peer.
    pub credit_total: ByteCount,
    /// Bytes that may be spent on copies ([`Source::Reinject`]) now.
    ///
    /// [`Source::Reinject`]: super::Source::Reinject
    pub copy_budget: ByteCount,
    /// The next new bytes; `None` if there are none.
    pub next: Option<NextUp>,
    /// The streams that could send, in their usual order, for a scheduler that chooses among them: at most
    /// [`Self::MOST_READY`], empty for the others.
    pub ready: &'a [ReadyStream],
    /// The packet that has blocked the head of line longest, if it is in flight on a path (and not among
    /// [`Self::retransmissions`]); only for schedulers that request it
    /// ([`Scheduler::sends_copies`](super::Scheduler::sends_copies)).
    pub head_of_line: Option<HeadOfLine>,
    /// Every open path, including full, paced and suspect ones, by ascending id.
    pub paths: &'a [PathView],
}

/// The new bytes that would go next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NextUp {
    /// Their stream.
    pub stream: StreamId,
    /// Their class.
    pub class: Class,
    /// How many unsent bytes the stream, or the message, has.
    pub left: ByteCount,
    /// When they expire.
    pub deadline: Option<Instant>,
}

/// A stream that could send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadyStream {
    /// Its id.
    pub stream: StreamId,
    /// Its priority: higher goes first.
    pub priority: i8,
    /// The class of its bytes.
    pub class: Class,
    /// When its first bytes expire.
    pub deadline: Option<Instant>,
    /// New bytes within its own credit.
    pub unsent: ByteCount,
    /// Bytes to retransmit, and the rest of partially sent messages.
    pub retransmissions: ByteCount,
}

/// The head-of-line blocking range: the oldest bytes in flight for which the peer's application waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeadOfLine {
    /// Their stream.
    pub stream: StreamId,
    /// The path on which they are in flight.
    pub path: PathId,
    /// Lower bound of their number: the content of their packet.
    pub bytes: ByteCount,
    /// When they were sent.
    pub sent_at: Instant,
    /// How often they were copied already.
    pub copies: u32,
}

/// The order in which groups of paths are used (spec 8.23).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Active primaries.
    First,
    /// Secondaries, and paths on probation.
    Second,
    /// Backups, and paths that the guard parked: used only while no other path is in a state that carries data, apart
    /// from paths that may not be used without permission ([`Scheduler::may_use`](super::Scheduler::may_use)).
    Reserve,
}

/// Properties of one path.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub struct PathView {
    /// Its id.
    pub id: PathId,
    /// Its state.
    pub state: PathState,
    /// The role of its interface, as both ends agree.
    pub role: Role,
    /// The index of its interface at this end; zero if it is unknown.
    pub interface: u32,
    /// Whether data may go on it: not if the peer reported the path as suspect or dead, nor if its carrier has taken
    /// nothing for longer than a round trip.
    pub peer_ready: bool,
    /// Round-trip time.
    pub rtt: RttView,
    /// Delay of a packet to the peer, including queues. The clocks of the two ends are not synchronised: the fastest
    /// path is assumed to take half an RTT, and the difference to it is measured for the others. Half an RTT for a
    /// path without a measurement. An old queue measurement is assumed to drain.
    pub delay: Duration,
    /// Measured delivery rate: the largest of the last ten round trips and of at least 2 s; application-limited
    /// samples count only if they are larger. Zero before the first sample.
    pub delivery_rate: Rate,
    /// Congestion window.
    pub window: ByteCount,
    /// Bytes in flight.
    pub in_flight: ByteCount,
    /// Bytes that may be sent now; zero if the window is full or the pacer delays them.
    pub sendable: ByteCount,
    /// When the pacer releases the next burst, if only the pacer holds the path back.
    pub next_departure: Option<Instant>,
    /// Size of a full datagram.
    pub datagram: ByteCount,
    /// Whether the window grows exponentially in slow start.
    pub in_slow_start: bool,
    /// Its record so far.
    pub record: PathRecord,
    /// Cost and quota of its use. The cost is the one that this end set, or if it set none, the one that the peer
    /// reports.
    pub terms: PathTerms,
    /// Whether the cost in [`Self::terms`] is the peer's: the application of this end is not asked about it.
    pub peer_pays: bool,
}

/// RTT of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttView {
    /// The moving average; the assumed RTT before the first sample.
    pub smoothed: Duration,
    /// Mean deviation from the average.
    pub variation: Duration,
    /// The smallest sample.
    pub minimum: Duration,
    /// The base RTT: the smallest moving average, which is the round trip without a queue. On a path with jitter
    /// [`Self::minimum`] is too rare to be typical.
    pub base: Duration,
}

/// The record of a path so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PathRecord {
    /// UDP payload sent on it.
    pub bytes_sent: ByteCount,
    /// Recently lost packets per million.
    pub loss: u32,
    /// Time since the last sample of the delivery rate; `None` if there was none.
    pub rate_age: Option<Duration>,
    /// Time since a packet was last newly acknowledged; `None` if none was.
    pub ack_age: Option<Duration>,
}

/// Cost and quota of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathTerms {
    /// Price class: 0 is free, a higher one costs more. Default 0.
    pub cost: u8,
    /// Its share of the load, for schedulers that use shares (`weighted=fixed`). Default 1, up to 1000; others count
    /// as the nearest of [`Self::WEIGHTS`].
    pub weight: u32,
    /// Bytes that may still be sent and received over its interface; `None` without a limit, the default.
    pub quota_left: Option<ByteCount>,
    /// When the quota is renewed, for users: the core only passes it on. Default `None`.
    pub renewal: Option<Date>,
}

impl Default for PathTerms {
    fn default() -> Self {
        Self { cost: 0, weight: 1, quota_left: None, renewal: None }
    }
}

impl PathTerms {
    /// Valid values of [`Self::weight`].
    pub const WEIGHTS: RangeInclusive<u32> = 1..=1000;

    /// Whether the quota is used up.
    pub fn has_no_quota(&self) -> bool {
        self.quota_left == Some(ByteCount::ZERO)
    }
}

impl<'a> View<'a> {
    /// Most streams of [`Self::ready`].
    pub const MOST_READY: usize = 64;

    /// A view of these paths without waiting data and credit, to be filled in.
    pub fn new(now: Instant, paths: &'a [PathView]) -> Self {
        Self {
            now,
            backlog: ByteCount::ZERO,
            deferred: ByteCount::ZERO,
            retransmissions: ByteCount::ZERO,
            retransmit_off: None,
            credit_left: ByteCount::ZERO,
            credit_total: ByteCount::ZERO,
            copy_budget: ByteCount::ZERO,
            next: None,
            ready: &[],
            head_of_line: None,
            paths,
        }
    }

    /// New bytes that could be sent now: those within the credit, and deferred ones.
    pub fn sendable_unsent(&self) -> ByteCount {
        self.deferred + (self.backlog - self.deferred).min(self.credit_left)
    }

    /// Bytes that could be sent now, including retransmissions.
    pub fn sendable(&self) -> ByteCount {
        self.retransmissions + self.sendable_unsent()
    }

    /// The paths that can send now, of the best tier that has any.
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

    /// The paths that are in use now, with or without available window: those of the first two tiers, or the reserve
    /// while there is none of them. A scheduler that treats a path of the first two tiers as one that does not work
    /// may use the reserve nevertheless, as `primary` does while such a path needs permission.
    pub fn in_use(&self) -> impl Iterator<Item = &'a PathView> + Clone + use<'a> {
        self.in_use_of(|_| true)
    }

    /// The paths that would be in use if only those that `may_be` accepts existed.
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
    /// An idle path that works, with a window of ten datagrams and an RTT of 20 ms, to be filled in.
    pub fn new(id: PathId) -> Self {
        let rtt = Duration::from_millis(20);
        Self {
            id,
            state: PathState::Active,
            role: Role::Primary,
            interface: 0,
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
            peer_pays: false,
        }
    }

    /// The tier of the path; `None` if it carries no data.
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

    /// The present length of a queue that was measured `age` ago: at least this end's own part of it; the rest drains
    /// in the time that it held packets.
    pub(crate) fn present_queue(&self, measured: Duration, age: Duration) -> Duration {
        let own = (self.in_flight / self.expected_rate()).saturating_sub(self.rtt.minimum);
        measured.min(own.max(measured.saturating_sub(age)))
    }

    /// The expected delivery rate of the path: the measured one, or a window in a round trip before the first sample.
    /// At least one byte a second.
    pub fn expected_rate(&self) -> Rate {
        let rate = match self.delivery_rate {
            Rate::ZERO => self.window.per(self.rtt.smoothed),
            measured => measured,
        };
        rate.max(Rate::from_bytes_per_second(1))
    }
}
