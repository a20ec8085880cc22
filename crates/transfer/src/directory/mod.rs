//! A directory that files are read from and written to, and that no name or link leads out of.
//!
//! Names are resolved one component after the other, and a symbolic link is never followed below the directory.
//! On Unix this holds against other processes too (`openat` with `O_NOFOLLOW`); elsewhere each component is checked
//! before it is used, which a local user who replaces directories at the right moment can defeat.

#[cfg(any(not(unix), test))]
mod portable;
#[cfg(unix)]
mod unix;

use crate::entry::{EntryKind, Timestamp};
use crate::failure::{Failure, Reason};

use std::fs::File;

#[cfg(not(unix))]
pub(crate) use portable::{Directory, PartFile, umask};
#[cfg(unix)]
pub(crate) use unix::{Directory, PartFile, umask};

/// What the file system says about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) kind: EntryKind,
    pub(crate) size: u64,
    /// Bytes that it occupies on the disk, at most its size.
    pub(crate) room: u64,
    /// Device and inode identify a file under any of its names; zero where the system does not report them.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Number of its names.
    pub(crate) links: u64,
    pub(crate) modified: Timestamp,
    pub(crate) mode: u16,
}

/// Identifies a file and shows whether it was modified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: Timestamp,
    /// When its metadata or its content last changed; no program can set it.
    changed: Timestamp,
}

impl Identity {
    /// Bytes of content.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}

/// Space on a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// What this user may still use.
    pub(crate) free: u64,
    /// Total, used or not.
    pub(crate) total: u64,
}

/// What exists of a file that is about to be received.
#[derive(Debug)]
pub(crate) enum Existing {
    /// Nothing usable.
    Nothing,
    /// An unfinished file from an earlier attempt, not empty.
    Part(File, Identity),
    /// A file of that name and of the announced size.
    Whole(File, Identity),
}

/// The metadata that a file gets with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) mode: u16,
    pub(crate) modified: Timestamp,
}

/// What stood under the final name when a file was looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Nothing. If the name exists in the end, another program made it, or another name means the same file here, as
    /// where the file system ignores case.
    Free,
    /// A file, or another entry that may be replaced.
    Taken,
    /// The same, and it shall be renamed to its backup name first.
    // transfer 5.11
    ToBackUp,
}

/// The name to which a file is renamed before a new one takes its place.
fn backup_name(last: &str) -> String {
    format!("{last}~")
}

/// Whether a file's content is safe on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// It is.
    Safe,
    /// It has to be synced before the file gets its name.
    Unsafe,
}

/// The permissions for a directory once it is filled. A new one gets those of its entry; an existing one keeps its own,
/// unless it looks like one that an earlier attempt left behind.
// transfer 5.8
pub(crate) fn final_mode(entry: u16, before: Option<u16>) -> u16 {
    match before {
        Some(before) if before != entry | OWNER => before,
        Some(_) | None => entry,
    }
}

fn other_name() -> Failure {
    Failure::with_text(
        Reason::Name,
        "a file of that name has appeared meanwhile, perhaps by a name that means the same here",
    )
}

fn too_many_children() -> Failure {
    Failure::with_text(Reason::Limit, format!("a directory of more than {MAX_CHILDREN} names"))
}

/// Most names in one directory: a walk keeps them in memory, about 100 bytes each.
// transfer 3.1
const MAX_CHILDREN: usize = 1_000_000;
/// The permissions that the owner needs to fill a directory.
const OWNER: u16 = 0o700;

/// The name of a directory's child: as text, or, if it is none, only fit for display.
pub(crate) type ChildName = Result<String, String>;

#[cfg(test)]
mod tests;
