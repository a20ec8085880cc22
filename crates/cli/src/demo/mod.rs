//! The parts of `demo` that need no protocol: emulated links, the final table, the plot.

pub mod emulator;
pub mod link_spec;
pub mod plot;
pub mod table;
