//! BBR on links of every kind: how well it fills them, how long the queue gets, how fast it follows.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;
use std::time::Duration;

use manyway_proto::{ByteCount, ConnectionConfig, Rate};
use manyway_sim::link::{
    DelayModel, DeliveryTrace, Jitter, LinkConfig, LossModel, Order, Probability, RateModel,
};
use manyway_sim::nightly::few_or_many;
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{MINUTE, MS, SECOND, connected_with, mbit, megabytes, path_figures, percent};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Rival, Side};

fn config(congestion: &str) -> ConnectionConfig {
    let mut config = ConnectionConfig::default();
    config.set_congestion(congestion).unwrap();
    config
}

/// A link of this rate in Mbit/s and round-trip time, with a queue of 100 ms.
fn link(megabits: u64, round_trip: Duration) -> LinkConfig {
    LinkConfig::new(mbit(megabits), round_trip / 2)
}

fn lossy(link: LinkConfig, percent: f64) -> LinkConfig {
    link.with_loss(LossModel::Random(Probability::from_percent(percent)))
}

/// A client that sends without end over links up; the return direction is as fast and faultless.
fn bulk(links: &[LinkConfig]) -> EndpointPair {
    bulk_with(links, "bbr", 1)
}

fn bulk_with(links: &[LinkConfig], congestion: &str, seed: u64) -> EndpointPair {
    let builder = links.iter().fold(PairBuilder::new().seed(seed), |builder, link| {
        let back = link.clone().with_loss(LossModel::None);
        builder.path_with(link.clone(), back)
    });
    let mut pair = connected_with(builder, &config(congestion)).unwrap();
    let client = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(client, megabytes(1_000_000))));
    pair
}

/// The figures of a span of time.
#[derive(Debug)]
struct Stretch {
    goodput: Rate,
    /// Mean queueing delay of the first path.
    queue: Duration,
}

/// Runs for a time and measures; the queue is sampled every millisecond.
fn watch(pair: &mut EndpointPair, time: Duration) -> Stretch {
    let before = pair.received(Side::Server).total();
    let up = pair.paths().first().unwrap().up;
    let mut queue = Duration::ZERO;
    let millis = u32::try_from(time.as_millis()).unwrap();
    for _ in 0..millis {
        pair.run_for(MS).unwrap();
        let link = pair.world().network().link(up).unwrap();
        queue += link.waiting() / link.config().rate.nominal();
    }
    let bytes = pair.received(Side::Server).total() - before;
    Stretch { goodput: bytes.per(time), queue: queue / millis }
}

/// Payload share, in percent, of the capacity of links of this rate in Mbit/s: 1440 bytes of each 1500.
fn share(goodput: Rate, megabits: u64) -> u64 {
    percent(goodput, mbit(megabits).scaled(1440, 1500))
}

/// Goodput from the third second to the thirteenth.
fn steady(links: &[LinkConfig], megabits: u64) -> (u64, Stretch) {
    let mut pair = bulk(links);
    pair.run_for(3 * SECOND).unwrap();
    let stretch = watch(&mut pair, 10 * SECOND);
    (share(stretch.goodput, megabits), stretch)
}

#[test]
fn two_paths_with_one_percent_loss_give_their_sum() {
    let path = lossy(link(50, 20 * MS), 1.0);
    for seed in 1..few_or_many(2, 4) {
        let mut pair = bulk_with(&[path.clone(), path.clone()], "bbr", seed);
        let share = share(watch(&mut pair, 10 * SECOND).goodput, 100);
        assert!(share >= 95, "seed {seed}: {share}");
    }
}

#[test]
fn a_path_with_two_percent_loss_is_filled() {
    for seed in 1..few_or_many(2, 4) {
        let mut pair = bulk_with(&[lossy(link(50, 20 * MS), 2.0)], "bbr", seed);
        let share = share(watch(&mut pair, 10 * SECOND).goodput, 50);
        assert!(share >= 93, "seed {seed}: {share}");
    }
}

