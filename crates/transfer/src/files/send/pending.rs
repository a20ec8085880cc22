//! Announced entries, and what the receiver replies to them.

use crate::answer::Answer;
use crate::entry::Entry;
use crate::files::walk::Origin;

/// A file or directory that was announced and is not done.
pub(super) struct Pending {
    pub(super) index: u64,
    pub(super) origin: Origin,
    pub(super) entry: Entry,
    /// Bytes of its ENTRY.
    pub(super) weight: usize,
}

/// The receiver's reply to the next entry.
#[derive(Debug)]
pub(crate) enum Reply {
    /// It accepts the entry, and has this much of it.
    Answer(Answer),
    /// It refuses the entry.
    Refused,
}
