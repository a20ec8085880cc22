//! Measures the delivery time of bytes, and how many of them wait at the receiver for earlier ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use manyway_proto::observe::{Direction, Fact, ObservedPacket, Observer};
use manyway_proto::{ByteCount, Instant, StreamId};
use manyway_wire::mmsp2::Block;

use crate::pair::Side;

/// Follows the streams of a connection through the packets of both ends.
///
/// ```
/// use manyway_sim::scenario::{MINUTE, MS, connected, mbit, megabytes};
/// use manyway_sim::{DeliveryWatch, PairBuilder, PairError, Side};
///
/// let mut pair = connected(PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 30 * MS))?;
/// let watch = DeliveryWatch::default();
/// for side in [Side::Client, Side::Server] {
///     if let Some(connection) = pair.peer(side).and_then(|peer| peer.connection()) {
///         connection.set_observer(watch.observer(side));
///     }
/// }
/// pair.transfer(Side::Client, megabytes(2), MINUTE)?;
/// assert!(watch.delays().iter().all(|delay| *delay >= 10 * MS));
/// println!("at most {} waited for others", watch.most_held());
/// # Ok::<(), PairError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct DeliveryWatch(Arc<Mutex<Watched>>);

#[derive(Debug, Default)]
struct Watched {
    flows: BTreeMap<(Side, StreamId), Flow>,
    /// Waiting bytes at the client, and at the server.
    held: [u64; 2],
    most_held: u64,
    delays: Vec<Duration>,
}

/// One direction of a stream.
#[derive(Debug, Default)]
struct Flow {
    /// When the byte at each [`MARK`] was first sent.
    sent: BTreeMap<u64, Instant>,
    /// Everything before this has arrived.
    complete: u64,
    /// What has arrived after it.
    beyond: BTreeMap<u64, u64>,
    /// How many bytes these are.
    waiting: u64,
}

/// Distance between two tracked bytes of a stream.
const MARK: u64 = 16 << 10;

impl DeliveryWatch {
    /// The observer for one end; both ends need theirs.
    pub fn observer(&self, side: Side) -> Box<dyn Observer> {
        Box::new(Ear { side, watched: self.clone() })
    }

    /// The most bytes that waited at an end for earlier ones, all streams together.
    pub fn most_held(&self) -> ByteCount {
        ByteCount(self.watched().most_held)
    }

    /// From the first sending of a byte until it and all before it had arrived: of one byte in 16 KiB, in the order of
    /// their arrival.
    pub fn delays(&self) -> Vec<Duration> {
        self.watched().delays.clone()
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Observes the packets of one end.
#[derive(Debug)]
struct Ear {
    side: Side,
    watched: DeliveryWatch,
}

impl Observer for Ear {
    fn on_fact(&mut self, _now: Instant, _fact: &Fact) {}

    fn on_packet(&mut self, now: Instant, packet: &ObservedPacket<'_>) {
        let mut watched = self.watched.watched();
        for block in packet.blocks().flatten() {
            let Block::Stream(block) = block else { continue };
            let range = (block.offset, block.offset + block.data.len() as u64);
            match packet.direction {
                Direction::Sent => watched.on_sent(now, (self.side, block.stream), range),
                Direction::Received => watched.on_arrival(now, (self.side.other(), block.stream), range),
            }
        }
    }
}

impl Watched {
    fn on_sent(&mut self, now: Instant, key: (Side, StreamId), (from, to): (u64, u64)) {
        let flow = self.flows.entry(key).or_default();
        for mark in from.div_ceil(MARK)..to.div_ceil(MARK) {
            if mark * MARK >= flow.complete {
                flow.sent.entry(mark).or_insert(now);
            }
        }
    }

    fn on_arrival(&mut self, now: Instant, key: (Side, StreamId), (from, to): (u64, u64)) {
        let Some(flow) = self.flows.get_mut(&key) else { return };
        let held = match key.0 {
            // The other end is the one that receives.
            Side::Server => &mut self.held[0],
            Side::Client => &mut self.held[1],
        };
        *held -= flow.waiting;
        flow.add(from, to);
        *held += flow.waiting;
        self.most_held = self.most_held.max(*held);
        while let Some(first) = flow.sent.first_entry().filter(|first| first.key() * MARK < flow.complete) {
            self.delays.push(now - first.remove());
        }
    }
}

impl Flow {
    fn add(&mut self, from: u64, to: u64) {
        let (mut from, mut to) = (from.max(self.complete), to);
        if from >= to {
            return;
        }
        while let Some((start, end)) = self.beyond.range(..=to).next_back().map(|(start, end)| (*start, *end))
            && end >= from
        {
            self.beyond.remove(&start);
            self.waiting -= end - start;
            (from, to) = (from.min(start), to.max(end));
        }
        if from == self.complete {
            self.complete = to;
        } else {
            self.beyond.insert(from, to);
            self.waiting += to - from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_early_is_held_until_the_gap_is_filled() {
        let mut watched = Watched::default();
        let key = (Side::Client, StreamId(0));
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        watched.on_sent(at(0), key, (0, 1000));
        watched.on_sent(at(1), key, (1000, 40_000));
        watched.on_arrival(at(10), key, (1000, 20_000));
        watched.on_arrival(at(11), key, (30_000, 40_000));
        watched.on_arrival(at(12), key, (20_000, 30_000));
        assert_eq!((watched.held[1], watched.delays.len()), (39_000, 0));
        watched.on_arrival(at(30), key, (0, 1000));
        // Byte 0 was sent first, those at 16 and at 32 KiB a millisecond later.
        let expected = [30, 29, 29].map(Duration::from_millis);
        assert_eq!((watched.held[1], watched.most_held, &watched.delays[..]), (0, 39_000, &expected[..]));
        // A second copy changes nothing.
        watched.on_arrival(at(31), key, (0, 40_000));
        assert_eq!((watched.held[1], watched.delays.len()), (0, 3));
    }
}
