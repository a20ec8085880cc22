//! What `demo` is made of: emulated links, the stage on which a transfer runs, the final table, the plot.

pub mod cutter;
pub mod emulator;
pub mod link_spec;
pub mod meter;
pub mod source;
pub mod stage;
pub mod table;
pub mod trial;
mod watch;
