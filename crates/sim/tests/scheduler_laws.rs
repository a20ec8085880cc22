//! The behaviour of each scheduler on a connection: everything arrives, and each keeps its law.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use manyway_proto::observe::{Direction as Way, Fact, ObservedPacket, Observer};
use manyway_proto::scheduler::{self, Binding, PathTerms, Purpose};
use manyway_proto::{
    ByteCount, Class, ConnectionConfig, Event, Instant, MessageOptions, Misuse, PathId, Role, StreamId,
};
use manyway_sim::link::{LinkConfig, LinkState, LossModel, Probability};
use manyway_sim::nightly::is_nightly;
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{MINUTE, MS, SECOND, connected_with, mbit, megabytes, path_figures};
use manyway_sim::traffic::{Exchange, Requests};
use manyway_sim::{EndpointPair, PairBuilder, Side, endpoint_pair};
use manyway_wire::mmsp2::Block;

/// Connects with a scheduler over paths with these rates in Mbit/s and one-way delays in milliseconds.
fn connected(scheduler: &str, paths: &[(u64, u32)]) -> EndpointPair {
    let mut config = ConnectionConfig::default();
    config.set_scheduler(scheduler).unwrap();
    let path = |builder: PairBuilder, (rate, delay): &(u64, u32)| builder.path(mbit(*rate), MS * *delay);
    let mut pair = connected_with(paths.iter().fold(PairBuilder::new(), path), &config).unwrap();
    // Every path exists before the traffic.
    pair.run_for(SECOND).unwrap();
    pair
}

/// Bytes that each path delivers within a time, of the data of `from`.
fn delivered_in(pair: &mut EndpointPair, from: Side, time: Duration) -> Vec<u64> {
    let before = pair.delivered(from);
    pair.run_for(time).unwrap();
    pair.delivered(from).iter().zip(before).map(|(after, before)| (*after - before).get()).collect()
}

fn start(pair: &mut EndpointPair, from: Side, bytes: ByteCount) {
    let host = pair.host(from);
    pair.start(from, Box::new(Exchange::new(host, bytes)));
}

#[test]
fn each_completes_over_unequal_paths_of_which_one_dies_for_a_while() {
    for (place, name) in scheduler::names().chain(WITH_SETTINGS).enumerate() {
        for (row, (paths, size)) in
            [([(20, 10), (5, 10)], 5), ([(10, 5), (10, 50)], 4)].into_iter().enumerate()
        {
            let deaths = [(Side::Server, 1), (Side::Client, 0), (Side::Client, 1)];
            // By day one of them.
            let day = (place + row) % 3;
            let chosen = if is_nightly() { 0..3 } else { day..day + 1 };
            for (from, dies) in deaths[chosen].iter().copied() {
                let mut pair = connected(name, &paths);
                start(&mut pair, from, megabytes(size));
                pair.run_for(700 * MS).unwrap();
                pair.cut(dies, Direction::Both);
                pair.run_for(800 * MS).unwrap();
                pair.restore(dies, Direction::Both);
                let done = pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet());
                assert!(done.is_ok(), "{name} {paths:?} {from:?} without {dies}: {done:?}");
            }
        }
    }
}

#[test]
fn each_completes_after_the_permanent_loss_of_a_path() {
    for name in scheduler::names().chain(WITH_SETTINGS) {
        for gone in [0, 1] {
            let mut pair = connected(name, &[(20, 10), (10, 10)]);
            start(&mut pair, Side::Client, megabytes(3));
            pair.run_for(500 * MS).unwrap();
            pair.set_interface(gone, LinkState::Down);
            let done = pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet());
            assert!(done.is_ok(), "{name} without {gone}: {done:?}");
        }
    }
}

/// A copy that waits for cwnd leaves when the original is lost already, and is lost itself.
#[test]
fn lost_copies_block_nothing() {
    let lossy = |megabits, delay| {
        let loss = LossModel::Random(Probability::from_percent(3.0));
        LinkConfig::new(mbit(megabits), MS * delay).with_loss(loss)
    };
    let (fast, slow) = (lossy(20, 10), lossy(2, 150));
    for (seed, name) in (0..20).flat_map(|seed| [(seed, "redundant"), (seed, "redundant=late")]) {
        let mut config = ConnectionConfig::default();
        config.set_scheduler(name).unwrap();
        config.set_congestion("cubic").unwrap();
        let builder = PairBuilder::new().seed(seed).path_with(fast.clone(), fast.clone());
        let mut pair = connected_with(builder.path_with(slow.clone(), slow.clone()), &config).unwrap();
        start(&mut pair, Side::Client, ByteCount(300_000));
        pair.run_for(300 * MS).unwrap();
        pair.cut(0, Direction::Both);
        pair.run_for(400 * MS).unwrap();
        pair.restore(0, Direction::Both);
        let done = pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet());
        assert!(done.is_ok(), "{name}, seed {seed}: {done:?}");
    }
}

