//! Streams over whole connections: credit, slow readers, growing windows, resets.

use std::time::Duration;

use manyway_proto::observe::{Fact, Observer};
use manyway_proto::{ByteCount, ConnectionConfig, Event, Instant, StreamId};
use manyway_sim::link::{Jitter, LinkConfig, LossModel, Order, Probability};
use manyway_sim::nightly::{few_or_many, for_each_seed, rotating_seeds};
use manyway_sim::scenario::{
    MINUTE, MS, SECOND, connected, connected_with, mbit, megabytes, path_figures, percent,
};
use manyway_sim::traffic::{Application, Exchange, Read, Requests, Streams};
use manyway_sim::{EndpointPair, PairBuilder, Pattern, Side};

fn two_paths() -> PairBuilder {
    PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(10), 30 * MS)
}

#[test]
fn the_smallest_windows_delay_but_never_stop() {
    let mut config = ConnectionConfig::default();
    config.streams.stream_receive_window = 16 << 10;
    config.streams.connection_receive_window = 16 << 10;
    config.streams.max_window = 16 << 10;
    config.streams.send_buffer = 16 << 10;
    for from in [Side::Client, Side::Server] {
        let mut pair = connected_with(two_paths(), &config).unwrap();
        let report = pair.transfer(from, megabytes(2), MINUTE).unwrap();
        // A window each round trip, at best: 16 KiB in 20 ms.
        assert!(report.goodput > mbit(2), "{}", report.goodput);
    }
}

// The credit of one stream, or the bytes that are in flight on the short path, are less than what that path delivers before
// anything on the long one would arrive.
#[test]
fn streams_that_begin_with_small_windows_use_a_long_path_beside_a_short_one() {
    let mut config = ConnectionConfig::default();
    config.streams.stream_receive_window = 76 << 10;
    config.streams.send_buffer = 76 << 10;
    for from in [Side::Client, Side::Server] {
        for count in [1, 2, 4, 16] {
            let builder = PairBuilder::new().path(mbit(50), 5 * MS).path(mbit(50), 50 * MS);
            let mut pair = connected_with(builder, &config).unwrap();
            for _ in 0..count {
                pair.start(from, Box::new(Exchange::new(pair.host(from), megabytes(100))));
            }
            pair.run_for(SECOND).unwrap();
            let before = pair.delivered(from);
            pair.run_for(2 * SECOND).unwrap();
            let rates = pair.delivered(from).into_iter().zip(before);
            let rates: Vec<_> = rates.map(|(after, before)| (after - before).per(2 * SECOND)).collect();
            assert!(rates.iter().all(|rate| *rate > mbit(45)), "{count} streams of {from:?}: {rates:?}");
        }
    }
}

#[test]
fn a_small_connection_carries_13_mbit_over_a_round_trip_of_20_ms() {
    for from in [Side::Client, Side::Server] {
        let builder = PairBuilder::new().path(mbit(50), 10 * MS);
        let mut pair = connected_with(builder, &ConnectionConfig::small()).unwrap();
        let report = pair.transfer(from, megabytes(10), MINUTE).unwrap();
        assert!(report.goodput > mbit(13), "{from:?} {}", report.goodput);
    }
}

#[test]
fn small_connections_use_both_paths_as_far_as_their_windows_allow() {
    let config = ConnectionConfig::small();
    for from in [Side::Client, Side::Server] {
        let builder = PairBuilder::new().path(mbit(8), 10 * MS).path(mbit(8), 10 * MS);
        let mut pair = connected_with(builder, &config).unwrap();
        let report = pair.transfer(from, megabytes(5), MINUTE).unwrap();
        // 40 kB would fill both paths, and 48 KiB are granted piece by piece: more than one path, less than two.
        assert!(report.goodput > mbit(9), "{from:?} {}", report.goodput);
    }
}

#[test]
fn many_streams_share_and_all_end() {
    let mut pair = connected(two_paths().answer(ByteCount(20_000))).unwrap();
    for from in [Side::Client, Side::Server] {
        let (host, now) = (pair.host(from), pair.now());
        pair.start(from, Box::new(Requests::new(host, ByteCount(30_000), now, MS, few_or_many(150, 600))));
    }
    pair.run_until(MINUTE, "answered", |pair| pair.is_quiet()).unwrap();
}

/// What each stream of this writer brought so far.
fn read_of_each(pair: &EndpointPair, from: Side) -> Vec<u64> {
    let host = pair.host(from);
    let halves = pair.reference().halves().filter(|(writer, _, half)| *writer == host && half.read > 0);
    halves.map(|(_, _, half)| half.read).collect()
}

