//! Which stream sends next: strict levels, fair within one.

use std::collections::VecDeque;

use manyway_wire::StreamId;

/// Streams that have something to send, by priority.
///
/// The highest level that has a stream goes first, always. Within a level each stream has its turn of
/// [`QUANTUM`] bytes, so that a big stream delays a small one by a few packets only.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    /// Highest priority first. A level stays when it is empty; there are at most 256.
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    priority: i8,
    turns: VecDeque<StreamId>,
    /// Bytes that the first stream has sent in its turn.
    spent: usize,
}

/// Bytes of a turn. The last packet of a turn is filled up all the same.
const QUANTUM: usize = 8 << 10;

impl ReadyQueue {
    /// Adds a stream that is not in the queue, behind the others of its priority.
    pub(crate) fn push(&mut self, stream: StreamId, priority: i8) {
        let at = self.levels.partition_point(|level| level.priority > priority);
        match self.levels.get_mut(at) {
            Some(level) if level.priority == priority => level.turns.push_back(stream),
            Some(_) | None => {
                let turns = VecDeque::from([stream]);
                self.levels.insert(at, Level { priority, turns, spent: 0 });
            }
        }
    }

    /// Gives back memory that is not used.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.levels.retain(|level| !level.turns.is_empty());
        self.levels.shrink_to_fit();
    }

    /// The stream whose turn it is.
    pub(crate) fn first(&self) -> Option<StreamId> {
        self.levels.iter().find_map(|level| level.turns.front().copied())
    }

    /// The levels that have a stream, the highest first: their priority, and their streams in turn.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (i8, &VecDeque<StreamId>)> {
        self.levels.iter().map(|level| (level.priority, &level.turns)).filter(|(_, turns)| !turns.is_empty())
    }

    /// Counts `bytes` that the first stream sent; at the end of its turn it goes behind the others.
    pub(crate) fn charge(&mut self, bytes: usize) {
        let Some(level) = self.first_level() else { return };
        level.spent += bytes;
        if level.spent >= QUANTUM {
            level.spent = 0;
            level.turns.rotate_left(1);
        }
    }

    /// Takes the first stream out: it has nothing more to send.
    pub(crate) fn pop(&mut self) {
        if let Some(level) = self.first_level() {
            level.spent = 0;
            level.turns.pop_front();
        }
    }

    /// Takes a stream out, wherever it stands in the level of its `priority`. Takes time for each stream there.
    pub(crate) fn remove(&mut self, stream: StreamId, priority: i8) {
        if let Some(level) = self.levels.iter_mut().find(|level| level.priority == priority) {
            if level.turns.front() == Some(&stream) {
                level.spent = 0;
            }
            level.turns.retain(|other| *other != stream);
        }
    }

    fn first_level(&mut self) -> Option<&mut Level> {
        self.levels.iter_mut().find(|level| !level.turns.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_higher_level_goes_first() {
        let mut queue = ReadyQueue::default();
        queue.push(StreamId(0), 0);
        queue.push(StreamId(4), 5);
        queue.push(StreamId(8), -5);
        let mut order = Vec::new();
        while let Some(stream) = queue.first() {
            order.push(stream.0);
            queue.pop();
        }
        assert_eq!(order, [4, 0, 8]);
    }

    #[test]
    fn equals_take_turns_of_a_quantum() {
        let mut queue = ReadyQueue::default();
        queue.push(StreamId(0), 0);
        queue.push(StreamId(4), 0);
        let mut sent = [0usize; 2];
        for _ in 0..100 {
            let stream = queue.first().unwrap();
            sent[usize::try_from(stream.0 / 4).unwrap()] += 1_200;
            queue.charge(1_200);
        }
        assert!(sent[0].abs_diff(sent[1]) <= QUANTUM + 1_200, "{sent:?}");
    }

    #[test]
    fn a_stream_that_leaves_takes_its_turn_along() {
        let mut queue = ReadyQueue::default();
        queue.push(StreamId(0), 0);
        queue.push(StreamId(4), 0);
        queue.charge(QUANTUM - 1);
        queue.remove(StreamId(0), 0);
        queue.charge(QUANTUM - 1);
        assert_eq!(queue.first(), Some(StreamId(4)));
        queue.pop();
        assert_eq!(queue.first(), None);
    }
}
