//! Figures that an application reads of a connection and its paths.

use manyway_proto::{ByteCount, ConnectionStatistics, PathStatistics};

/// A path with the name of its interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathInfo {
    /// Name of the local interface, if the path is bound to one.
    pub interface: Option<String>,
    /// The figures of the path.
    pub statistics: PathStatistics,
}

/// Figures of a connection and of its paths.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// When these figures were taken. The caller may receive them later.
    pub at: std::time::Instant,
    /// Every open path, by ascending id.
    pub paths: Vec<PathInfo>,
    /// All figures of the protocol machine.
    pub statistics: ConnectionStatistics,
    /// Stream bytes that the application has written and the peer has not acknowledged: those in the protocol machine
    /// and those in the queue of each stream.
    pub unacknowledged: ByteCount,
}
