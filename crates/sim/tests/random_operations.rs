//! Whatever happens to all paths but one, the applications receive every byte once and in order.

use manyway_proto::ConnectionConfig;
use manyway_sim::nightly::{for_each_seed, rotating_seeds};
use manyway_sim::pair::Chaos;
use manyway_sim::{EndpointPair, endpoint_pair};

use crate::random_changes::{bytes_survive, messages_survive, three_paths};

fn pair(seed: u64) -> EndpointPair {
    endpoint_pair(three_paths(seed), &ConnectionConfig::default())
}

/// Runs one seed to its end; returns the digest of all events.
fn survive(seed: u64) -> u64 {
    survive_with(seed, |chaos| chaos)
}

fn survive_with(seed: u64, change: impl FnOnce(Chaos) -> Chaos) -> u64 {
    bytes_survive(pair(seed), seed, change)
}

#[test]
fn every_byte_arrives_once_and_in_order() {
    over_many_seeds(|seed| {
        survive(seed);
    });
}

#[test]
fn every_byte_arrives_even_if_no_path_is_spared() {
    over_many_seeds(|seed| {
        survive_with(seed, Chaos::everywhere);
    });
}

#[test]
fn every_message_keeps_its_guarantees() {
    over_many_seeds(|seed| messages_survive(pair(seed), seed, |chaos| chaos));
}

#[test]
fn the_only_path_can_lose_its_address_before_there_are_ids_for_others() {
    survive_with(5279, Chaos::everywhere);
}

#[test]
fn probes_of_a_path_that_answers_now_and_then_exceed_its_window_by_little() {
    survive_with(63, Chaos::everywhere);
}

fn over_many_seeds(test: impl Fn(u64) + Sync) {
    for_each_seed(rotating_seeds(20, 120), test);
}

#[test]
fn an_acknowledgement_that_the_amplification_limit_holds_back_waits_quietly() {
    for seed in [1295, 1348, 1421] {
        survive(seed);
    }
}

#[test]
fn a_seed_repeats_its_course() {
    assert_eq!(survive(1), survive(1));
    assert_ne!(survive(1), survive(2));
}
