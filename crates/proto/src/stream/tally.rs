//! Totals of the bytes of a connection.

/// Sums over the life of the connection, including finished streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    /// Bytes sent that have arrived without a gap.
    pub(crate) arrived_in_order: u64,
    /// Bytes sent that arrived although a copy had arrived before, or that were no longer wanted.
    pub(crate) duplicate_bytes_sent: u64,
    /// The same for received bytes.
    pub(crate) duplicate_bytes_received: u64,
    /// Bytes that wait ahead of gaps, and their maximum.
    pub(crate) ahead: u64,
    pub(crate) most_ahead: u64,
}
