//! Helpers that several parts of the tests use.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

pub(crate) mod command;
pub(crate) mod hosts;
