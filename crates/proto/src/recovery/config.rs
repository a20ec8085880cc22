//! Settings of loss recovery.

use std::time::Duration;

/// Settings of loss recovery on one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryConfig {
    /// RTT assumed before the first sample. Default 100 ms, at least 1 ms.
    pub initial_rtt: Duration,
    /// Largest datagram of the path, in bytes. Default 1200.
    pub max_datagram: u16,
    /// How long the peer may delay an acknowledgement. Default 25 ms.
    pub max_ack_delay: Duration,
}

impl Default for RecoveryConfig {
    fn default() -> Self {
        Self {
            initial_rtt: Duration::from_millis(100),
            max_datagram: 1200,
            max_ack_delay: Duration::from_millis(25),
        }
    }
}
