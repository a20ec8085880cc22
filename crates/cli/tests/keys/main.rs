//! Tickets, keys, certificates, limits and settings of the real binary over 127.0.0.1, without root.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

#[path = "../common/terminal.rs"]
mod at_terminal;
mod certificates;
mod limits;
mod place;
#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "../common/program.rs"]
mod program;
mod servers;
mod settings;
mod stopping;
mod terminal;
mod tickets;
