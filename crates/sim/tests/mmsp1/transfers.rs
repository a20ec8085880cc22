//! Byte streams over MMSP/1: one path and several, without faults and with losses.

use manyway_proto::ByteCount;
use manyway_sim::link::{LinkConfig, LossModel, Probability};
use manyway_sim::scenario::{MINUTE, MS, mbit, megabytes, percent};
use manyway_sim::{PairBuilder, Side};

use super::{connected, connected_with, modern};

#[test]
fn bytes_arrive_over_one_path_in_both_directions() {
    let mut pair = connected(PairBuilder::new().path(mbit(20), 10 * MS));
    for side in [Side::Client, Side::Server] {
        let report = pair.transfer(side, megabytes(5), MINUTE).unwrap();
        assert!(percent(report.goodput, mbit(20)) >= 90, "{side:?}: {}", report.goodput);
    }
}

#[test]
fn bytes_arrive_over_a_link_that_loses_two_percent() {
    let lossy =
        LinkConfig::new(mbit(20), 10 * MS).with_loss(LossModel::Random(Probability::from_percent(2.0)));
    let mut pair = connected(PairBuilder::new().path_with(lossy.clone(), lossy));
    pair.transfer(Side::Client, megabytes(2), MINUTE).unwrap();
    pair.transfer(Side::Server, megabytes(2), MINUTE).unwrap();
}

#[test]
fn a_scheduler_of_mmsp2_adds_up_two_paths() {
    let builder = PairBuilder::new().path(mbit(50), 10 * MS).path(mbit(50), 10 * MS);
    let mut pair = connected_with(builder, &modern("earliest", "bbr"));
    pair.run_for(500 * MS).unwrap();
    let report = pair.transfer(Side::Client, megabytes(40), MINUTE).unwrap();
    assert!(percent(report.goodput, mbit(100)) >= 85, "{} {:?}", report.goodput, report.path_bytes);
    assert!(report.path_bytes.iter().all(|bytes| *bytes > ByteCount(10_000_000)), "{:?}", report.path_bytes);
}
