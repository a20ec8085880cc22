//! Helpers that several parts of the tests use.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]

pub(crate) mod lab;
pub(crate) mod place;
pub(crate) mod program;
pub(crate) mod pty;
pub(crate) mod terminal;
pub(crate) mod web;
