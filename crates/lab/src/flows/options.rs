//! The settings of a measurement.

use crate::stop::Stop;

/// What to measure.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FlowsOptions {
    /// Connections that are open at the end. Default 10 000.
    pub flows: u32,
    /// New connections a second. Default 2000.
    pub rate: u32,
    /// How often every connection asks once more when all are open. Default 3.
    pub rounds: u32,
    /// Ends the measurement early.
    pub stop: Stop,
}

impl Default for FlowsOptions {
    fn default() -> Self {
        Self { flows: 10_000, rate: 2_000, rounds: 3, stop: Stop::default() }
    }
}