#[test]
fn a_deep_buffer_is_not_filled() {
    let deep = link(50, 20 * MS).with_queue_time(500 * MS);
    let (share, stretch) = steady(&[deep], 50);
    assert!(share >= 95, "{share} {stretch:?}");
    assert!(stretch.queue < 10 * MS, "{stretch:?}");
}

#[test]
fn slow_and_fast_links_short_and_long_ones_are_filled() {
    let cases = [
        (1, 20 * MS, 95),
        (50, MS, 93),
        (50, 320 * MS, 90),
        (1000, MS, 90),
        (1, 320 * MS, 93),
        (1000, 10 * MS, 93),
    ];
    // Gigabits take longest to compute.
    for (megabits, round_trip, least) in cases.into_iter().take(few_or_many(5, 6)) {
        let mut pair = bulk(&[link(megabits, round_trip)]);
        let (warm_up, time) = if megabits >= 1000 { few_or_many((1, 1), (2, 2)) } else { (5, 10) };
        pair.run_for(warm_up * SECOND).unwrap();
        let stretch = watch(&mut pair, time * SECOND);
        let share = share(stretch.goodput, megabits);
        assert!(share >= least, "{megabits} Mbit/s, {round_trip:?}: {share} {stretch:?}");
        let packets = mbit(megabits) * stretch.queue / 1500;
        assert!(
            stretch.queue < round_trip || packets < ByteCount(12),
            "{megabits} {round_trip:?}: {stretch:?}"
        );
    }
}

#[test]
fn jitter_neither_slows_it_down_nor_fills_the_queue() {
    let jitter = Jitter::Uniform(10 * MS);
    let jittery = link(50, 40 * MS).with_jitter(jitter, Order::Kept);
    let (share, stretch) = steady(&[jittery], 50);
    assert!(share >= 93, "{share} {stretch:?}");
    // The round trip is 55 ms on average: a late packet blocks those after it.
    assert!(stretch.queue < 60 * MS, "{stretch:?}");
}

#[test]
fn randomly_varying_round_trips_do_not_end_startup() {
    // In these seeds all round trips of a round were by chance longer than those before, or one that was far too short
    // kept the path from being used.
    let jitter = Jitter::Normal(Duration::from_micros(8485));
    let jittery = link(50, 24 * MS).with_jitter(jitter, Order::Kept);
    for seed in [1, 8, 11, 14, 20] {
        let builder = PairBuilder::new().seed(seed).path_with(jittery.clone(), jittery.clone());
        let builder = builder.path_with(jittery.clone(), jittery.clone());
        let mut pair = connected_with(builder, &config("bbr")).unwrap();
        let client = pair.host(Side::Client);
        pair.start(Side::Client, Box::new(Exchange::new(client, megabytes(1_000_000))));
        pair.run_for(2 * SECOND).unwrap();
        let before = pair.received(Side::Server).total();
        pair.run_for(SECOND).unwrap();
        let share = share((pair.received(Side::Server).total() - before).per(SECOND), 100);
        assert!(share >= 88, "seed {seed}: {share}");
    }
}

#[test]
fn reordering_costs_little() {
    let jitter = Jitter::Uniform(5 * MS);
    let reordering = link(50, 40 * MS).with_jitter(jitter, Order::Free);
    let (share, stretch) = steady(&[reordering], 50);
    assert!(share >= 85, "{share} {stretch:?}");
}

#[test]
fn losses_in_bursts_cost_little() {
    let bursts = LossModel::bursts(Probability::from_percent(1.0), 8);
    let (share, stretch) = steady(&[link(50, 20 * MS).with_loss(bursts)], 50);
    assert!(share >= 92, "{share} {stretch:?}");
}

#[test]
fn a_short_queue_is_no_obstacle() {
    // A quarter of the product of rate and round trip.
    let (share, stretch) = steady(&[link(50, 40 * MS).with_queue_time(10 * MS)], 50);
    assert!(share >= 90, "{share} {stretch:?}");
}

