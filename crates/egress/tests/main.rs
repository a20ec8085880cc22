//! Both ends over a connection in memory, with real TCP connections on loopback, and the frames of the specification.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

mod attacks;
mod common;
mod connections;
mod datagrams;
mod floods_of_names;
mod listeners;
mod listeners_of_datagrams;
mod sites;
mod specification;
