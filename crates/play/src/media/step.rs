//! The steps of a search in a file that is elsewhere.

use std::ops::Range;
use std::time::Duration;

/// What a search for the length of media needs next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// These bytes of the file.
    Read(Range<u64>),
    /// Nothing more: the length, if it was found.
    Done(Option<Duration>),
}
