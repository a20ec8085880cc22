//! Flow control: the edge of the sender, and the window that the receiver advertises (spec 3.43, 3.98 to 3.101).
//!
//! Both ends count user data, and the memory that the blocks take: small ones use it up long before their user data
//! fill the window. Both are counted from the first block on, so that they never move left.

use std::ops::{Add, AddAssign};

use crate::message::OVERHEAD;
use crate::stream::receive_credit::{Epoch, ReceiveCredit};

/// Memory for each byte of a window.
const MEMORY: u64 = 2;

/// What a number of DATA blocks count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Bytes of user data.
    pub(crate) bytes: u64,
    pub(crate) blocks: u64,
}

impl Load {
    /// One block.
    pub(crate) fn block(bytes: usize) -> Self {
        Self { bytes: bytes as u64, blocks: 1 }
    }

    /// The memory that they take, in bytes.
    pub(crate) fn memory(self) -> u64 {
        self.bytes + OVERHEAD * self.blocks
    }
}

impl Add for Load {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, blocks: self.blocks + other.blocks }
    }
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// How far a sender may go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Edge {
    /// User data, in bytes.
    pub(crate) bytes: u64,
    /// Memory, in bytes.
    pub(crate) memory: u64,
}

impl Edge {
    /// Behind all that can be sent.
    pub(crate) const NONE: Self = Self { bytes: u64::MAX, memory: u64::MAX };

    /// The peer has `acked` and advertises a window.
    pub(crate) fn raise(&mut self, acked: Load, window: u32) {
        self.bytes = self.bytes.max(acked.bytes + u64::from(window));
        self.memory = self.memory.max(acked.memory() + MEMORY * u64::from(window));
    }

    /// Whether all blocks up to one that ends there may go.
    pub(crate) fn takes(&self, end: Load) -> bool {
        end.bytes <= self.bytes && end.memory() <= self.memory
    }

    /// Most user data of the block behind `given`.
    pub(crate) fn left(&self, given: Load) -> u64 {
        let memory = self.memory.saturating_sub(given.memory() + OVERHEAD);
        self.bytes.saturating_sub(given.bytes).min(memory)
    }
}

/// User data that the application took, or will never take, and the memory that became free, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Freed {
    pub(crate) bytes: u64,
    pub(crate) memory: u64,
}

impl Add for Freed {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, memory: self.memory + other.memory }
    }
}

/// The window of a receiver, and what the peer knows of it.
#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    data: ReceiveCredit,
    memory: ReceiveCredit,
}

impl ReceiveWindow {
    /// Starts with the window of SYN or SYN-ACK; it never grows beyond `most`.
    pub(crate) fn new(window: u64, most: u64) -> Self {
        let memory = ReceiveCredit::new(MEMORY * window, MEMORY.saturating_mul(most));
        Self { data: ReceiveCredit::new(window, most), memory }
    }

    /// Memory for what has arrived and was not read, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.window()
    }

    /// The window to advertise with an acknowledgement of `acked`: blocks behind it find memory whatever their size.
    pub(crate) fn behind(&self, acked: Load) -> u32 {
        let data = self.data.offer().saturating_sub(acked.bytes);
        let memory = self.memory.offer().saturating_sub(acked.memory()) / MEMORY;
        u32::try_from(data.min(memory)).unwrap_or(u32::MAX)
    }

    /// A SACK with this window leaves.
    pub(crate) fn on_advertised(&mut self, acked: Load, window: u32) {
        self.data.advertise(acked.bytes + u64::from(window));
        self.memory.advertise(acked.memory() + MEMORY * u64::from(window));
    }

    /// Whether a SACK would give the sender a quarter of the window.
    pub(crate) fn should_update(&self, acked: Load) -> bool {
        let window = u64::from(self.behind(acked));
        let gives = |credit: &ReceiveCredit, limit: u64| {
            limit.saturating_sub(credit.limit()) >= (credit.window() / 4).max(1)
        };
        gives(&self.data, acked.bytes + window) || gives(&self.memory, acked.memory() + MEMORY * window)
    }

    /// The application has read. The window grows for a quick reader, also one of small messages.
    pub(crate) fn consume(&mut self, freed: Freed, now: Option<Epoch>) {
        if self.data.consume(freed.bytes, now) {
            self.memory.window_at_least(MEMORY * self.data.window());
        }
        if self.memory.consume(freed.memory, now) {
            self.data.window_at_least(self.memory.window() / MEMORY);
        }
    }

    /// Returns what no application will read.
    pub(crate) fn discard(&mut self, freed: Freed) {
        self.data.discard(freed.bytes);
        self.memory.discard(freed.memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u32 = 16_384;

    fn blocks(count: u64, bytes: u64) -> Load {
        Load { bytes: count * bytes, blocks: count }
    }

    // spec 3.98, 3.99
    #[test]
    fn small_blocks_meet_the_edge_of_memory_and_large_ones_that_of_user_data() {
        let mut edge = Edge::default();
        edge.raise(Load::default(), WINDOW);
        assert!(edge.takes(blocks(16, 1024)) && !edge.takes(blocks(17, 1024)));
        assert!(edge.takes(blocks(244, 6)) && !edge.takes(blocks(245, 6)));
        assert_eq!(edge.left(blocks(244, 6)), 0);
        assert_eq!(edge.left(blocks(15, 1024)), 1024);
        edge.raise(blocks(244, 6), 0);
        assert!(!edge.takes(blocks(245, 6)));
        edge.raise(blocks(244, 6), 67);
        assert!(edge.takes(blocks(245, 6)) && !edge.takes(blocks(246, 6)));
        let before = edge;
        edge.raise(blocks(100, 6), 67);
        assert_eq!(edge, before, "it never moves left");
    }

    #[test]
    fn a_sender_that_keeps_within_the_edge_finds_memory() {
        for size in [1, 6, 127, 128, 1172] {
            let mut window = ReceiveWindow::new(WINDOW.into(), (4 * WINDOW).into());
            let (mut edge, mut held, mut acked) = (Edge::default(), 0, Load::default());
            edge.raise(acked, WINDOW);
            for step in 0..20_000_u64 {
                while edge.takes(acked + blocks(1, size)) {
                    acked += blocks(1, size);
                    held += 1;
                    assert!(blocks(held, size).memory() <= window.memory(), "{size} {step}");
                }
                let read = held.min(step % 3);
                held -= read;
                let freed = Freed { bytes: read * size, memory: blocks(read, size).memory() };
                window.consume(freed, Some(Epoch(step / 7)));
                if window.should_update(acked) {
                    let aws = window.behind(acked);
                    window.on_advertised(acked, aws);
                    edge.raise(acked, aws);
                    assert!(!window.should_update(acked), "the sender knows");
                }
            }
            assert!(acked.blocks > 1000, "{size}: {acked:?}");
            assert_eq!(edge, Edge { bytes: window.data.limit(), memory: window.memory.limit() });
        }
    }

    #[test]
    fn the_window_grows_for_a_quick_reader_of_small_messages() {
        let mut window = ReceiveWindow::new(WINDOW.into(), (4 * WINDOW).into());
        let half = Freed { bytes: 0, memory: u64::from(WINDOW) + 1 };
        (0..5).for_each(|epoch| window.consume(half, Some(Epoch(epoch))));
        assert_eq!((window.data.window(), window.memory()), (u64::from(2 * WINDOW), u64::from(4 * WINDOW)));
    }
}
