//! The behaviour of connections over MMSP/1, in virtual time and through the public interface only.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod attacks;
mod blocks;
mod byte_streams;
mod close;
mod etsi;
mod flow;
mod fragments;
mod handshake;
mod messages;
mod parity;
mod paths;
mod qlog;
#[path = "../shared/random_changes.rs"]
mod random_changes;
mod random_operations;
mod sacks;
mod tester;
mod transfers;
mod window;

use manyway_proto::ConnectionConfig;
use manyway_sim::scenario::SECOND;
use manyway_sim::{EndpointPair, PairBuilder, mmsp1_pair};

/// A pair that is connected over MMSP/1.
fn connected_with(builder: PairBuilder, config: &ConnectionConfig) -> EndpointPair {
    let mut pair = mmsp1_pair(builder, config, config);
    pair.connect(10 * SECOND).unwrap();
    pair
}

/// The same with the settings of the thesis.
fn connected(builder: PairBuilder) -> EndpointPair {
    connected_with(builder, &ConnectionConfig::mmsp1())
}

/// Settings with a scheduler and a congestion controller of MMSP/2, and fast detection.
fn modern(scheduler: &str, congestion: &str) -> ConnectionConfig {
    let mut config = ConnectionConfig::default();
    config.path_limit = 31;
    config.set_scheduler(scheduler).unwrap();
    config.set_congestion(congestion).unwrap();
    config
}
