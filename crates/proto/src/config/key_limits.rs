//! When keys are updated and no longer used.

use std::time::Duration;

/// When keys are updated, and when they have reached their limits.
///
/// ```
/// use manyway_proto::KeyLimits;
/// assert_eq!(KeyLimits::default().update_after_packets, 1 << 22);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyLimits {
    /// Packets, over all paths, after which the 1-RTT keys are updated. Default 2²², at least 1.
    pub update_after_packets: u64,
    /// Time after which the 1-RTT keys are updated. Default one hour.
    pub update_after: Duration,
    /// Packets that may be sealed with one key at all. Default: no limit besides the cipher's own, which always holds
    /// (2²³ for AES-GCM).
    pub max_sealed: u64,
    /// Packets that may fail to decrypt before the connection ends. Default: no limit besides the cipher's own, which
    /// always holds (2⁵² for AES-GCM, 2³⁶ for ChaCha20-Poly1305).
    pub max_failed: u64,
}

impl Default for KeyLimits {
    fn default() -> Self {
        Self {
            update_after_packets: 1 << 22,
            update_after: Duration::from_secs(3600),
            max_sealed: u64::MAX,
            max_failed: u64::MAX,
        }
    }
}