#[test]
fn fixed_weights_are_the_shares_whatever_the_rates() {
    for rates in [[(10, 10), (10, 10), (20, 10)], [(20, 10), (20, 20), (20, 5)]] {
        let mut pair = connected("weighted=1:1:2", &rates);
        pair.transfer(Side::Client, megabytes(10), MINUTE).unwrap();
        let sent: Vec<u64> =
            path_figures(&mut pair, Side::Client).iter().map(|path| path.bytes_sent.get()).collect();
        let all: u64 = sent.iter().sum();
        for (bytes, weight) in sent.iter().zip([1, 1, 2]) {
            // Two paths may be ahead of their shares by 64 KiB and a turn each, which the third one lacks.
            assert!(bytes.abs_diff(all * weight / 4) <= 150_000, "{rates:?} {sent:?}");
        }
    }
}

#[test]
fn weights_that_fit_the_rates_give_their_sum() {
    for (settings, least) in [("weighted=1:1:2", 36), ("weighted", 36)] {
        let mut pair = connected(settings, &[(10, 10), (10, 10), (20, 10)]);
        let report = pair.transfer(Side::Client, megabytes(20), MINUTE).unwrap();
        assert!(report.goodput >= mbit(least), "{settings} {}", report.goodput);
    }
}

#[test]
fn the_primary_alone_carries_data_until_it_dies_and_again_when_it_is_back() {
    let mut pair = connected("primary", &[(10, 10), (10, 10), (20, 10)]);
    start(&mut pair, Side::Client, megabytes(30));
    pair.run_for(SECOND).unwrap();
    let bytes = delivered_in(&mut pair, Side::Client, SECOND);
    assert!(bytes[0] > 1_000_000 && bytes[1] < 20_000, "{bytes:?}");
    // Retransmissions use the fastest of the others.
    assert!(bytes[2] < bytes[0] / 10, "{bytes:?}");
    pair.cut(0, Direction::Both);
    pair.run_for(SECOND).unwrap();
    let bytes = delivered_in(&mut pair, Side::Client, SECOND);
    assert!(bytes[0] < 20_000 && bytes[1] < bytes[2] / 10 && bytes[2] > 1_500_000, "{bytes:?}");
    pair.restore(0, Direction::Both);
    pair.run_for(3 * SECOND).unwrap();
    let bytes = delivered_in(&mut pair, Side::Client, SECOND);
    assert!(bytes[0] > 1_000_000 && bytes[1] < 20_000, "{bytes:?}");
    let primary = |event: &Event| if let Event::PrimaryPath(path) = event { Some(*path) } else { None };
    let told = told(&mut pair, Side::Client, primary);
    assert_eq!(told, [PathId(0), PathId(2), PathId(0)]);
}

#[test]
fn the_application_changes_the_primary() {
    let mut pair = connected("primary", &[(10, 10), (10, 10)]);
    start(&mut pair, Side::Client, megabytes(10));
    pair.run_for(SECOND).unwrap();
    pair.peer(Side::Client).unwrap().connection().unwrap().set_primary(Some(PathId(1))).unwrap();
    pair.run_for(SECOND).unwrap();
    let bytes = delivered_in(&mut pair, Side::Client, SECOND);
    assert!(bytes[1] > 1_000_000 && bytes[0] < bytes[1] / 10, "{bytes:?}");
}

#[test]
fn a_costly_path_takes_over_only_after_the_application_was_asked() {
    let mut pair = connected("primary", &[(10, 10), (10, 10)]);
    set_cost(&mut pair, 1);
    start(&mut pair, Side::Client, megabytes(5));
    pair.run_for(SECOND).unwrap();
    pair.cut(0, Direction::Both);
    pair.run_for(SECOND).unwrap();
    let bytes = delivered_in(&mut pair, Side::Client, SECOND);
    assert!(bytes[1] < 20_000, "{bytes:?}");
    let asked = told(&mut pair, Side::Client, costly_needed);
    assert_eq!(asked, [PathId(1)]);
    pair.peer(Side::Client).unwrap().connection().unwrap().allow_costly(PathId(1)).unwrap();
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
}

