//! The parts of `manyway serve` that decide who may come in, how much he may take, and when he has to go.

pub mod certificate;
pub mod guests;
pub mod journal;
pub mod limit;
pub mod memory;
pub mod notify;
pub mod open_files;
pub mod session;
pub mod streams;
pub mod visitors;