/// A cell whose rate varies between 5 and 45 Mbit/s within 4 s, with the pauses of a radio link.
fn cell() -> DeliveryTrace {
    let mut moments = Vec::new();
    for milli in 0..4000_u64 {
        let phase = milli % 2000;
        let megabits = if phase < 1000 { 5 + phase / 25 } else { 5 + (2000 - phase) / 25 };
        // Grants of a scheduler: everything of 5 ms at once.
        if milli % 5 == 0 {
            let packets = megabits * 5 * 1_000 / 8 / 1504;
            moments.extend((0..packets.max(1)).map(|_| Duration::from_millis(milli)));
        }
    }
    DeliveryTrace::new(moments, 4 * SECOND, DeliveryTrace::MAHIMAHI_BYTES).unwrap()
}

#[test]
fn a_cell_of_varying_rate_is_used_well() {
    let trace = Arc::new(cell());
    let mean = trace.mean_rate();
    let cell = LinkConfig::default()
        .with_delay(DelayModel::constant(20 * MS))
        .with_rate(RateModel::Trace(trace))
        .with_queue_time(300 * MS);
    let mut pair = bulk(&[cell]);
    pair.run_for(4 * SECOND).unwrap();
    let stretch = watch(&mut pair, 12 * SECOND);
    let share = percent(stretch.goodput, mean.scaled(1440, 1500));
    assert!(share >= 80, "{share} {stretch:?}");
}

#[test]
fn it_follows_a_rate_that_falls_to_a_quarter_and_rises_again() {
    let mut pair = bulk(&[link(40, 20 * MS).with_queue_time(200 * MS)]);
    pair.run_for(5 * SECOND).unwrap();
    pair.set_rate(0, Direction::Both, mbit(10));
    pair.run_for(5 * SECOND).unwrap();
    let low = watch(&mut pair, 2 * SECOND);
    assert!(share(low.goodput, 10) >= 95 && low.queue < 40 * MS, "{low:?}");
    pair.set_rate(0, Direction::Both, mbit(40));
    pair.run_for(4 * SECOND).unwrap();
    let high = watch(&mut pair, 2 * SECOND);
    assert!(share(high.goodput, 40) >= 93, "{high:?}");
}

#[test]
fn a_rate_that_rises_tenfold_is_found_by_doubling() {
    let mut pair = bulk(&[link(5, 20 * MS)]);
    pair.run_for(5 * SECOND).unwrap();
    pair.set_rate(0, Direction::Both, mbit(50));
    // The next search begins within 3 s; a quarter more in each would take ten of them.
    pair.run_for(5 * SECOND).unwrap();
    let high = watch(&mut pair, SECOND);
    assert!(share(high.goodput, 50) >= 93, "{high:?}");
}

#[test]
fn the_estimate_survives_a_time_of_little_data() {
    let mut pair = connected_with(PairBuilder::new().path(mbit(50), 20 * MS), &config("bbr")).unwrap();
    pair.transfer(Side::Client, megabytes(20), MINUTE).unwrap();
    let window = path_figures(&mut pair, Side::Client)[0].window;
    // 20 kB every 100 ms: 1.6 Mbit/s.
    for _ in 0..100 {
        pair.transfer(Side::Client, ByteCount(20_000), MINUTE).unwrap();
        pair.run_for(100 * MS).unwrap();
    }
    let after = path_figures(&mut pair, Side::Client)[0].window;
    assert!(after * 5 >= window * 4, "{window} {after}");
    let report = pair.transfer(Side::Client, megabytes(5), MINUTE).unwrap();
    assert!(share(report.goodput, 50) >= 90, "{report:?}");
}

#[test]
fn the_first_flights_double_in_each_round_trip() {
    // It holds 417 packets.
    let mut pair = bulk(&[link(50, 100 * MS)]);
    let total = |pair: &EndpointPair| pair.received(Side::Server).total();
    while total(&pair) == ByteCount::ZERO {
        pair.run_for(MS).unwrap();
    }
    let flights: Vec<_> = (0..6)
        .map(|_| {
            let before = total(&pair);
            pair.run_for(100 * MS).unwrap();
            (total(&pair) - before).get()
        })
        .collect();
    assert!((10_000..16_000).contains(&flights[0]), "{flights:?}");
    assert!(flights.windows(2).take(4).all(|pair| pair[1] * 10 >= pair[0] * 17), "{flights:?}");
}

