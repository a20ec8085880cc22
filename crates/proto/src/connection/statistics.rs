//! Statistics of a connection, as one snapshot.

use std::time::Duration;

use super::Connection;
use crate::engine::{PathStatistics, path_statistics};
use crate::wire::for_connection_wire;
use crate::{ByteCount, MessageStatistics, TargetReport};

/// Statistics of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionStatistics {
    /// Every open path, by ascending id.
    pub paths: Vec<PathStatistics>,
    /// Name of the scheduler.
    pub scheduler: &'static str,
    /// Name of the congestion controller.
    pub congestion: &'static str,
    /// Stream bytes waiting to be sent for the first time or again.
    pub backlog: ByteCount,
    /// Statistics of sent and received messages.
    pub messages: MessageStatistics,
    /// Duplicate stream bytes sent, and those no longer wanted on arrival: copies, and spurious retransmissions. Not
    /// counted over MMSP/1.
    pub duplicate_bytes_sent: ByteCount,
    /// Duplicate stream bytes received, and those no longer wanted.
    pub duplicate_bytes_received: ByteCount,
    /// Stream bytes received that wait ahead of a gap.
    pub ahead_of_gaps: ByteCount,
    /// The maximum of these.
    pub most_ahead_of_gaps: ByteCount,
    /// What was last measured and done for target rates; `None` without one, or before the end of its first interval.
    pub target: Option<TargetReport>,
    /// Packets that could not be decrypted: damaged, forged, repeated or late. Over MMSP/1, packets under the tag of
    /// this end whose checksum was wrong; those whose tag was damaged belong to no connection.
    pub packets_refused: u64,
    /// Number of key updates. 0 over MMSP/1.
    pub key_updates: u64,
}

impl Connection {
    /// The shortest round trip that was ever measured on one of the live paths; `None` without such a path, and until each
    /// of them was measured. Costs O(paths).
    pub fn shortest_rtt(&self) -> Option<Duration> {
        self.engine.paths.shortest_rtt()
    }

    /// Reads all statistics; costs O(paths²).
    pub fn statistics(&self) -> ConnectionStatistics {
        let engine = &self.engine;
        let (backlog, messages) = for_connection_wire!(&self.wire, wire => (wire.streams.backlog(), wire.streams.message_statistics()));
        let tally = for_connection_wire!(&self.wire, wire => wire.streams.tally());
        ConnectionStatistics {
            paths: path_statistics(&engine.paths),
            scheduler: engine.sending.scheduler.name(),
            congestion: engine.congestion(),
            backlog,
            messages,
            duplicate_bytes_sent: ByteCount(tally.duplicate_bytes_sent),
            duplicate_bytes_received: ByteCount(tally.duplicate_bytes_received),
            ahead_of_gaps: ByteCount(tally.ahead),
            most_ahead_of_gaps: ByteCount(tally.most_ahead),
            target: self.mmsp2().and_then(|mmsp2| mmsp2.targets.report().copied()),
            packets_refused: for_connection_wire!(&self.wire, wire => wire.packets_refused()),
            key_updates: for_connection_wire!(&self.wire, wire => wire.key_updates()),
        }
    }
}
