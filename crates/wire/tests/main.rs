//! Bytes and values of the wire, through the public interface.

mod common;
mod golden;
mod mmsp1;
mod never_panics;
mod round_trip;
