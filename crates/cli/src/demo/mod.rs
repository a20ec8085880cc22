//! The parts of `demo`: emulated links, a server and client, the final table, the plot.

pub mod cutter;
pub mod emulator;
pub mod link_spec;
pub mod meter;
pub mod source;
pub mod stage;
pub mod table;
pub mod trial;
mod watch;