#[test]
fn a_rarely_needed_path_keeps_its_estimate() {
    // The far path carries the overflow of the near one, in turns of 2 s.
    let (near, far) = (link(50, 10 * MS), link(50, 60 * MS));
    let builder = PairBuilder::new().path_with(near.clone(), near).path_with(far.clone(), far);
    let mut pair = connected_with(builder, &config("bbr")).unwrap();
    for _ in 0..3 {
        pair.transfer(Side::Client, megabytes(20), MINUTE).unwrap();
        pair.run_for(2 * SECOND).unwrap();
    }
    let report = pair.transfer(Side::Client, megabytes(40), MINUTE).unwrap();
    assert!(share(report.goodput, 100) >= 90, "{:?}", report.goodput);
}

// spec 9.36
#[test]
fn the_paths_of_a_connection_probe_bandwidth_in_turns() {
    for rtt in few_or_many(vec![20], vec![10, 20, 30]) {
        let mut pair = bulk(&[link(50, rtt * MS), link(50, rtt * MS)]);
        pair.run_for(3 * SECOND).unwrap();
        let links: Vec<_> = pair.paths().iter().map(|path| path.up).collect();
        let (mut searches, mut at_once) = ([0, 0], 0);
        for _ in 0..few_or_many(1500, 3000) {
            pair.run_for(10 * MS).unwrap();
            let searching: Vec<_> = links
                .iter()
                .map(|link| {
                    let link = pair.world().network().link(*link).unwrap();
                    // Nothing else makes a queue here.
                    link.waiting() / link.config().rate.nominal() > 2 * MS
                })
                .collect();
            for (count, is_searching) in searches.iter_mut().zip(&searching) {
                *count += usize::from(*is_searching);
            }
            at_once += usize::from(searching.iter().all(|is_searching| *is_searching));
        }
        // By chance a fifth of the one path's probes would coincide with one of the other.
        let least = searches.into_iter().min().unwrap();
        assert!(
            least > few_or_many(150, 300) && at_once * 10 < least,
            "{rtt} ms: {searches:?}, {at_once} at once"
        );
    }
}

/// Goodput in each direction from the first second to the eighth, where both ends of one connection send all the time,
/// and the mean queueing delay of each path, both directions together.
fn both_ways(links: &[LinkConfig]) -> ([Rate; 2], Vec<Duration>) {
    let builder =
        links.iter().fold(PairBuilder::new(), |builder, link| builder.path_with(link.clone(), link.clone()));
    let mut pair = connected_with(builder, &config("bbr")).unwrap();
    for side in [Side::Client, Side::Server] {
        let host = pair.host(side);
        pair.start(side, Box::new(Exchange::new(host, megabytes(1_000_000))));
    }
    let arrived = |pair: &EndpointPair| [Side::Server, Side::Client].map(|side| pair.received(side).total());
    pair.run_for(SECOND).unwrap();
    let before = arrived(&pair);
    let mut waits = vec![Duration::ZERO; links.len()];
    for _ in 0..7_000 {
        pair.run_for(MS).unwrap();
        for (wait, path) in waits.iter_mut().zip(pair.paths()) {
            for link in [path.up, path.down].map(|link| pair.world().network().link(link).unwrap()) {
                *wait += link.waiting() / link.config().rate.nominal() / 7_000;
            }
        }
    }
    let after = arrived(&pair);
    let goodputs = [after[0] - before[0], after[1] - before[1]].map(|bytes| bytes.per(7 * SECOND));
    (goodputs, waits)
}

