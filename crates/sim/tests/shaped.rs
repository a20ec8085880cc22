//! Links whose round trip is tiny until a shaper's queue fills.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway_proto::{ByteCount, PathReason, PathState};
use manyway_sim::link::{LinkConfig, RateModel};
use manyway_sim::scenario::{MINUTE, connected, mbit, megabytes, path_events};
use manyway_sim::{PairBuilder, Side};

/// As `tbf rate … burst 16k latency 50ms` makes it.
fn shaped(megabits: u64, queue: Duration) -> LinkConfig {
    LinkConfig::new(mbit(megabits), Duration::from_micros(50))
        .with_rate(RateModel::TokenBucket { rate: mbit(megabits), burst: ByteCount(16_000) })
        .with_queue_time(queue)
}

#[test]
fn experiment() {
    for (a, b) in [(20u64, 20u64), (20, 5)] {
        for queue in [50u64, 100] {
            let (mut suspects, mut deads, mut worst) = (0, 0, Duration::ZERO);
            let mut reasons = std::collections::BTreeMap::<String, u32>::new();
            for seed in 0..5 {
                for from in [Side::Client, Side::Server] {
                    let link = |m| shaped(m, Duration::from_millis(queue));
                    let builder =
                        PairBuilder::new().seed(seed).path_with(link(a), link(a)).path_with(link(b), link(b));
                    let mut pair = connected(builder).unwrap();
                    pair.run_for(Duration::from_millis(seed * 13)).unwrap();
                    let report = match pair.transfer(from, megabytes(8), MINUTE) {
                        Ok(r) => r,
                        Err(e) => {
                            println!("{a}+{b} {queue} seed {seed} {from:?} {e}");
                            for side in [Side::Client, Side::Server] {
                                println!("{:?}", path_events(&mut pair, side).len());
                                println!("{:#?}", manyway_sim::scenario::path_figures(&mut pair, side));
                                for (at, e) in path_events(&mut pair, side).iter().rev().take(10) {
                                    println!("{at:?} {e:?}");
                                }
                            }
                            return;
                        }
                    };
                    worst = worst.max(report.longest_silence);
                    for side in [Side::Client, Side::Server] {
                        for (_, event) in path_events(&mut pair, side) {
                            match event.state {
                                PathState::Suspect => suspects += 1,
                                PathState::Dead => deads += 1,
                                _ => continue,
                            }
                            let word = match event.reason {
                                PathReason::Silence { .. } => "Silence".to_owned(),
                                PathReason::ProbeTimeout { count } => format!("PTO{count}"),
                                other => format!("{other:?}"),
                            };
                            *reasons
                                .entry(format!(
                                    "{:?}{:?} {word}",
                                    event.state,
                                    if side == from { "sender" } else { "receiver" }
                                ))
                                .or_default() += 1;
                        }
                    }
                }
            }
            println!(
                "{a}+{b} Mbit/s, queue {queue} ms: {suspects} suspects {deads} deads of 10, silence {worst:?} {reasons:?}"
            );
        }
    }
}