/// The cost of the primary counts even when it is closed.
#[test]
fn a_costly_path_does_not_take_over_either_when_the_primary_is_gone_for_good() {
    let mut pair = connected("primary", &[(10, 10), (10, 10)]);
    set_cost(&mut pair, 1);
    start(&mut pair, Side::Client, megabytes(5));
    pair.run_for(SECOND).unwrap();
    pair.set_interface(0, LinkState::Down);
    pair.run_for(SECOND).unwrap();
    let bytes = delivered_in(&mut pair, Side::Client, SECOND);
    assert!(bytes[1] < 20_000, "{bytes:?}");
    assert_eq!(told(&mut pair, Side::Client, costly_needed), [PathId(1)]);
}

/// The path about which the application is asked.
fn costly_needed(event: &Event) -> Option<PathId> {
    if let Event::CostlyPathNeeded(path) = event { Some(*path) } else { None }
}

/// A free path, a costly one and a free backup; the client uses `primary`.
fn with_costly_and_backup() -> EndpointPair {
    let mut config = ConnectionConfig::default();
    config.set_scheduler("primary").unwrap();
    let builder = (0..3).fold(PairBuilder::new(), |builder, _| builder.path(mbit(10), 10 * MS));
    let mut pair = endpoint_pair(builder, &config);
    let backup = pair.paths()[2].interface.index;
    pair.peer(Side::Client).unwrap().set_role(backup, Role::Backup);
    pair.connect(SECOND).unwrap();
    pair.run_for(SECOND).unwrap();
    set_cost(&mut pair, 1);
    pair
}

#[test]
fn a_free_backup_takes_over_before_the_application_is_asked_about_a_costly_path() {
    let mut pair = with_costly_and_backup();
    start(&mut pair, Side::Client, megabytes(3));
    pair.run_for(500 * MS).unwrap();
    pair.cut(0, Direction::Both);
    pair.run_for(500 * MS).unwrap();
    let bytes = delivered_in(&mut pair, Side::Client, SECOND);
    assert!(bytes[1] < 20_000 && bytes[2] > 1_000_000, "{bytes:?}");
    assert!(told(&mut pair, Side::Client, costly_needed).is_empty());
}

#[test]
fn urgent_data_waits_for_permission_too() {
    let mut pair = connected("primary", &[(10, 10), (10, 10)]);
    set_cost(&mut pair, 1);
    let stream = pair.peer(Side::Client).unwrap().connection().unwrap().open_stream().unwrap();
    let send = |pair: &mut EndpointPair| {
        let now = pair.now();
        let options = MessageOptions::default().class(Class::Interactive);
        let connection = pair.peer(Side::Client).unwrap().connection().unwrap();
        connection.send_message(now, stream, vec![7; 100].into(), options).unwrap();
    };
    // Nothing else is ever sent, and each outage is a new request.
    for outage in 0..2 {
        send(&mut pair);
        pair.run_for(SECOND).unwrap();
        pair.cut(0, Direction::Both);
        send(&mut pair);
        pair.run_for(3 * SECOND).unwrap();
        assert_eq!(pair.messages(Side::Server).len(), 2 * outage + 1);
        assert_eq!(
            told(&mut pair, Side::Client, costly_needed),
            vec![PathId(1); outage + 1],
            "outage {outage}"
        );
        if outage == 0 {
            pair.restore(0, Direction::Both);
            pair.run_for(10 * SECOND).unwrap();
            assert_eq!(pair.messages(Side::Server).len(), 2);
        }
    }
    pair.peer(Side::Client).unwrap().connection().unwrap().allow_costly(PathId(1)).unwrap();
    pair.run_for(SECOND).unwrap();
    assert_eq!(pair.messages(Side::Server).len(), 4);
}

#[test]
fn a_dearer_path_carries_only_what_the_free_one_cannot() {
    let mut pair = connected("cost", &[(10, 10), (10, 10)]);
    set_cost(&mut pair, 1);
    // 4 Mbit/s in pieces, of which the free path carries each within 200 ms.
    let (host, now) = (pair.host(Side::Client), pair.now());
    let requests = Requests::new(host, ByteCount(200_000), now, 400 * MS, 10);
    pair.start(Side::Client, Box::new(requests));
    let bytes = delivered_in(&mut pair, Side::Client, 4 * SECOND);
    assert!(bytes[0] > 1_800_000 && bytes[1] < 20_000, "{bytes:?}");
    // More than it carries in a second.
    start(&mut pair, Side::Client, megabytes(10));
    let bytes = delivered_in(&mut pair, Side::Client, 2 * SECOND);
    assert!(bytes[0] > 1_800_000 && bytes[1] > 1_000_000, "{bytes:?}");
}

