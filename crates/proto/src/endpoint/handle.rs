//! The name of a connection of an endpoint.

/// Identifies a connection of an endpoint; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle {
    pub(super) index: u32,
    /// How many connections the slot had before.
    pub(super) generation: u32,
}

impl ConnectionHandle {
    /// The slot of the connection, which earlier and later connections use too.
    pub(super) fn slot(self) -> u32 {
        self.index
    }

    /// A handle of no connection, for tests.
    #[cfg(test)]
    pub(super) fn numbered(index: usize) -> Self {
        Self { index: u32::try_from(index).unwrap(), generation: 0 }
    }
}
