//! The parts of the `manyway-lab` command. A library only so that they can be tested; nothing here is a stable
//! interface.

pub mod args;
pub mod command;
