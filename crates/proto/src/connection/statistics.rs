//! The figures of a connection, as one snapshot.

use super::Connection;
use crate::engine::{PathStatistics, path_statistics};
use crate::{ByteCount, MessageStatistics};

/// Figures of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionStatistics {
    /// Every open path, by ascending id.
    pub paths: Vec<PathStatistics>,
    /// Name of the scheduler.
    pub scheduler: &'static str,
    /// Name of the congestion control.
    pub congestion: &'static str,
    /// Stream bytes waiting to be sent for the first time or again.
    pub backlog: ByteCount,
    /// What became of messages, own ones and those of the peer.
    pub messages: MessageStatistics,
    /// Bytes of streams sent that arrived twice, or when nobody wanted them any more: copies, and repeats that were not
    /// needed.
    pub duplicate_bytes_sent: ByteCount,
    /// Bytes of streams received that were here before, or that nobody wanted any more.
    pub duplicate_bytes_received: ByteCount,
    /// Bytes of streams received that wait ahead of a gap.
    pub ahead_of_gaps: ByteCount,
    /// The most that ever waited so.
    pub most_ahead_of_gaps: ByteCount,
    /// Packets that could not be opened: damaged, forged, repeated or late.
    pub packets_refused: u64,
    /// How often the keys were changed.
    pub key_updates: u64,
}

impl Connection {
    /// Reads all figures; costs O(paths²).
    pub fn statistics(&self) -> ConnectionStatistics {
        let (engine, mmsp2) = (&self.engine, self.mmsp2());
        let (streams, tally) = (&mmsp2.streams, mmsp2.streams.tally());
        ConnectionStatistics {
            paths: path_statistics(&engine.paths),
            scheduler: engine.sending.scheduler.name(),
            congestion: engine.congestion(),
            backlog: streams.backlog(),
            messages: streams.message_statistics(),
            duplicate_bytes_sent: ByteCount(tally.duplicate_bytes_sent),
            duplicate_bytes_received: ByteCount(tally.duplicate_bytes_received),
            ahead_of_gaps: ByteCount(tally.ahead),
            most_ahead_of_gaps: ByteCount(tally.most_ahead),
            packets_refused: mmsp2.packets_refused(),
            key_updates: mmsp2.key_updates(),
        }
    }
}
