//! The emulator against theory, on real sockets in network namespaces. Needs root; without, each test is skipped,
//! or fails if `MANYWAY_REQUIRE_NAMESPACES` is set.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may fail, and its figures are worth reading"
)]

mod changes;
mod common;
mod faults;
mod kernel;
mod leftovers;
mod theory;

#[test]
fn zz_tests_that_were_skipped_are_counted() {
    manyway_sim::skipped::tell_skipped();
}
