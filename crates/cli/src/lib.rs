//! The pieces of the `manyway` command. A library only so that they can be tested; nothing here is a stable interface.

pub mod args;
pub mod caps;
pub mod command;
pub mod config;
pub mod demo;
pub mod documents;
pub mod exit_code;
pub mod home;
pub mod logging;
pub mod output;
pub mod serving;
pub mod status;
