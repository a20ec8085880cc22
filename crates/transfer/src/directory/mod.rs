//! A directory that files are taken from and put into, and that nothing leads out of.
//!
//! Names are resolved one component after the other, and a symbolic link is never followed below the directory.
//! On Unix this holds against other processes too (`openat` with `O_NOFOLLOW`); elsewhere each component is checked
//! before it is used, which a local user who replaces directories at the right moment can defeat.

#[cfg(any(not(unix), test))]
mod portable;
#[cfg(unix)]
mod unix;

use crate::entry::{EntryKind, Timestamp};

#[cfg(not(unix))]
pub(crate) use portable::{Directory, PartFile};
#[cfg(unix)]
pub(crate) use unix::{Directory, PartFile};

/// What the file system says about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) kind: EntryKind,
    pub(crate) size: u64,
    pub(crate) modified: Timestamp,
    pub(crate) mode: u16,
}

/// The name of a directory's child: as text, or, where it is none, only fit to be shown.
pub(crate) type ChildName = Result<String, String>;

#[cfg(test)]
mod tests;
