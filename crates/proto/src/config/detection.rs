//! The choice of failure detection.

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
