//! Paths that share a bottleneck, and paths that do not.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway_proto::{ByteCount, ConnectionConfig, PathId};
use manyway_sim::link::{LinkConfig, LossModel, Probability};
use manyway_sim::nightly::{few_or_many, is_nightly};
use manyway_sim::scenario::{MINUTE, MS, SECOND, connected_with, mbit, megabytes, path_figures, percent};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, LinkId, PairBuilder, Rival, Side};

fn config(congestion: &str) -> ConnectionConfig {
    let mut config = ConnectionConfig::default();
    config.set_congestion(congestion).unwrap();
    config
}

/// Two paths with separate ends and a shared link in the middle.
struct Dumbbell {
    pair: EndpointPair,
    up: LinkId,
    down: LinkId,
    rivals: Vec<Rival>,
}

impl Dumbbell {
    /// Paths with these one-way delays to the shared link.
    fn new(link: &LinkConfig, delays: &[Duration], congestion: &str, seed: u64) -> Self {
        let builder =
            delays.iter().fold(PairBuilder::new().seed(seed), |b, delay| b.path(mbit(1000), *delay));
        let mut pair = connected_with(builder, &config(congestion)).unwrap();
        let now = pair.now();
        let paths = pair.paths().to_vec();
        let server = pair.host(Side::Server);
        let network = pair.world_mut().network_mut();
        let link = link.clone().with_overhead(LinkConfig::IPV4_UDP);
        let (up, down) = (network.add_link(now, link.clone()), network.add_link(now, link));
        let far = network.addresses(server).first().unwrap().0;
        for path in paths {
            network.set_route(path.interface, far, vec![path.up, up]);
            network.set_route(far, path.interface, vec![down, path.down]);
        }
        Self { pair, up, down, rivals: Vec::new() }
    }

    fn join(&mut self, congestion: &str) {
        let number = u8::try_from(self.rivals.len()).unwrap() + 1;
        let rival =
            Rival::join(&mut self.pair, number, &config(congestion), &[self.up], &[self.down]).unwrap();
        self.rivals.push(rival);
    }

    fn run_for(&mut self, time: Duration) {
        for _ in 0..time.as_millis() {
            self.pair.run_for(MS).unwrap();
            for rival in &mut self.rivals {
                rival.act(&mut self.pair);
            }
        }
    }
}

fn bulk(pair: &mut EndpointPair) {
    let client = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(client, megabytes(1_000_000))));
}

fn grouped(pair: &mut EndpointPair) -> bool {
    path_figures(pair, Side::Client).iter().any(|path| path.group != path.id)
}

/// Bytes of both connections from second 25 to second 65; all reach the shared link after 5 ms.
fn against(
    ours: &str,
    theirs: &str,
    delays: &[Duration],
    link: &LinkConfig,
    seed: u64,
) -> (ByteCount, ByteCount) {
    let mut bell = Dumbbell::new(link, delays, ours, seed);
    bulk(&mut bell.pair);
    bell.join(theirs);
    bell.run_for(25 * SECOND);
    let carried =
        |bell: &Dumbbell| (bell.pair.received(Side::Server).total(), bell.rivals.first().unwrap().received());
    let before = carried(&bell);
    bell.run_for(40 * SECOND);
    let after = carried(&bell);
    (after.0 - before.0, after.1 - before.1)
}

/// The share of the coupled connection relative to the rival, in percent; in a nightly run the mean of two runs.
fn share(ours: &str, theirs: &str, delays: &[Duration], link: &LinkConfig) -> u64 {
    let runs = (1..few_or_many(2, 3)).map(|seed| against(ours, theirs, delays, link, seed));
    let sum = runs.fold((0, 0), |sum, run| (sum.0 + run.0.get(), sum.1 + run.1.get()));
    sum.0 * 100 / sum.1
}

#[test]
fn two_paths_through_one_bottleneck_take_what_one_cubic_flow_does() {
    let cases = [([5 * MS; 2], 100 * MS), ([5 * MS, 15 * MS], 40 * MS), ([5 * MS; 2], 40 * MS)];
    for (delays, queue) in cases.into_iter().take(few_or_many(1, 3)) {
        let link = LinkConfig::new(mbit(20), 5 * MS).with_queue_time(queue);
        let share = share("coupled-cubic", "cubic", &delays, &link);
        assert!((70..=140).contains(&share), "{delays:?} {queue:?}: {share}");
    }
}

#[test]
fn three_paths_through_one_bottleneck_take_what_one_cubic_flow_does() {
    // One of the slower ones: for the night.
    if !is_nightly() {
        return;
    }
    let link = LinkConfig::new(mbit(20), 5 * MS).with_queue_time(60 * MS);
    let share = share("coupled-cubic", "cubic", &[5 * MS; 3], &link);
    assert!((70..=140).contains(&share), "{share}");
}

#[test]
fn two_paths_through_one_bottleneck_take_about_what_one_reno_flow_does() {
    let link = LinkConfig::new(mbit(20), 5 * MS).with_queue_time(40 * MS);
    for congestion in few_or_many(vec!["lia"], vec!["lia", "olia", "balia"]) {
        let share = share(congestion, "new-reno", &[5 * MS; 2], &link);
        assert!((70..=140).contains(&share), "{congestion}: {share}");
    }
}

