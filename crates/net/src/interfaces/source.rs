//! Where snapshots of the interfaces come from.

use std::fmt;
use std::io;
use std::task::{Context, Poll};

use super::snapshot::Snapshot;

/// A message of the system between two snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hint {
    /// Something may have been added or changed: not urgent.
    Gained,
    /// Something was removed, or messages were lost: read at once.
    Lost,
}

/// The source of snapshots: one implementation for each kind of system.
pub trait InterfaceSource: fmt::Debug + Send {
    /// Reads the interfaces from the system.
    ///
    /// # Errors
    /// If the system refuses.
    fn snapshot(&mut self) -> io::Result<Snapshot>;

    /// Waits for a message. A source without messages is always pending and is polled every few seconds.
    fn poll_hint(&mut self, context: &mut Context<'_>) -> Poll<Hint>;
}
