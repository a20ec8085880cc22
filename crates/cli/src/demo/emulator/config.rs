//! Settings of an emulator.

use std::time::Duration;

/// Settings of an emulator.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct EmulatorConfig {
    /// Queue of each direction of each link, as time at its rate. Default 100 ms.
    pub queue: Duration,
    /// Seed of the random losses. Default 1.
    pub seed: u64,
}

impl Default for EmulatorConfig {
    fn default() -> Self {
        Self { queue: Duration::from_millis(100), seed: 1 }
    }
}
