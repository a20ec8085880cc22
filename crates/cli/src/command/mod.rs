//! What each command does: one file a command.

pub mod advice;
pub mod bench;
pub mod campaign;
pub mod decode;
pub mod demo;
pub mod error;
pub mod get;
pub mod keys;
pub mod lab;
pub mod lab_agent;
pub mod network;
pub mod offer;
pub mod paths;
pub mod ping;
pub mod rendezvous;
pub mod send;
pub mod serve;
pub mod session;
pub mod signal;
pub mod sim;
pub mod summary;
pub mod tally;
pub mod target;
pub mod transfer;
pub mod watch;