/// Gives the second path of the client a cost.
fn set_cost(pair: &mut EndpointPair, cost: u8) {
    let connection = pair.peer(Side::Client).unwrap().connection().unwrap();
    let local = connection.statistics().paths[1].tuple.local;
    let mut terms = PathTerms::default();
    terms.cost = cost;
    connection.set_terms(local, terms);
}

#[test]
fn streams_keep_to_their_paths_and_return_to_them() {
    let mut pair = connected("stream-bound", &[(10, 10), (10, 10)]);
    let ways = Ways::default();
    pair.peer(Side::Client).unwrap().connection().unwrap().set_observer(Box::new(ways.clone()));
    for _ in 0..4 {
        start(&mut pair, Side::Client, megabytes(8));
    }
    pair.run_for(2 * SECOND).unwrap();
    let homes = ways.take();
    assert_eq!(homes.len(), 4);
    assert!(homes.values().all(|paths| paths.len() == 1), "{homes:?}");
    assert_eq!(homes.values().filter(|paths| paths.contains(&PathId(0))).count(), 2, "{homes:?}");
    pair.cut(0, Direction::Both);
    pair.run_for(SECOND).unwrap();
    ways.take();
    pair.run_for(SECOND).unwrap();
    assert!(ways.take().values().all(|paths| *paths == BTreeSet::from([PathId(1)])));
    pair.restore(0, Direction::Both);
    pair.run_for(3 * SECOND).unwrap();
    ways.take();
    pair.run_for(SECOND).unwrap();
    assert_eq!(ways.take(), homes);
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
}

#[test]
fn an_application_binds_streams_to_a_path_or_an_interface_and_gives_them_free_again() {
    let mut pair = connected("stream-bound", &[(10, 10), (10, 10)]);
    let ways = Ways::default();
    let client = pair.peer(Side::Client).unwrap().connection().unwrap();
    client.set_observer(Box::new(ways.clone()));
    let interface = client.statistics().paths[1].tuple.local.interface;
    for _ in 0..4 {
        start(&mut pair, Side::Client, megabytes(8));
    }
    pair.run_for(SECOND).unwrap();
    let homes = ways.take();
    let bound = |pair: &mut EndpointPair, place: Option<Binding>| {
        let client = pair.peer(Side::Client).unwrap().connection().unwrap();
        homes.keys().for_each(|stream| client.bind_stream(*stream, place).unwrap());
        pair.run_for(SECOND).unwrap();
        ways.take();
        pair.run_for(SECOND).unwrap();
        ways.take().into_values().flatten().map(|path| path.0).collect::<BTreeSet<u32>>()
    };
    assert_eq!(bound(&mut pair, Some(Binding::Interface(interface))), BTreeSet::from([1]));
    assert_eq!(bound(&mut pair, Some(Binding::Path(PathId(0)))), BTreeSet::from([0]));
    pair.cut(0, Direction::Both);
    assert_eq!(bound(&mut pair, Some(Binding::Path(PathId(0)))), BTreeSet::from([1]));
    pair.restore(0, Direction::Both);
    pair.run_for(2 * SECOND).unwrap();
    assert_eq!(bound(&mut pair, None), BTreeSet::from([0, 1]));
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
}

#[test]
fn a_stream_is_bound_only_to_what_exists_and_by_a_scheduler_that_binds() {
    for (scheduler, binds) in [("stream-bound", true), ("round-robin", false)] {
        let mut pair = connected(scheduler, &[(10, 10)]);
        let client = pair.peer(Side::Client).unwrap().connection().unwrap();
        let stream = client.open_stream().unwrap();
        let path = PathId(9);
        assert_eq!(client.bind_stream(stream, Some(Binding::Path(path))), Err(Misuse::UnknownPath { path }));
        let other = StreamId(stream.0 + 400);
        assert_eq!(client.bind_stream(other, None), Err(Misuse::UnknownStream { stream: other }));
        let expected = if binds { Ok(()) } else { Err(Misuse::SchedulerBindsNoStreams) };
        assert_eq!(client.bind_stream(stream, Some(Binding::Path(PathId(0)))), expected);
        assert_eq!(client.bind_stream(stream, Some(Binding::Interface(4711))), expected);
    }
}

/// The paths of each stream.
#[derive(Debug, Clone, Default)]
struct Ways(Arc<Mutex<BTreeMap<StreamId, BTreeSet<PathId>>>>);

