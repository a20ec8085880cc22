//! Whatever happens to all paths but one, the applications receive every byte and every message once and in order.

use manyway_proto::{ConnectionConfig, Detection};
use manyway_sim::nightly::{for_each_seed, rotating_seeds};
use manyway_sim::pair::Chaos;
use manyway_sim::{EndpointPair, mmsp1_pair};

use crate::modern;
use crate::random_changes::{bytes_survive, messages_survive, three_paths};

/// The settings of the thesis, and those of MMSP/2, in turn.
fn config(seed: u64) -> ConnectionConfig {
    let scheduler = match (seed / 2) % 6 {
        0 => "primary",
        1 => "earliest",
        2 => "round-robin",
        3 => "redundant",
        4 => "stream-bound",
        _ => "weighted",
    };
    match seed % 2 {
        0 => ConnectionConfig::mmsp1(),
        _ => {
            let mut config = modern(scheduler, if seed.is_multiple_of(3) { "bbr" } else { "cubic" });
            config.detection = if seed.is_multiple_of(5) { Detection::Probes } else { Detection::Fast };
            config
        }
    }
}

fn pair(seed: u64) -> EndpointPair {
    let config = config(seed);
    mmsp1_pair(three_paths(seed), &config, &config)
}

fn over_many_seeds(test: impl Fn(u64) + Sync) {
    for_each_seed(rotating_seeds(12, 120), test);
}

#[test]
fn every_byte_arrives_once_and_in_order() {
    over_many_seeds(|seed| {
        bytes_survive(pair(seed), seed, |chaos| chaos);
    });
}

#[test]
fn every_byte_arrives_even_if_no_path_is_spared() {
    over_many_seeds(|seed| {
        bytes_survive(pair(seed), seed, |chaos| chaos.everywhere().without_moves());
    });
}

#[test]
fn every_message_keeps_its_guarantees() {
    over_many_seeds(|seed| messages_survive(pair(seed), seed, Chaos::without_moves));
}

#[test]
fn a_seed_repeats_its_course() {
    let course = |seed| bytes_survive(pair(seed), seed, |chaos| chaos);
    assert_eq!(course(1), course(1));
    assert_ne!(course(1), course(2));
}
