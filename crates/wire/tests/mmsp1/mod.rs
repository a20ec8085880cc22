//! MMSP/1 through the public interface.

mod golden;
mod never_panics;
mod round_trip;
mod samples;

/// Files of the specification that belong to MMSP/1 begin with this.
pub(crate) const PREFIX: &str = "mmsp1_";
