//! What a wire offers the engine. The engine does without what is missing.

use std::time::Duration;

use crate::Detection;

/// What a wire offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Features {
    /// Packets can be padded to any size: so the datagram size can be searched, and a path challenge that fills a datagram
    /// proves that the path carries it.
    pub(crate) padding: bool,
    /// Acknowledgements count ECN marks.
    pub(crate) ecn: bool,
    /// The shortest time between two challenges to an address that never answered.
    pub(crate) between_challenges: Duration,
    /// How the failure of a path is detected.
    pub(crate) detection: Detection,
}

impl Features {
    /// Everything.
    pub(crate) const ALL: Self =
        Self { padding: true, ecn: true, between_challenges: Duration::ZERO, detection: Detection::Fast };
}
