//! What each command does: one file a command.

pub mod bench;
pub mod demo;
pub mod error;
pub mod get;
pub mod network;
pub mod offer;
pub mod send;
pub mod serve;
pub mod session;
pub mod signal;
pub mod summary;
pub mod tally;
pub mod transfer;
pub mod watch;
