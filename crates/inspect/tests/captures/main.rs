//! Captures of connections, whole and damaged.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

mod common;
mod connections;
mod never_panics;
