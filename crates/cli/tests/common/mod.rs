//! Helpers that several parts of the tests use.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do, and say why they skip"
)]

pub(crate) mod lab;
pub(crate) mod place;
pub(crate) mod program;
pub(crate) mod pty;
pub(crate) mod terminal;