#[test]
fn streams_that_are_full_share_the_paths_equally_while_all_of_them_run() {
    for from in [Side::Client, Side::Server] {
        let mut pair = connected(two_paths()).unwrap();
        for _ in 0..2 {
            for _ in 0..4 {
                pair.start(from, Box::new(Exchange::new(pair.host(from), megabytes(100))));
            }
            // The others come later.
            pair.run_for(2 * SECOND).unwrap();
        }
        let before = read_of_each(&pair, from);
        pair.run_for(5 * SECOND).unwrap();
        let brought: Vec<_> =
            read_of_each(&pair, from).iter().zip(before).map(|(after, before)| after - before).collect();
        let mean = brought.iter().sum::<u64>() / 8;
        assert!(brought.len() == 8 && mean > 1_500_000, "{from:?} {brought:?}");
        assert!(brought.iter().all(|bytes| bytes * 10 > mean * 8), "{from:?} {brought:?}");
    }
}

/// Requests the service's answer and reads it only in every other second.
#[derive(Debug)]
struct Dawdler {
    stream: Option<StreamId>,
    start: Instant,
    wakes_at: Instant,
    ended: bool,
}

impl Application for Dawdler {
    fn act(&mut self, now: Instant, streams: &mut dyn Streams) {
        if self.stream.is_none() {
            self.stream = streams.open();
            self.stream.iter().for_each(|stream| streams.finish(*stream));
        }
        let Some(stream) = self.stream else { return };
        let reads = (now - self.start).as_secs() % 2 == 1;
        while reads && !self.ended {
            match streams.read(stream, 100_000) {
                Read::Data(_) => {}
                Read::Blocked => break,
                Read::End | Read::Reset(_) => self.ended = true,
            }
        }
        if self.wakes_at <= now {
            self.wakes_at = now + 100 * MS;
        }
    }

    fn wakes_at(&self) -> Option<Instant> {
        Some(self.wakes_at)
    }

    fn is_done(&self) -> bool {
        self.ended
    }
}

#[test]
fn a_paused_reader_blocks_the_writer_at_its_window_and_resumes_later() {
    let mut pair = connected(two_paths().answer(megabytes(12))).unwrap();
    let now = pair.now();
    let dawdler = Dawdler { stream: None, start: now, wakes_at: now, ended: false };
    pair.start(Side::Client, Box::new(dawdler));
    pair.run_for(SECOND - MS).unwrap();
    let arrived: u64 = pair.delivered(Side::Server).into_iter().map(ByteCount::get).sum();
    assert!((1_000_000..1_200_000).contains(&arrived), "{arrived} came before anything was read");
    pair.run_until(MINUTE, "read", |pair| pair.is_quiet()).unwrap();
    assert_eq!(pair.received(Side::Client).total(), megabytes(12));
    assert!(pair.now() - now < 12 * SECOND, "{:?}", pair.now() - now);
}

#[test]
fn windows_grow_until_a_long_fat_path_is_full() {
    for from in [Side::Client, Side::Server] {
        let mut pair = connected(PairBuilder::new().path(mbit(100), 50 * MS)).unwrap();
        let report = pair.transfer(from, megabytes(120), MINUTE).unwrap();
        assert!(percent(report.goodput, mbit(100)) >= 85, "{from:?} {}", report.goodput);
        let start = report.received.span().unwrap().0;
        let late = report.received.rate(start + 4 * SECOND, start + 8 * SECOND);
        assert!(percent(late, mbit(100)) >= 93, "{from:?} {late}");
    }
}

#[test]
fn resets_and_stops_reach_the_other_end_and_disturb_no_other_stream() {
    let mut pair = connected(two_paths()).unwrap();
    let (client, server) = (pair.host(Side::Client), pair.host(Side::Server));
    pair.start(Side::Client, Box::new(Exchange::new(client, megabytes(3))));
    pair.run_for(100 * MS).unwrap();
    for round in 0..20 {
        let connection = pair.peer(Side::Client).unwrap().connection().unwrap();
        let stream = connection.open_stream().unwrap();
        let data = Pattern::new(client, stream).bytes(0, 100_000);
        let length = connection.write(stream, data).unwrap();
        pair.reference_mut().on_write(client, stream, length);
        pair.run_for(20 * MS).unwrap();
        let connection = pair.peer(Side::Client).unwrap().connection().unwrap();
        connection.reset(stream, round).unwrap();
        connection.stop(stream, round).unwrap();
        pair.reference_mut().on_reset(client, stream);
        pair.reference_mut().on_stop(server, stream);
    }
    pair.run_for(5 * SECOND).unwrap();
    assert_eq!(pair.ended(), None);
    let main = pair.reference().halves().find(|(writer, stream, _)| *writer == client && stream.0 == 0);
    assert!(main.is_some() && pair.received(Side::Server).total() >= megabytes(3));
    let stopped = pair.peer(Side::Server).unwrap().events().iter();
    assert!(stopped.filter(|(_, event)| matches!(event, Event::StreamStopped { .. })).count() >= 15);
}

