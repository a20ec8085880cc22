//! First behaviour of two protocol machines on simulated paths.

use std::time::Duration;

use manyway_proto::{ByteCount, ConnectionConfig, Rate};
use manyway_sim::pair::{Direction, Family};
use manyway_sim::{EndpointPair, PairBuilder, Side, endpoint_pair};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

fn mbit(megabits: u64) -> Rate {
    Rate::from_bits_per_second(megabits * 1_000_000)
}

fn megabytes(number: u64) -> ByteCount {
    ByteCount(number * 1_000_000)
}

fn connected(builder: PairBuilder) -> EndpointPair {
    let mut pair = endpoint_pair(builder, &ConnectionConfig::default());
    let took = pair.connect(Duration::from_secs(5));
    assert!(took.is_ok(), "{took:?}");
    pair
}

#[test]
fn the_handshake_takes_two_round_trips_at_most() {
    let mut pair = endpoint_pair(PairBuilder::new().path(mbit(50), 10 * MS), &ConnectionConfig::default());
    let took = pair.connect(Duration::from_secs(5)).unwrap();
    assert!(took < 45 * MS, "{took:?}");
}

#[test]
fn a_path_is_filled_in_both_families_and_directions() {
    for family in [Family::V4, Family::V6] {
        for from in [Side::Client, Side::Server] {
            let mut pair = connected(PairBuilder::new().path(mbit(50), 10 * MS).family(family));
            let report = pair.transfer(from, megabytes(20), MINUTE).unwrap();
            assert!(report.goodput > mbit(46), "{family:?} {from:?} {}", report.goodput);
        }
    }
}

#[test]
fn two_equal_paths_are_used_together() {
    let builder = PairBuilder::new().path(mbit(50), 10 * MS).path(mbit(50), 10 * MS);
    let report = connected(builder).transfer(Side::Client, megabytes(50), MINUTE).unwrap();
    assert!(report.goodput > mbit(90), "{} {:?}", report.goodput, report.path_bytes);
}

#[test]
fn a_cut_path_silences_the_receiver_only_briefly() {
    let mut pair = connected(PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 10 * MS));
    let exchange = manyway_sim::traffic::Exchange::new(pair.host(Side::Client), megabytes(15));
    pair.start(Side::Client, Box::new(exchange));
    pair.run_for(Duration::from_secs(2)).unwrap();
    pair.cut(0, Direction::Both);
    let before = pair.delivered(Side::Client);
    pair.run_for(Duration::from_secs(1)).unwrap();
    pair.restore(0, Direction::Both);
    let done = pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet());
    assert!(done.is_ok(), "{done:?}");
    let silence = pair.received(Side::Server).longest_silence();
    assert!(silence <= 100 * MS, "{silence:?}");
    assert!(pair.delivered(Side::Client)[0] > before[0] + megabytes(1), "the restored path is used again");
}
