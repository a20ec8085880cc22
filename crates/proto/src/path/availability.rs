//! Availability and cost of a path, as an end reports them to its peer.

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

/// What one end reports of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathReport {
    pub(crate) availability: PathAvailability,
    /// What its use costs that end ([`PathTerms::cost`](crate::scheduler::PathTerms::cost)).
    pub(crate) cost: u8,
}

impl PathReport {
    /// What holds of a path without a report.
    pub(crate) const NONE: Self = Self { availability: PathAvailability::Available, cost: 0 };
}
