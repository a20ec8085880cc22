//! The real binary between two network namespaces, as root; without root every test is skipped.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may fail"
)]

#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "../common/terminal.rs"]
mod at_terminal;
#[path = "../common/lab.rs"]
mod lab;
#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "../common/program.rs"]
mod program;

mod caps;
mod costly;
mod endings;
mod failover;
mod faults;
mod field;
mod modems;
mod prefixes;
mod rendezvous;
mod selection;
mod together;
mod tools;

/// A megabyte.
const MB: usize = 1_000_000;
