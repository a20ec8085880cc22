//! What each command does: one file a command.

pub mod demo;
pub mod error;
pub mod network;
pub mod session;
