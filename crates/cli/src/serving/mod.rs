//! The parts of `manyway serve` that decide which clients may connect, what they may use, and when they have to leave.

pub mod authorised;
pub mod carried;
pub mod certificate;
pub mod connected;
pub mod journal;
pub mod limit;
pub mod memory;
mod messages;
pub mod notify;
pub mod open_files;
pub mod session;
pub mod streams;
