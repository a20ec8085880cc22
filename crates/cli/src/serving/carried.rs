//! How much the streams of a client carried.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of all streams of a connection so far; clones count together.
#[derive(Debug, Clone, Default)]
pub struct Carried(Arc<[AtomicU64; 2]>);

impl Carried {
    /// Received bytes, and sent bytes.
    pub fn bytes(&self) -> (u64, u64) {
        let [inwards, outwards] = &*self.0;
        (inwards.load(Ordering::Relaxed), outwards.load(Ordering::Relaxed))
    }

    fn count(counter: &AtomicU64, bytes: usize) {
        counter.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Counts received bytes.
    pub fn on_received(&self, bytes: usize) {
        let [inwards, _] = &*self.0;
        Self::count(inwards, bytes);
    }

    /// Counts sent bytes.
    pub fn on_sent(&self, bytes: usize) {
        let [_, outwards] = &*self.0;
        Self::count(outwards, bytes);
    }
}
