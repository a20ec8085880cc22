//! Tickets, keys, certificates, limits and settings of the real binary over 127.0.0.1, without root.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

mod certificates;
mod limits;
mod log;
mod place;
mod servers;
mod settings;
mod stopping;
mod terminal;
mod tickets;
