//! The parts of the `manyway` command. A library only so that they can be tested; nothing here is a stable interface.

pub mod args;
pub mod caps;
pub mod command;
pub mod config;
pub mod demo;
pub mod home;
pub mod output;
pub mod serving;
pub mod status;
pub mod traffic;
