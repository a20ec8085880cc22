//! How well paths are filled, alone and together, and at what cost.

use std::time::Duration;

use manyway_proto::{ConnectionConfig, Rate};
use manyway_sim::scenario::{MINUTE, MS, connected_with, mbit, megabytes, path_figures, percent};
use manyway_sim::{PairBuilder, Side};

/// Share of the sum of the rates that 10 s of transfer reach, in percent.
fn share(rates: &[u64], one_way: Duration, scheduler: &str, congestion: &str, from: Side) -> u64 {
    let mut config = ConnectionConfig::default();
    config.set_scheduler(scheduler).unwrap();
    config.set_congestion(congestion).unwrap();
    let builder = rates.iter().fold(PairBuilder::new(), |builder, rate| builder.path(mbit(*rate), one_way));
    let mut pair = connected_with(builder, &config).unwrap();
    let sum: u64 = rates.iter().sum();
    let report = pair.transfer(from, megabytes(sum * 10 / 8), MINUTE).unwrap();
    let lost: Vec<_> =
        path_figures(&mut pair, from).iter().map(|path| (path.packets_sent, path.packets_lost)).collect();
    println!(
        "{rates:?} {one_way:?} {scheduler} {congestion} {from:?}: {} {:?} {lost:?} {:?}",
        report.goodput,
        report.path_bytes,
        percent(report.goodput, mbit(sum))
    );
    percent(report.goodput, mbit(sum))
}

#[test]
fn figures() {
    for (scheduler, congestion) in [("min-rtt", "cubic"), ("min-rtt", "new-reno"), ("round-robin", "cubic")] {
        for from in [Side::Client, Side::Server] {
            share(&[50], 10 * MS, scheduler, congestion, from);
            share(&[50, 50], 10 * MS, scheduler, congestion, from);
            share(&[80, 10], 10 * MS, scheduler, congestion, from);
            share(&[100], 50 * MS, scheduler, congestion, from);
        }
    }
}