#[test]
fn both_directions_at_once_are_as_fast_as_one_over_paths_of_any_length() {
    let cases = [(50, [10, 100]), (10, [2, 2]), (10, [2, 100]), (50, [20, 70])];
    for (megabits, round_trips) in cases.into_iter().take(few_or_many(1, 4)) {
        let round_trips = round_trips.map(|millis| millis * MS);
        let (goodputs, waits) = both_ways(&round_trips.map(|round_trip| link(megabits, round_trip)));
        for goodput in goodputs {
            let share = share(goodput, 2 * megabits);
            assert!(share >= 94, "{megabits} {round_trips:?}: {share}");
        }
        for (wait, round_trip) in waits.into_iter().zip(round_trips) {
            // 22 packets of the slower link need 26 ms.
            assert!(
                wait < round_trip / 2 + 26 * MS,
                "{megabits} {round_trips:?}: {wait:?} of {round_trip:?}"
            );
        }
    }
}

#[test]
fn a_path_is_filled_while_other_traffic_fills_the_return_direction() {
    let (fast, slow) = (link(50, 10 * MS), link(5, 10 * MS));
    let mut pair = connected_with(PairBuilder::new().path_with(fast, slow), &config("bbr")).unwrap();
    let client = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(client, megabytes(1_000_000))));
    let links = *pair.paths().first().unwrap();
    let mut rival = Rival::join(&mut pair, 9, &config("cubic"), &[links.down], &[links.up]).unwrap();
    let mut before = ByteCount::ZERO;
    for milli in 0..12_000 {
        pair.run_for(MS).unwrap();
        rival.act(&mut pair);
        if milli == 2000 {
            before = pair.received(Side::Server).total();
        }
    }
    let share = share((pair.received(Side::Server).total() - before).per(10 * SECOND), 50);
    assert!(share >= 90, "{share}");
}

#[test]
fn startup_is_not_ended_by_a_queue_in_the_return_direction() {
    let (fast, slow) = (link(50, 10 * MS), link(5, 10 * MS));
    let mut pair = connected_with(PairBuilder::new().path_with(fast, slow), &config("bbr")).unwrap();
    // The round-trip time is known when the queue begins to grow.
    pair.transfer(Side::Client, ByteCount(60_000), MINUTE).unwrap();
    let links = *pair.paths().first().unwrap();
    let mut rival = Rival::join(&mut pair, 9, &config("cubic"), &[links.down], &[links.up]).unwrap();
    let mut second = |pair: &mut EndpointPair| {
        let before = pair.received(Side::Server).total();
        for _ in 0..1_000 {
            pair.run_for(MS).unwrap();
            rival.act(pair);
        }
        share((pair.received(Side::Server).total() - before).per(SECOND), 50)
    };
    second(&mut pair);
    let client = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(client, megabytes(1_000_000))));
    let shares = [second(&mut pair), second(&mut pair)];
    assert!(shares[0] >= 60 && shares[1] >= 93, "{shares:?}");
}

/// Goodputs of a bbr flow and of one that starts 3 s later, from 10 s to 40 s.
fn rivalry(congestion: &str, link: LinkConfig) -> (Rate, Rate) {
    let mut pair = bulk(&[link]);
    pair.run_for(3 * SECOND).unwrap();
    let links = *pair.paths().first().unwrap();
    let mut rival = Rival::join(&mut pair, 9, &config(congestion), &[links.up], &[links.down]).unwrap();
    let mut before = (ByteCount::ZERO, ByteCount::ZERO);
    for milli in 0..37_000 {
        pair.run_for(MS).unwrap();
        rival.act(&mut pair);
        if milli == 7000 {
            before = (pair.received(Side::Server).total(), rival.received());
        }
    }
    let time = 30 * SECOND;
    ((pair.received(Side::Server).total() - before.0).per(time), (rival.received() - before.1).per(time))
}

#[test]
fn two_flows_share_a_bottleneck() {
    for queue in few_or_many(vec![200 * MS], vec![40 * MS, 200 * MS]) {
        let (first, second) = rivalry("bbr", link(50, 20 * MS).with_queue_time(queue));
        let ratio = percent(first, second);
        assert!((50..=200).contains(&ratio), "{queue:?}: {first} {second}");
        assert!(share(first + second, 50) >= 93, "{queue:?}: {first} {second}");
    }
}