#[test]
fn paths_through_one_bottleneck_stay_one_group() {
    for delays in [[5 * MS, 5 * MS], [5 * MS, 25 * MS]] {
        // Alone where the paths differ, beside a rival where they are alike; nightly each with each.
        let alike = delays[0] == delays[1];
        let cases =
            [(0, 1), (1, 3)].into_iter().filter(|(rivals, _)| is_nightly() || (*rivals == 1) == alike);
        for (rivals, seed) in cases {
            let link = LinkConfig::new(mbit(20), 5 * MS).with_queue_time(60 * MS);
            let mut bell = Dumbbell::new(&link, &delays, "coupled-cubic", seed);
            bulk(&mut bell.pair);
            (0..rivals).for_each(|_| bell.join("cubic"));
            for second in 0..40 {
                bell.run_for(SECOND);
                assert!(grouped(&mut bell.pair), "{delays:?} {rivals} {seed} {second}");
            }
        }
    }
}

#[test]
fn paths_through_one_bottleneck_take_no_more_than_one_flow_from_the_beginning_on() {
    let link = LinkConfig::new(mbit(20), 19 * MS).with_queue_time(80 * MS);
    let mut sum = (0, 0);
    for seed in 1..few_or_many(4, 7) {
        let mut bell = Dumbbell::new(&link, &[MS, MS], "coupled-cubic", seed);
        bulk(&mut bell.pair);
        bell.join("cubic");
        bell.run_for(8 * SECOND);
        sum.0 += bell.pair.received(Side::Server).total().get();
        sum.1 += bell.rivals.first().unwrap().received().get();
    }
    let share = sum.0 * 100 / sum.1;
    assert!((70..=140).contains(&share), "{share}");
}

#[test]
fn paths_with_separate_bottlenecks_are_filled_and_permanently_ungrouped() {
    // Two links of the same kind are the hardest: all figures are the same.
    let links = [([40, 40], [10, 10], 100), ([15, 40], [20, 10], 100), ([30, 30], [10, 30], 60)];
    for (place, (rates, delays, queue)) in links.into_iter().enumerate().take(few_or_many(1, 3)) {
        let controls = [("coupled-cubic", 1), ("lia", 4)];
        let chosen = if is_nightly() { &controls[..] } else { &controls[place % 2..][..1] };
        for (congestion, seed) in chosen.iter().copied() {
            let link =
                |at: usize| LinkConfig::new(mbit(rates[at]), delays[at] * MS).with_queue_time(queue * MS);
            let builder =
                (0..2).fold(PairBuilder::new().seed(seed), |it, at| it.path_with(link(at), link(at)));
            let mut pair = connected_with(builder, &config(congestion)).unwrap();
            bulk(&mut pair);
            let what = format!("{congestion} {rates:?} {delays:?} {queue} {seed}");
            let mut before = ByteCount::ZERO;
            for ten in 0..few_or_many(3, 4) {
                for second in 0..10 {
                    pair.run_for(SECOND).unwrap();
                    assert!(ten < 2 || !grouped(&mut pair), "{what}: {ten}{second}");
                }
                let total = pair.received(Side::Server).total();
                let share = percent((total - before).per(10 * SECOND), mbit(rates[0] + rates[1]));
                // Also while they are taken for one.
                assert!(share >= 92, "{what}: {share} from {ten}0 s on");
                before = total;
            }
        }
    }
}

#[test]
fn a_verdict_is_dropped_after_a_long_idle_time() {
    let link = |rate, delay| LinkConfig::new(mbit(rate), delay * MS).with_queue_time(60 * MS);
    let builder =
        PairBuilder::new().path_with(link(20, 5), link(20, 5)).path_with(link(30, 25), link(30, 25));
    let mut pair = connected_with(builder, &config("coupled-cubic")).unwrap();
    pair.transfer(Side::Client, megabytes(150), MINUTE).unwrap();
    assert!(!grouped(&mut pair));
    pair.run_for(12 * SECOND).unwrap();
    pair.transfer(Side::Client, ByteCount(100_000), MINUTE).unwrap();
    assert!(grouped(&mut pair));
}

/// The window of an idle path does not compete with the others.
#[test]
fn an_idle_path_takes_nothing_from_the_one_that_carries_everything() {
    let goodput = |congestion: &str, first: u32| {
        let loss = LossModel::Random(Probability::from_percent(0.01));
        let lossy = LinkConfig::new(mbit(20), 10 * MS).with_queue_time(20 * MS).with_loss(loss);
        let wide = LinkConfig::new(mbit(100), 10 * MS).with_queue_time(100 * MS);
        let builder = PairBuilder::new().path_with(lossy.clone(), lossy).path_with(wide.clone(), wide);
        let mut config = config(congestion);
        config.set_scheduler("primary").unwrap();
        let mut pair = connected_with(builder, &config).unwrap();
        pair.run_for(SECOND).unwrap();
        let set_primary = |pair: &mut EndpointPair, path| {
            let connection = pair.peer(Side::Client).unwrap().connection().unwrap();
            connection.set_primary(Some(PathId(path))).unwrap();
        };
        set_primary(&mut pair, first);
        let host = pair.host(Side::Client);
        pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(400))));
        pair.run_for(10 * SECOND).unwrap();
        set_primary(&mut pair, 0);
        pair.run_for(15 * SECOND).unwrap();
        let before = pair.received(Side::Server).total();
        pair.run_for(20 * SECOND).unwrap();
        (pair.received(Side::Server).total() - before).per(20 * SECOND)
    };
    let (alone, coupled) = (goodput("cubic", 0), goodput("fair", 1));
    assert!(percent(coupled, alone) >= 85, "{coupled} {alone}");
}
