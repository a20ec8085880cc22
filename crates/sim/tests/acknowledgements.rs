//! The packet ranges that a receiver keeps, and what its acknowledgements elicit.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail as tests do")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use manyway_proto::observe::{Direction, Fact, ObservedPacket, Observer, Observers};
use manyway_proto::{ConnectionConfig, Instant, PathState};
use manyway_sim::link::{LinkConfig, LossModel, Probability};
use manyway_sim::pair;
use manyway_sim::scenario::{MINUTE, MS, SECOND, connected_with, mbit, megabytes, path_events};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Side};
use manyway_wire::mmsp2::Block;

/// The ranges of all PATH-ACKs that an end sent.
#[derive(Debug, Clone, Copy, Default)]
struct Ranges {
    acks: usize,
    sum: usize,
    most: usize,
    /// Packets of acknowledgements only, and those of them that are ack-eliciting.
    pure: usize,
    asking: usize,
}

#[derive(Debug, Clone, Default)]
struct Counter(Arc<Mutex<Ranges>>);

impl Observer for Counter {
    fn on_fact(&mut self, _now: Instant, _fact: &Fact) {}

    fn on_packet(&mut self, _now: Instant, packet: &ObservedPacket<'_>) {
        if packet.direction != Direction::Sent {
            return;
        }
        let mut ranges = self.0.lock().unwrap();
        let (mut acknowledges, mut asks, mut other) = (false, false, false);
        for block in packet.blocks().filter_map(Result::ok) {
            if let Block::PathAck(block) = &block {
                let count = block.ranges.iter().count();
                ranges.acks += 1;
                ranges.sum += count;
                ranges.most = ranges.most.max(count);
                acknowledges = true;
            } else if matches!(block, Block::AckNow) {
                asks = true;
            } else {
                other = true;
            }
        }
        if acknowledges && !other {
            ranges.pure += 1;
            ranges.asking += usize::from(asks);
        }
    }
}

/// A transfer in one direction over two paths that lose one packet in a hundred each way; returns what the receiver
/// sent.
fn one_way(from: Side) -> (Ranges, usize) {
    let receiver = match from {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    };
    let counter = Counter::default();
    let mut config = ConnectionConfig::default();
    let of_receiver = counter.clone();
    config.set_observers(Observers::new(move |beginning| {
        (beginning.side == receiver).then(|| Box::new(of_receiver.clone()) as Box<dyn Observer>)
    }));
    let lossy = |rate, delay| {
        LinkConfig::new(mbit(rate), delay * MS).with_loss(LossModel::Random(Probability::from_percent(1.0)))
    };
    let builder =
        PairBuilder::new().path_with(lossy(20, 10), lossy(20, 10)).path_with(lossy(10, 30), lossy(10, 30));
    let mut pair = connected_with(builder, &config).unwrap();
    pair.transfer(from, megabytes(20), 2 * MINUTE).unwrap();
    let suspicions = [Side::Client, Side::Server].map(|side| {
        let events = path_events(&mut pair, side);
        events.iter().filter(|(_, event)| matches!(event.state, PathState::Suspect | PathState::Dead)).count()
    });
    let ranges = *counter.0.lock().unwrap();
    (ranges, suspicions.iter().sum())
}

// spec 9.30
#[test]
fn the_acknowledgements_of_a_receiver_stay_short_and_raise_no_suspicion() {
    for from in [Side::Client, Side::Server] {
        let (ranges, doubts) = one_way(from);
        let mean_of_hundred = ranges.sum * 100 / ranges.acks;
        // Full links lose a packet in every second or third round trip, and each gap is named for one to two of them.
        // Without ack-eliciting acknowledgements there would be 7 ranges in the mean, and up to 42.
        assert!(mean_of_hundred < 175 && ranges.most <= 8, "{from:?} sends: {ranges:?}");
        assert!(ranges.asking * 20 < ranges.pure, "{from:?} sends: {ranges:?}");
        assert_eq!(doubts, 0, "{from:?} sends");
    }
}

/// The PATH-ACKs of two paths that an end sent: on the path that they acknowledge, and on the other.
#[derive(Debug, Clone, Copy, Default)]
struct Carried {
    own: [usize; 2],
    elsewhere: [usize; 2],
}

#[derive(Debug, Clone, Default)]
struct Carriers(Arc<Mutex<Carried>>);

impl Carriers {
    /// The acknowledgements since the last call.
    fn take(&self) -> Carried {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Observer for Carriers {
    fn on_fact(&mut self, _now: Instant, _fact: &Fact) {}

    fn on_packet(&mut self, _now: Instant, packet: &ObservedPacket<'_>) {
        if packet.direction != Direction::Sent {
            return;
        }
        let mut carried = self.0.lock().unwrap();
        for block in packet.blocks().filter_map(Result::ok) {
            let Block::PathAck(block) = &block else { continue };
            let carried = if block.path == packet.path { &mut carried.own } else { &mut carried.elsewhere };
            carried[usize::try_from(block.path.0).unwrap()] += 1;
        }
    }
}

const ROUND_TRIPS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];

/// The client sends over two paths of 20 Mbit/s with these round trips, for 2 s by now.
fn uneven(carriers: &Carriers) -> EndpointPair {
    let mut config = ConnectionConfig::default();
    let of_server = carriers.clone();
    config.set_observers(Observers::new(move |beginning| {
        (beginning.side == Side::Server).then(|| Box::new(of_server.clone()) as Box<dyn Observer>)
    }));
    let [near, far] = ROUND_TRIPS;
    let builder = PairBuilder::new().path(mbit(20), near / 2).path(mbit(20), far / 2);
    let mut pair = connected_with(builder, &config).unwrap();
    let host = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(100))));
    pair.run_for(2 * SECOND).unwrap();
    pair
}

// spec 9.4, 9.7, 9.54
#[test]
fn acknowledgements_use_their_own_path_and_ignore_the_order_between_paths() {
    let carriers = Carriers::default();
    let mut pair = uneven(&carriers);
    carriers.take();
    pair.run_for(5 * SECOND).unwrap();
    let carried = carriers.take();
    assert_eq!(carried.elsewhere, [0, 0]);
    for (rtt, acks) in ROUND_TRIPS.iter().zip(carried.own) {
        // Eight of a round trip's packets, four of its time: one for each packet that is ahead of the others in its
        // stream would be 85 and more on the longer path.
        let rounds = usize::try_from((5 * SECOND).as_nanos() / rtt.as_nanos()).unwrap();
        assert!((4 * rounds..=12 * rounds).contains(&acks), "{rtt:?}: {acks} in {rounds} round trips");
    }
}

// spec 6.22, 9.7
#[test]
fn the_acknowledgements_of_a_path_without_a_return_path_use_the_other() {
    for cut in 0..2 {
        let carriers = Carriers::default();
        let mut pair = uneven(&carriers);
        pair.cut(cut, pair::Direction::Down);
        carriers.take();
        pair.run_for(500 * MS).unwrap();
        let carried = carriers.take();
        assert!(carried.elsewhere[cut] > 0 && carried.elsewhere[1 - cut] == 0, "{cut}: {carried:?}");
        pair.restore(cut, pair::Direction::Down);
        pair.run_for(3 * SECOND).unwrap();
        carriers.take();
        pair.run_for(SECOND).unwrap();
        let carried = carriers.take();
        assert!(
            carried.own.iter().all(|acks| *acks > 0) && carried.elsewhere == [0, 0],
            "{cut}: {carried:?}"
        );
    }
}