#[test]
fn both_directions_at_once_fill_both_links_nearly() {
    let mut pair = connected(PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 10 * MS)).unwrap();
    for from in [Side::Client, Side::Server] {
        let host = pair.host(from);
        pair.start(from, Box::new(Exchange::new(host, megabytes(20))));
    }
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
    for to in [Side::Client, Side::Server] {
        let goodput = pair.received(to).goodput();
        // In one direction alone it is 94; acknowledgements take half a percent of the other direction.
        assert!(percent(goodput, mbit(40)) >= 90, "{to:?} {goodput}");
    }
}

#[test]
fn small_requests_beside_bulk_are_answered_soon() {
    let mut pair = connected(two_paths().answer(ByteCount(1000))).unwrap();
    let (host, now) = (pair.host(Side::Client), pair.now());
    pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(10))));
    pair.start(Side::Client, Box::new(Requests::new(host, ByteCount(500), now, 50 * MS, 40)));
    pair.run_until(MINUTE, "answered", |pair| pair.is_quiet()).unwrap();
}

#[test]
fn every_byte_arrives_once_over_links_that_do_everything_wrong() {
    let link = |delay: Duration| {
        LinkConfig::new(mbit(10), delay)
            .with_jitter(Jitter::Normal(5 * MS), Order::Free)
            .with_loss(LossModel::bursts(Probability::from_percent(1.0), 4))
            .with_corruption(Probability::from_percent(0.5))
            .with_duplication(Probability::from_percent(1.0))
    };
    for_each_seed(rotating_seeds(12, 100), |seed| {
        let builder = PairBuilder::new()
            .seed(seed)
            .path_with(link(10 * MS), link(10 * MS))
            .path_with(link(40 * MS), link(40 * MS));
        let mut pair = connected(builder).unwrap();
        for from in [Side::Client, Side::Server] {
            let report = pair.transfer(from, megabytes(1), MINUTE);
            assert!(report.is_ok(), "{from:?} {report:?}");
        }
    });
}

#[test]
fn one_percent_of_loss_costs_retransmissions_and_no_more() {
    let lossy =
        LinkConfig::new(mbit(20), 10 * MS).with_loss(LossModel::Random(Probability::from_percent(1.0)));
    let mut pair = connected(PairBuilder::new().path_with(lossy.clone(), lossy)).unwrap();
    let report = pair.transfer(Side::Client, megabytes(10), MINUTE).unwrap();
    let path = path_figures(&mut pair, Side::Client)[0];
    let share = path.packets_lost * 1000 / path.packets_sent;
    assert!((5..20).contains(&share), "{share} of 1000 repeated, {}", report.goodput);
    assert!(report.goodput > mbit(5), "{}", report.goodput);
}

/// Takes note of nothing.
#[derive(Debug)]
struct Onlooker;

impl Observer for Onlooker {
    fn on_fact(&mut self, _now: Instant, _fact: &Fact) {}
}

// Without an observer packets of bulk data are built in rows, with one each alone.
#[test]
fn an_observed_connection_sends_the_same_packets() {
    for_each_seed(0..few_or_many(3, 30), |seed| {
        let run = |is_observed: bool| {
            let link = LinkConfig::new(mbit(30), 10 * MS)
                .with_loss(LossModel::Random(Probability::from_percent(0.5)));
            let builder = two_paths().seed(seed).path_with(link.clone(), link).answer(ByteCount(20_000));
            let mut pair = connected(builder).unwrap();
            for side in [Side::Client, Side::Server].into_iter().filter(|_| is_observed) {
                pair.peer(side).unwrap().connection().unwrap().set_observer(Box::new(Onlooker));
            }
            let (host, now) = (pair.host(Side::Server), pair.now());
            pair.start(Side::Server, Box::new(Requests::new(host, ByteCount(30_000), now, 20 * MS, 20)));
            pair.transfer(Side::Client, megabytes(3), MINUTE).unwrap();
            pair.world().record().digest()
        };
        assert_eq!(run(false), run(true));
    });
}
