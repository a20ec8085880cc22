//! The handle of a connection of an endpoint.

/// Identifies a connection of an endpoint; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle {
    /// Its slot, which earlier and later connections use too.
    pub(super) slot: u32,
    /// How many connections the slot had before.
    pub(super) generation: u32,
}

impl ConnectionHandle {
    /// A handle of no connection, for tests.
    #[cfg(test)]
    pub(super) fn numbered(index: usize) -> Self {
        Self { slot: u32::try_from(index).unwrap(), generation: 0 }
    }
}
