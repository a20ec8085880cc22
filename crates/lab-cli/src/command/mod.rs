//! The commands.

pub mod agent;
pub mod campaign;
pub mod lab;
pub mod sim;
