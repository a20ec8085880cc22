//! How well paths are filled, alone and together, and at what cost.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use manyway_proto::observe::{Fact, Observer};
use manyway_proto::{ConnectionConfig, Instant};
use manyway_sim::link::LinkConfig;
use manyway_sim::nightly::few_or_many;
use manyway_sim::scenario::{MINUTE, MS, connected, connected_with, mbit, megabytes, percent};
use manyway_sim::{PairBuilder, Side};

/// Percentage of the sum of the rates that 5 s of transfer, nightly 10 s, reach, without headers of IP and UDP.
fn share(rates: &[u64], scheduler: &str, congestion: &str) -> u64 {
    let mut config = ConnectionConfig::default();
    config.set_scheduler(scheduler).unwrap();
    config.set_congestion(congestion).unwrap();
    let sum: u64 = rates.iter().sum();
    let share_from = |from| {
        let builder =
            rates.iter().fold(PairBuilder::new(), |builder, rate| builder.path(mbit(*rate), 10 * MS));
        let mut pair = connected_with(builder, &config).unwrap();
        let report = pair.transfer(from, megabytes(sum * few_or_many(5, 10) / 8), MINUTE).unwrap();
        percent(report.goodput, mbit(sum))
    };
    share_from(Side::Client).min(share_from(Side::Server))
}

#[test]
fn a_single_path_is_filled() {
    for congestion in ["cubic", "new-reno"] {
        let share = share(&[50], "min-rtt", congestion);
        assert!(share >= 93, "{congestion} {share}");
    }
}

#[test]
fn two_equal_paths_give_their_sum() {
    let cases = [("min-rtt", "new-reno"), ("round-robin", "cubic"), ("min-rtt", "cubic")];
    for (scheduler, congestion) in cases.into_iter().take(few_or_many(1, 3)) {
        let share = share(&[50, 50], scheduler, congestion);
        assert!(share >= 90, "{scheduler} {congestion} {share}");
    }
}

#[test]
fn a_fast_and_a_slow_path_give_their_sum() {
    let cases = [("round-robin", "cubic"), ("min-rtt", "cubic"), ("min-rtt", "new-reno")];
    for (scheduler, congestion) in cases.into_iter().take(few_or_many(1, 3)) {
        let share = share(&[80, 10], scheduler, congestion);
        assert!(share >= 88, "{scheduler} {congestion} {share}");
    }
}

/// The counts of one end.
#[derive(Debug, Default)]
struct Counts {
    sent: u64,
    asking: u64,
    lost: u64,
    spurious: u64,
    reinjected: u64,
}

#[derive(Debug, Clone, Default)]
struct Counter(Arc<Mutex<Counts>>);

impl Observer for Counter {
    fn on_fact(&mut self, _now: Instant, fact: &Fact) {
        let mut counts = self.0.lock().unwrap();
        if let Fact::PacketSent { ack_eliciting, .. } = fact {
            counts.sent += 1;
            counts.asking += u64::from(*ack_eliciting);
        }
        if let Fact::PacketsLost { packets, .. } = fact {
            counts.lost += packets;
        }
        if let Fact::SpuriousLoss { packets, .. } = fact {
            counts.spurious += packets;
        }
        if let Fact::Reinjected { packets, .. } = fact {
            counts.reinjected += packets;
        }
    }
}

/// Transfers 20 MB over paths with queues that never overflow; returns the counts of sender and receiver.
fn clean(paths: &[(u64, Duration)]) -> [Counts; 2] {
    let builder = paths.iter().fold(PairBuilder::new(), |builder, (rate, delay)| {
        let link = LinkConfig::new(mbit(*rate), *delay).with_queue_time(Duration::from_secs(5));
        builder.path_with(link.clone(), link)
    });
    let mut pair = connected(builder).unwrap();
    let counters = [Counter::default(), Counter::default()];
    for (side, counter) in [Side::Client, Side::Server].into_iter().zip(&counters) {
        pair.peer(side).unwrap().connection().unwrap().set_observer(Box::new(counter.clone()));
    }
    pair.transfer(Side::Client, megabytes(20), MINUTE).unwrap();
    counters.map(|counter| std::mem::take(&mut *counter.0.lock().unwrap()))
}

#[test]
fn almost_nothing_is_sent_twice_over_clean_paths_and_acknowledgements_are_few() {
    for paths in [&[(50, 10 * MS)][..], &[(50, 10 * MS), (50, 10 * MS)], &[(80, 10 * MS), (10, 40 * MS)]] {
        let [sender, receiver] = clean(paths);
        assert_eq!((sender.lost, sender.spurious), (0, 0), "{paths:?} {sender:?}");
        // Only its end, if a slow path delays that.
        assert!(
            sender.reinjected <= 32 && (paths.len() > 1 || sender.reinjected == 0),
            "{paths:?} {sender:?}"
        );
        // 20 MB in packets of 1440 bytes of payload are 13 889; there are some small ones at the start and the end.
        assert!(sender.sent < 14_300, "{paths:?} {sender:?}");
        assert!(receiver.sent < sender.sent / 8, "{paths:?} {receiver:?}");
    }
}
