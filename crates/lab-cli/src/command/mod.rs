//! The commands.

pub mod agent;
pub mod campaign;
pub mod experiments;
pub mod lab;
pub mod sim;
