//! What each command does.

pub mod agent;
pub mod campaign;
pub mod lab;
pub mod sim;
