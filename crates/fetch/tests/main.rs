//! Downloads from small HTTP servers over real sockets. Each address 127.0.0.N stands for an interface.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

mod common;
mod faults;
mod files;
mod liars;
mod tls;