impl Ways {
    fn take(&self) -> BTreeMap<StreamId, BTreeSet<PathId>> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Ways {
    fn on_fact(&mut self, _now: Instant, _fact: &Fact) {}

    fn on_packet(&mut self, _now: Instant, packet: &ObservedPacket<'_>) {
        if packet.direction != Way::Sent {
            return;
        }
        for block in packet.blocks().flatten() {
            if let Block::Stream(block) = block {
                self.0.lock().unwrap().entry(block.stream).or_default().insert(packet.path);
            }
        }
    }
}

#[test]
fn redundant_has_the_latency_of_the_fastest_path_and_survives_its_loss() {
    let latencies = |scheduler: &str, cut: bool| {
        let mut pair = connected(scheduler, &[(10, 10), (10, 40)]);
        let ways = Ways::default();
        pair.peer(Side::Client).unwrap().connection().unwrap().set_observer(Box::new(ways.clone()));
        let (host, now) = (pair.host(Side::Client), pair.now());
        pair.start(Side::Client, Box::new(Requests::new(host, ByteCount(100), now, 50 * MS, 40)));
        pair.run_for(SECOND).unwrap();
        if cut {
            pair.cut(0, Direction::Both);
        }
        pair.run_until(MINUTE, "answered", |pair| pair.is_quiet()).unwrap();
        (pair.received(Side::Server).longest_silence(), ways.take())
    };
    let (silence, ways) = latencies("redundant", false);
    assert!(silence < 55 * MS, "{silence:?}");
    assert!(ways.values().all(|paths| paths.len() == 2), "{ways:?}");
    // The next message arrives over the other path: its interval, and the difference of the delays.
    let (silence, _) = latencies("redundant", true);
    assert!(silence < 85 * MS, "{silence:?}");
    let (silence, _) = latencies("min-rtt", true);
    assert!(silence > 100 * MS, "{silence:?}");
}

#[test]
fn a_connection_reports_the_schedulers_purpose_of_each_path() {
    let purposes = |pair: &mut EndpointPair| -> Vec<Purpose> {
        pair.run_for(SECOND).unwrap();
        let now = pair.now();
        let told = pair.peer(Side::Client).unwrap().connection().unwrap().purposes(now);
        told.into_iter().map(|(_, purpose)| purpose).collect()
    };
    let mut pair = connected("primary", &[(10, 10), (10, 10)]);
    start(&mut pair, Side::Client, megabytes(8));
    assert_eq!(purposes(&mut pair), [Purpose::Primary, Purpose::Retransmissions]);
    pair.cut(0, Direction::Both);
    assert_eq!(purposes(&mut pair), [Purpose::Fallback]);

    let mut pair = connected("cost", &[(10, 10), (10, 5)]);
    set_cost(&mut pair, 1);
    start(&mut pair, Side::Client, megabytes(8));
    assert_eq!(purposes(&mut pair), [Purpose::LowestRtt, Purpose::MoreCostly]);
    pair.cut(0, Direction::Both);
    assert_eq!(purposes(&mut pair), [Purpose::MoreCostly]);

    let mut pair = connected("stream-bound", &[(10, 10), (20, 10)]);
    start(&mut pair, Side::Client, megabytes(8));
    assert_eq!(purposes(&mut pair), [Purpose::Streams, Purpose::Unbound]);
    pair.cut(0, Direction::Both);
    assert_eq!(purposes(&mut pair), [Purpose::OrphanedStreams]);
}

#[test]
fn each_end_knows_whether_it_sends_data_itself() {
    let mut pair = connected("round-robin", &[(10, 10), (10, 10)]);
    start(&mut pair, Side::Client, megabytes(4));
    pair.run_for(SECOND).unwrap();
    let mut of =
        |side| path_figures(&mut pair, side).into_iter().map(|path| (path.data_at, path.data_sent_at));
    assert!(of(Side::Client).all(|(any, sent)| any.is_some() && any == sent));
    assert!(of(Side::Server).all(|(any, sent)| any.is_some() && sent.is_none()));
}

/// The events of one kind at the application of an end.
fn told<T>(pair: &mut EndpointPair, side: Side, pick: impl Fn(&Event) -> Option<T>) -> Vec<T> {
    pair.peer(side).unwrap().events().iter().filter_map(|(_, event)| pick(event)).collect()
}

/// Schedulers with settings, beside the plain names.
const WITH_SETTINGS: [&str; 5] =
    ["weighted=4:1", "weighted=fixed", "primary=rank", "redundant=late", "cost=100ms"];
