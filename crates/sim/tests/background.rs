//! Data of the class *background* (spec 8.44): it uses no path with a cost, and yields to all other data.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway_proto::scheduler::{PathTerms, names};
use manyway_proto::{ByteCount, Class, ConnectionConfig, Rate};
use manyway_sim::link::LinkConfig;
use manyway_sim::scenario::{MS, SECOND, connected_with, mbit, megabytes, path_figures, percent};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Rival, Side};

fn config(scheduler: &str, congestion: &str) -> ConnectionConfig {
    let mut config = ConnectionConfig::default();
    config.set_scheduler(scheduler).unwrap();
    config.set_congestion(congestion).unwrap();
    config
}

fn start(pair: &mut EndpointPair, class: Class, bytes: ByteCount) {
    let client = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(client, bytes).class(class)));
}

/// The bytes that each path sent.
fn sent(pair: &mut EndpointPair) -> Vec<ByteCount> {
    path_figures(pair, Side::Client).iter().map(|path| path.bytes_sent).collect()
}

#[test]
fn no_scheduler_sends_background_data_on_a_path_with_a_cost() {
    for scheduler in names().filter(|name| *name != "primary") {
        for class in [Class::Background, Class::Bulk] {
            let builder = PairBuilder::new().path(mbit(10), 10 * MS).path(mbit(10), 10 * MS);
            let mut pair = connected_with(builder, &config(scheduler, "bbr")).unwrap();
            pair.run_for(SECOND).unwrap();
            let costly = path_figures(&mut pair, Side::Client)[1].tuple.local;
            let mut terms = PathTerms::default();
            terms.cost = 1;
            pair.peer(Side::Client).unwrap().connection().unwrap().set_terms(costly, terms);
            let before = sent(&mut pair);
            // `stream-bound`: a stream keeps its path, so one for each is needed.
            for _ in 0..2 {
                start(&mut pair, class, megabytes(5));
            }
            pair.run_for(3 * SECOND).unwrap();
            let moved: Vec<_> =
                sent(&mut pair).iter().zip(before).map(|(after, before)| *after - before).collect();
            assert!(moved[0] > megabytes(2), "{scheduler} {class:?} {moved:?}");
            let pays = moved[1] > megabytes(1);
            assert_eq!(pays, class == Class::Bulk, "{scheduler} {class:?} {moved:?}");
            assert!(pays || moved[1] < ByteCount(20_000), "{scheduler} {class:?} {moved:?}");
        }
    }
}

/// Goodput and the mean queue of ten seconds on a link of 20 Mbit/s with a queue of 300 ms.
fn over_a_long_queue(class: Class, congestion: &str) -> (Rate, Duration) {
    let link = LinkConfig::new(mbit(20), 10 * MS).with_queue_time(300 * MS);
    let builder = PairBuilder::new().path_with(link.clone(), link);
    let mut pair = connected_with(builder, &config("earliest", congestion)).unwrap();
    start(&mut pair, class, megabytes(1000));
    pair.run_for(5 * SECOND).unwrap();
    let (before, up) = (pair.received(Side::Server).total(), pair.paths().first().unwrap().up);
    let mut queue = Duration::ZERO;
    for _ in 0..10_000 {
        pair.run_for(MS).unwrap();
        queue += pair.world().network().link(up).unwrap().waiting() / mbit(20);
    }
    ((pair.received(Side::Server).total() - before).per(10 * SECOND), queue / 10_000)
}

#[test]
fn background_data_delays_others_little_and_fills_an_unused_path() {
    for congestion in ["cubic", "bbr"] {
        let (goodput, queue) = over_a_long_queue(Class::Background, congestion);
        assert!(queue <= 35 * MS && goodput > mbit(17), "{congestion}: {queue:?} {goodput}");
    }
    let (_, queue) = over_a_long_queue(Class::Bulk, "cubic");
    assert!(queue > 100 * MS, "{queue:?}");
}

/// Its share beside another connection over the same link, in percent of both: the mean over some seeds, since CUBIC's
/// share of one run is anything from a fifth to two fifths.
fn beside_a_rival(class: Class) -> u64 {
    const SEEDS: u8 = 6;
    (1..=SEEDS).map(|seed| share_beside_a_rival(class, seed)).sum::<u64>() / u64::from(SEEDS)
}

fn share_beside_a_rival(class: Class, seed: u8) -> u64 {
    let link = LinkConfig::new(mbit(20), 10 * MS).with_queue_time(100 * MS);
    let builder = PairBuilder::new().seed(seed.into()).path_with(link.clone(), link);
    let mut pair = connected_with(builder, &config("earliest", "cubic")).unwrap();
    start(&mut pair, class, megabytes(1000));
    pair.run_for(2 * SECOND).unwrap();
    let links = *pair.paths().first().unwrap();
    let other = config("earliest", "cubic");
    let mut rival = Rival::join(&mut pair, 9 + seed, &other, &[links.up], &[links.down]).unwrap();
    let mut before = (ByteCount::ZERO, ByteCount::ZERO);
    for milli in 0..25_000 {
        pair.run_for(MS).unwrap();
        rival.act(&mut pair);
        if milli == 10_000 {
            before = (pair.received(Side::Server).total(), rival.received());
        }
    }
    let own = (pair.received(Side::Server).total() - before.0).per(15 * SECOND);
    let others = (rival.received() - before.1).per(15 * SECOND);
    percent(own, own + others)
}

#[test]
fn background_data_takes_less_than_its_share_beside_another_connection() {
    let shares = [Class::Background, Class::Bulk].map(beside_a_rival);
    assert!(shares[0] <= 36 && shares[1] >= 45, "{shares:?}");
}
