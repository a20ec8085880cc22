//! The resources of a server that one client may use, over all its connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The resources that one client may use, over all its connections. Clones share them.
#[derive(Debug, Clone)]
pub struct Quota {
    connections: Arc<Semaphore>,
    flows: Arc<Semaphore>,
    pub(crate) lookups: Arc<Semaphore>,
    bytes: Arc<Bytes>,
}

#[derive(Debug)]
struct Bytes {
    left: AtomicUsize,
}

impl Quota {
    /// Limits on parallel TCP connections, flows of UDP and name look-ups, and on the bytes between sockets and streams
    /// beside the minimum buffers of each connection (8 KiB).
    pub fn new(connections: usize, flows: usize, lookups: usize, bytes: usize) -> Self {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        Self {
            connections: semaphore(connections),
            flows: semaphore(flows),
            lookups: semaphore(lookups),
            bytes: Arc::new(Bytes { left: AtomicUsize::new(bytes) }),
        }
    }

    /// An unlimited quota: for a client's own end.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX, usize::MAX, usize::MAX, usize::MAX)
    }

    /// TCP connections that may be added now.
    pub fn free_connections(&self) -> usize {
        self.connections.available_permits()
    }

    /// Flows of UDP that may be added now.
    pub fn free_flows(&self) -> usize {
        self.flows.available_permits()
    }

    /// Bytes by which buffers may still grow.
    pub fn free_bytes(&self) -> usize {
        self.bytes.left.load(Ordering::Relaxed)
    }

    /// A permit for one TCP connection, released when it is dropped; `None` if all are taken.
    pub(crate) fn connection(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.connections).try_acquire_owned().ok()
    }

    /// A permit for one flow of UDP, as [`Self::connection`].
    pub(crate) fn flow(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.flows).try_acquire_owned().ok()
    }

    /// Takes this many bytes if they are available.
    // The counter orders no other memory.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let less = |left: usize| left.checked_sub(bytes);
        self.bytes.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.bytes.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A buffer that grows while it is full and shrinks while it is not, within a quota.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    quota: Quota,
}

impl Buffer {
    pub(crate) fn new(quota: &Quota) -> Self {
        Self { bytes: vec![0; LEAST], quota: quota.clone() }
    }

    pub(crate) fn space(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    pub(crate) fn filled(&self, length: usize) -> &[u8] {
        self.bytes.get(..length).unwrap_or_default()
    }

    /// Adapts to the size of a read.
    pub(crate) fn adapt(&mut self, read: usize) {
        let size = self.bytes.len();
        if read == size && size < MOST {
            let more = (size * 4).min(MOST) - size;
            if self.quota.take(more) {
                self.bytes.resize(size + more, 0);
            }
        } else if read < size / 16 && size > LEAST {
            let less = size - (size / 4).max(LEAST);
            self.bytes.truncate(size - less);
            self.bytes.shrink_to_fit();
            self.quota.give_back(less);
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.quota.give_back(self.bytes.len() - LEAST);
    }
}

/// The guaranteed minimum of each direction of a connection.
const LEAST: usize = 4 << 10;
/// Fits a processor's cache, and a chunk of the transport.
const MOST: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_and_shrinks_with_the_reads_and_returns_its_bytes() {
        let quota = Quota::new(1, 1, 1, 100 << 10);
        let mut buffer = Buffer::new(&quota);
        for expected in [16 << 10, 64 << 10, 64 << 10] {
            buffer.adapt(buffer.bytes.len());
            assert_eq!(buffer.bytes.len(), expected);
        }
        let mut second = Buffer::new(&quota);
        second.adapt(LEAST);
        second.adapt(16 << 10);
        assert_eq!(second.bytes.len(), 16 << 10, "40 KiB are left");
        buffer.adapt(10);
        assert_eq!(buffer.bytes.len(), 16 << 10);
        drop((buffer, second));
        assert_eq!(quota.free_bytes(), 100 << 10);
    }
}
