//! Endpoints, connections and streams over sockets on loopback.

mod choice;
mod codes;
mod common;
mod connections;
mod examples;
mod field;
mod identity;
mod lanes;
mod messages;
mod mmsp1;
mod mmsp1_peer;
#[cfg(all(target_os = "linux", not(manyway_portable)))]
mod random_operations;
mod sizes;
mod streams;
mod tcp;
#[cfg(all(target_os = "linux", not(manyway_portable)))]
mod threads;
#[cfg(target_os = "linux")]
mod wake_ups;

/// Tests begin in the order of their names.
#[test]
fn zz_tests_that_were_skipped_are_counted() {
    manyway_sim::skipped::tell_skipped();
}
