//! Order in which streams send: strict levels, and within a level the earliest deadline first, then fair turns.

use std::collections::{BTreeSet, VecDeque};

use manyway_wire::StreamId;

use crate::{Class, Instant};

/// A level: a higher priority goes first, and among equals the more urgent class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Urgency {
    pub(crate) priority: i8,
    pub(crate) class: Class,
}

/// The rank of a stream among those that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Rank {
    pub(crate) urgency: Urgency,
    /// When its next data expires.
    pub(crate) deadline: Option<Instant>,
}

/// Selects data by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ClassFilter {
    /// Every class.
    #[default]
    All,
    /// The urgent classes.
    Urgent,
    /// The background and bulk classes.
    NotUrgent,
}

impl Urgency {
    /// Whether it is urgent: such data goes ahead of the pacer, on the path on which it arrives first.
    pub(crate) fn is_urgent(self) -> bool {
        self.class >= Class::Interactive
    }
}

impl ClassFilter {
    /// Whether data of this urgency may go.
    pub(crate) fn takes(self, urgency: Urgency) -> bool {
        match self {
            Self::All => true,
            Self::Urgent => urgency.is_urgent(),
            Self::NotUrgent => !urgency.is_urgent(),
        }
    }
}

/// Streams that have data to send, by level.
///
/// The highest non-empty level always goes first. Within a level, streams with a deadline go first, in the order of
/// their deadlines; each of the others has its turn of [`QUANTUM`] bytes, so that a big stream delays a small one by
/// a few packets only.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    /// Most urgent first. Empty levels stay; there are at most 1024.
    levels: Vec<Level>,
}

/// Streams of equal urgency.
#[derive(Debug)]
pub(crate) struct Level {
    urgency: Urgency,
    deadlines: BTreeSet<(Instant, StreamId)>,
    turns: VecDeque<StreamId>,
    /// Bytes that the first stream has sent in its turn.
    sent_this_turn: usize,
}

/// Bytes of a turn. The last packet of a turn is filled nevertheless.
const QUANTUM: usize = 8 << 10;

impl ReadyQueue {
    /// Adds a stream that is not in the queue, behind the others of its level.
    pub(crate) fn push(&mut self, stream: StreamId, rank: Rank) {
        let at = self.levels.partition_point(|level| level.urgency > rank.urgency);
        if self.levels.get(at).is_none_or(|level| level.urgency != rank.urgency) {
            self.levels.insert(at, Level::new(rank.urgency));
        }
        let Some(level) = self.levels.get_mut(at) else { return };
        match rank.deadline {
            Some(deadline) => {
                level.deadlines.insert((deadline, stream));
            }
            None => level.turns.push_back(stream),
        }
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.levels.retain(|level| level.first().is_some());
        self.levels.shrink_to_fit();
    }

    /// The next stream among those that `filter` takes, and its level.
    pub(crate) fn first(&self, filter: ClassFilter) -> Option<(Urgency, StreamId)> {
        let mut levels = self.levels.iter().filter(|level| filter.takes(level.urgency));
        levels.find_map(|level| Some((level.urgency, level.first()?)))
    }

    /// The non-empty levels that `filter` takes, the most urgent first.
    pub(crate) fn levels(&self, filter: ClassFilter) -> impl Iterator<Item = &Level> {
        self.levels.iter().filter(move |level| filter.takes(level.urgency) && level.first().is_some())
    }

    /// Counts `bytes` that a stream of a level sent; at the end of its turn the stream goes behind the others. Bytes
    /// sent out of turn do not count.
    pub(crate) fn charge(&mut self, urgency: Urgency, stream: StreamId, bytes: usize) {
        let Some(level) = self.level(urgency).filter(|level| level.has_turn(stream)) else { return };
        level.sent_this_turn += bytes;
        if level.sent_this_turn >= QUANTUM {
            level.sent_this_turn = 0;
            level.turns.rotate_left(1);
        }
    }

    /// Removes a stream from the level of its rank. The first one costs O(1), any other one a scan of the level.
    pub(crate) fn remove(&mut self, stream: StreamId, rank: Rank) {
        let Some(level) = self.level(rank.urgency) else { return };
        if let Some(deadline) = rank.deadline {
            level.deadlines.remove(&(deadline, stream));
        } else if level.turns.front() == Some(&stream) {
            level.sent_this_turn = 0;
            level.turns.pop_front();
        } else {
            level.turns.retain(|other| *other != stream);
        }
    }

    /// The turn of the stream that goes first, if no other stream of its level waits.
    pub(crate) fn lone_turn(&self) -> Option<LoneTurn> {
        let level = self.levels.iter().find(|level| level.len() > 0)?;
        let stream = *level.turns.front().filter(|_| level.len() == 1)?;
        Some(LoneTurn { urgency: level.urgency, stream, sent: level.sent_this_turn })
    }

    /// Takes the turn back from [`Self::lone_turn`].
    pub(crate) fn keep_turn(&mut self, turn: LoneTurn) {
        if let Some(level) = self.level(turn.urgency).filter(|level| level.has_turn(turn.stream)) {
            level.sent_this_turn = turn.sent;
        }
    }

