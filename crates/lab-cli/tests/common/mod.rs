//! Helpers that several parts of the tests use.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do, and say why they skip"
)]

pub(crate) mod command;
pub(crate) mod hosts;
