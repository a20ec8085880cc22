//! Captures of connections, whole and damaged.

mod common;
mod connections;
mod never_panics;
