//! What the send queue keeps in each stream.

use crate::Instant;
use crate::mmsp2::stream::send::Ready;
use crate::stream::priority::Rank;

/// The queue's state of one stream; a part of the stream, maintained by the queue.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Its part of the totals.
    pub(super) counted: Ready,
    /// Whether it counts as waiting for its own credit.
    pub(super) blocked: bool,
    pub(super) place: Place,
    /// Control blocks to send.
    pub(super) control: ControlBlocks,
    pub(super) in_control: bool,
}

/// The ranks of a stream in the data queues, and its expiry.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) retransmissions: Option<Rank>,
    pub(super) new: Option<Rank>,
    pub(super) deferred: Option<Rank>,
    pub(super) expiry: Option<Instant>,
}

/// A set of control blocks of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ControlBlocks(u8);

impl ControlBlocks {
    pub(super) const MAX_STREAM_DATA: Self = Self(1);
    pub(super) const RESET_STREAM: Self = Self(2);
    pub(super) const STOP_SENDING: Self = Self(4);
    pub(super) const BLOCKED: Self = Self(8);
    pub(super) const SKIP: Self = Self(16);

    pub(super) fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(super) fn remove(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    pub(super) fn contains(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}
