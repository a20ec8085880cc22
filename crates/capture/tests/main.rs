//! Commands in namespaces, and their packets.

mod packets;

#[cfg(target_os = "linux")]
mod commands;
#[cfg(target_os = "linux")]
mod common;
#[cfg(target_os = "linux")]
mod isolation;
#[cfg(target_os = "linux")]
mod refusals;
#[cfg(target_os = "linux")]
mod traffic;

#[test]
fn zz_tests_that_were_skipped_are_counted() {
    manyway_sim::skipped::tell_skipped();
}
