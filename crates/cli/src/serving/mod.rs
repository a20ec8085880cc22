//! The parts of `manyway serve` that decide which clients may connect, what they may use, and when they have to leave.

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
