//! What became of a target in an interval.

use std::time::Duration;

use crate::{ByteCount, Rate};

/// What a receiver did to hold its target, once in each interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TargetReport {
    /// The target.
    pub target: Rate,
    /// Length of the last interval, δ.
    pub interval: Duration,
    /// Rate of the payload in it, `T_n`.
    pub sample: Rate,
    /// Its moving average, `T_m`.
    pub mean: Rate,
    /// The sum of all receive windows that the algorithm chose, `W_s`, in bytes;
    /// [`TargetRate::most_receive_window`](crate::TargetRate::most_receive_window) may bound what is set.
    pub window: ByteCount,
    /// The sum of all receive windows as a percentage of what the target needs without congestion.
    pub congestion_percent: u64,
    /// Paths in use.
    pub paths: usize,
    /// Wanted TCP connections on each interface that uses TCP.
    pub connections: u8,
}
