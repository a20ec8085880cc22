//! Availability of a path, as an end reports it to its peer.

/// Availability of a path in the view of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathAvailability {
    /// Carries data, or would carry it.
    Available,
    /// Carries data only if no available path works.
    Backup,
    /// Silent with data in flight.
    Suspect,
    /// Confirmed not to work.
    Dead,
}