    fn level(&mut self, urgency: Urgency) -> Option<&mut Level> {
        self.levels.iter_mut().find(|level| level.urgency == urgency)
    }
}

/// The turn of a stream that nothing interrupts: no other stream of its level waits, and none above it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoneTurn {
    pub(crate) urgency: Urgency,
    pub(crate) stream: StreamId,
    sent: usize,
}

impl LoneTurn {
    /// Counts `bytes`, as [`ReadyQueue::charge`] does; the next turn is this stream's again.
    pub(crate) fn charge(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent >= QUANTUM {
            self.sent = 0;
        }
    }
}

impl Level {
    fn new(urgency: Urgency) -> Self {
        Self { urgency, deadlines: BTreeSet::new(), turns: VecDeque::new(), sent_this_turn: 0 }
    }

    pub(crate) fn urgency(&self) -> Urgency {
        self.urgency
    }

    /// Number of streams.
    pub(crate) fn len(&self) -> usize {
        self.deadlines.len() + self.turns.len()
    }

    /// The streams in the order in which they send.
    pub(crate) fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.deadlines.iter().map(|(_, stream)| *stream).chain(self.turns.iter().copied())
    }

    /// Whether it is this stream's turn.
    fn has_turn(&self, stream: StreamId) -> bool {
        self.deadlines.is_empty() && self.turns.front() == Some(&stream)
    }

    fn first(&self) -> Option<StreamId> {
        let deadline = self.deadlines.first().map(|(_, stream)| *stream);
        deadline.or_else(|| self.turns.front().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(priority: i8, class: Class) -> Rank {
        Rank { urgency: Urgency { priority, class }, deadline: None }
    }

    fn drain(queue: &mut ReadyQueue, places: &[(u64, Rank)], filter: ClassFilter) -> Vec<u64> {
        let mut order = Vec::new();
        while let Some((_, stream)) = queue.first(filter) {
            order.push(stream.0);
            let (_, rank) = places.iter().find(|(id, _)| *id == stream.0).unwrap();
            queue.remove(stream, *rank);
        }
        order
    }

    fn filled(places: &[(u64, Rank)]) -> ReadyQueue {
        let mut queue = ReadyQueue::default();
        places.iter().for_each(|(id, rank)| queue.push(StreamId(*id), *rank));
        queue
    }

    #[test]
    fn priority_comes_first_and_then_the_class() {
        let places = [
            (0, rank(0, Class::Bulk)),
            (4, rank(0, Class::Deadline)),
            (8, rank(5, Class::Background)),
            (12, rank(-5, Class::Deadline)),
            (16, rank(0, Class::Interactive)),
        ];
        assert_eq!(drain(&mut filled(&places), &places, ClassFilter::All), [8, 4, 16, 0, 12]);
        assert_eq!(drain(&mut filled(&places), &places, ClassFilter::Urgent), [4, 16, 12]);
        assert_eq!(drain(&mut filled(&places), &places, ClassFilter::NotUrgent), [8, 0]);
    }

    #[test]
    fn within_a_level_the_earliest_deadline_goes_first() {
        let at = |millis: u64| Some(Instant::from_nanos(millis * 1_000_000));
        let deadline = |millis| Rank { deadline: at(millis), ..rank(0, Class::Deadline) };
        let places =
            [(0, rank(0, Class::Deadline)), (4, deadline(30)), (8, deadline(10)), (12, deadline(20))];
        assert_eq!(drain(&mut filled(&places), &places, ClassFilter::All), [8, 12, 4, 0]);
    }

    #[test]
    fn equal_streams_take_turns_of_a_quantum() {
        let bulk = rank(0, Class::Bulk);
        let mut queue = filled(&[(0, bulk), (4, bulk)]);
        let mut sent = [0usize; 2];
        for _ in 0..100 {
            let (urgency, stream) = queue.first(ClassFilter::All).unwrap();
            sent[usize::try_from(stream.0 / 4).unwrap()] += 1_200;
            queue.charge(urgency, stream, 1_200);
        }
        assert!(sent[0].abs_diff(sent[1]) <= QUANTUM + 1_200, "{sent:?}");
    }

    #[test]
    fn a_leaving_stream_ends_its_turn() {
        let bulk = rank(0, Class::Bulk);
        let mut queue = filled(&[(0, bulk), (4, bulk)]);
        queue.charge(bulk.urgency, StreamId(0), QUANTUM - 1);
        queue.remove(StreamId(0), bulk);
        queue.charge(bulk.urgency, StreamId(4), QUANTUM - 1);
        assert_eq!(queue.first(ClassFilter::All), Some((bulk.urgency, StreamId(4))));
        queue.remove(StreamId(4), bulk);
        assert_eq!(queue.first(ClassFilter::All), None);
    }

    #[test]
    fn bytes_sent_out_of_turn_do_not_shorten_the_turn_of_another_stream() {
        let bulk = rank(0, Class::Bulk);
        let mut queue = filled(&[(0, bulk), (4, bulk)]);
        queue.charge(bulk.urgency, StreamId(4), QUANTUM);
        assert_eq!(queue.first(ClassFilter::All), Some((bulk.urgency, StreamId(0))));
    }
}
