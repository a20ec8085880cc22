//! How many bytes may wait for readers, over all streams of a connection.
//!
//! Reading a stream gives the peer new credit, so what the driver has read ahead for the application is memory that the
//! peer can fill beside its windows. A stream may hold a large share while few streams hold data. When many fill up,
//! each keeps a small guaranteed share, so that an unread stream never blocks another.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use manyway_proto::StreamConfig;
use tokio::time::Instant;

/// Most bytes between a writer and the driver.
const SEND_LIMIT: usize = 512 << 10;
/// Number of writers that may have this much each; more of them share the total.
const WRITERS: usize = 32;
/// Guaranteed minimum of each writer.
const LEAST_SEND: usize = 64 << 10;
/// A reader that empties half of a full queue within this time is fast.
const FAST: Duration = Duration::from_millis(20);
/// What passes before a share grows, in first shares.
const SETTLED: usize = 8;

/// With how many bytes the queues of a stream begin.
#[derive(Debug)]
struct First {
    read: usize,
    write: usize,
}

/// The shares of a connection's readers, and of its writers.
#[derive(Debug)]
pub(crate) struct Budget {
    /// For all streams together, beside the guaranteed minimum of each.
    limit: usize,
    /// Maximum of one stream.
    most: usize,
    /// The same at the beginning, and that of a writer.
    first: First,
    /// Guaranteed minimum of a stream.
    least: usize,
    /// Most bytes of a stream that the driver has not taken yet.
    send: usize,
    streams: AtomicUsize,
    held: AtomicUsize,
}

impl Budget {
    /// A quarter of the largest window for all streams, of it 1 MiB for one and 64 KiB guaranteed for each; less where
    /// the windows are smaller. A stream begins with three eighths of its first window, and half of its first send
    /// buffer.
    pub(crate) fn new(streams: &StreamConfig) -> Self {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let most = size(streams.max_window / 4).min(1 << 20);
        Self {
            limit: size(streams.max_window / 4),
            most,
            first: First {
                // Less than what makes the window grow, which counts what is read ahead as read.
                read: size(streams.stream_receive_window / 8 * 3),
                write: size(streams.send_buffer / 2),
            },
            least: size(streams.max_window / 64).min(64 << 10).min(most),
            send: size(streams.max_send_buffer / 24).min(SEND_LIMIT),
            streams: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
        }
    }

    /// The share of one stream's reader.
    pub(crate) fn reader(&self) -> Share {
        Share::new(self.first.read, self.most)
    }

    /// The share of one stream's writer.
    pub(crate) fn writer(&self) -> Share {
        Share::new(self.first.write, self.send)
    }

    /// How many bytes may wait between the writer of a stream and the driver.
    pub(crate) fn send_limit(&self) -> usize {
        let share = self.send * WRITERS / self.streams.load(Ordering::Relaxed).max(1);
        share.clamp(LEAST_SEND.min(self.send), self.send)
    }

    /// Adds a stream.
    pub(crate) fn join(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a stream.
    pub(crate) fn leave(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many bytes a stream may hold in total if it holds `own` bytes now.
    pub(crate) fn allowance(&self, own: usize) -> usize {
        let others = self.held().saturating_sub(own);
        self.limit.saturating_sub(others).clamp(self.least, self.most)
    }

    // The value affects only later allowances, so it needs no ordering with other memory.
    pub(crate) fn take(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// The bound of a queue, in bytes. It is small until the reader of the queue is fast.
#[derive(Debug)]
pub(crate) struct Share {
    bytes: usize,
    most: usize,
    /// Bytes that must still pass before it grows: more than the windows and buffers behind the queue hold.
    settles_in: usize,
    full_since: Option<Instant>,
}

impl Share {
    fn new(first: usize, most: usize) -> Self {
        let bytes = first.min(most);
        Self { bytes, most, settles_in: bytes.saturating_mul(SETTLED), full_since: None }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn on_full(&mut self) {
        if self.bytes < self.most && self.settles_in == 0 {
            self.full_since.get_or_insert_with(Instant::now);
        }
    }

    /// So many bytes were taken.
    pub(crate) fn on_taken(&mut self, bytes: usize) {
        self.settles_in = self.settles_in.saturating_sub(bytes);
    }

    /// Half of what was in the queue has been taken.
    pub(crate) fn on_half_taken(&mut self) {
        if self.full_since.take().is_some_and(|since| since.elapsed() <= FAST) {
            self.bytes = self.bytes.saturating_mul(2).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_share_grows_while_the_reader_of_the_queue_is_fast() {
        let mut share = Share::new(100, 350);
        let mut bytes = Vec::new();
        for (taken, milliseconds) in [(799, 0), (1, 20), (0, 21), (0, 1000), (0, 0), (0, 5)] {
            share.on_taken(taken);
            share.on_full();
            tokio::time::advance(Duration::from_millis(milliseconds / 2)).await;
            share.on_full();
            tokio::time::advance(Duration::from_millis(milliseconds.div_ceil(2))).await;
            share.on_half_taken();
            share.on_half_taken();
            bytes.push(share.bytes());
        }
        assert_eq!(bytes, [100, 200, 200, 200, 350, 350]);
    }

    #[test]
    fn each_of_many_full_streams_keeps_its_minimum() {
        let budget = Budget::new(&StreamConfig::default());
        assert_eq!(budget.allowance(0), 1 << 20);
        for _ in 0..16 {
            budget.take(1 << 20);
        }
        assert_eq!(budget.allowance(0), 64 << 10);
        assert_eq!(budget.allowance(1 << 20), 1 << 20);
        budget.give_back(1 << 20);
        assert_eq!(budget.allowance(0), 1 << 20);
    }

    #[test]
    fn many_writers_share_what_a_few_may_have_each() {
        let budget = Budget::new(&StreamConfig::default());
        let mut most = 0;
        for streams in 1..=320 {
            budget.join();
            most = most.max(streams * budget.send_limit());
            assert!(budget.send_limit() >= LEAST_SEND, "{streams}");
        }
        assert_eq!(most, 320 * LEAST_SEND);
        (0..319).for_each(|_| budget.leave());
        assert_eq!(budget.send_limit(), SEND_LIMIT);
    }

    #[test]
    fn small_windows_make_a_small_budget() {
        let mut streams = StreamConfig::default();
        streams.max_window = 64 << 10;
        streams.stream_receive_window = 64 << 10;
        let budget = Budget::new(&streams);
        assert_eq!(budget.allowance(0), 16 << 10);
        assert_eq!(budget.send_limit(), 512 << 10);
        // What 16 unread streams keep, and what one stream among few may have.
        let small = Budget::new(&StreamConfig::small());
        assert_eq!((small.send_limit(), small.allowance(0)), (2 << 10, 12 << 10));
        small.take(12 << 10);
        assert_eq!(small.allowance(0), 768);
    }
}
