//! The real binary between two network namespaces, as root; without root every test is skipped.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

mod caps;
mod codes;
mod costly;
mod endings;
mod errors;
mod failover;
mod faults;
mod field;
mod mmsp1;
mod modems;
mod play;
mod prefixes;
mod rendezvous;
mod screens;
mod selection;
mod tcp;
mod together;
mod tools;
mod url;

/// A megabyte.
const MB: usize = 1_000_000;
