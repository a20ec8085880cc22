//! What an end thinks of a path, as it tells its peer.

/// What an end thinks of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathAvailability {
    /// Carries data, or would.
    Available,
    /// Only if no available one works.
    Backup,
    /// Silent with data in flight.
    Suspect,
    /// Confirmed not to work.
    Dead,
}
