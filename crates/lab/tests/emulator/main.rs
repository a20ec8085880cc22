//! The emulator against theory, on real sockets in network namespaces. Needs root; without, each test says so and
//! passes, unless `MANYWAY_REQUIRE_NAMESPACES` is set.
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
