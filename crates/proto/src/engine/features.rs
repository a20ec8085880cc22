//! What a wire offers the engine. The engine does without what is missing.

use std::time::Duration;

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

/// How the failure of a path is detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Detection {
    /// By silence, probe timeouts and reports of the peer, within some round trips (chapter 6 of the specification). The
    /// default.
    #[default]
    Fast,
    /// By path challenges alone: a path fails after three of them without an answer, each of which has at least 1 s. MMSP/1
    /// only (rule 3.85 of the specification).
    Probes,
}
