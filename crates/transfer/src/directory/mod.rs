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
    /// Bytes that it takes on the disk, at most its size.
    pub(crate) room: u64,
    /// By what it is known to be the same one under another name; zero where nobody tells.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Names that it has.
    pub(crate) links: u64,
    pub(crate) modified: Timestamp,
    pub(crate) mode: u16,
}

/// By what a file is known again, and known not to have been touched since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: Timestamp,
    /// When its facts or its content last changed; nobody can set it.
    changed: Timestamp,
}

impl Identity {
    /// Bytes of content.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}

/// Room on a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// What this user may still take.
    pub(crate) free: u64,
    /// All there is, taken or not.
    pub(crate) total: u64,
}

/// What there is already of a file that is about to be received.
#[derive(Debug)]
pub(crate) enum Existing {
    /// Nothing that helps.
    Nothing,
    /// An unfinished file from an earlier time, not empty.
    Part(File, Identity),
    /// A file of that name and of the announced size.
    Whole(File, Identity),
}

/// The facts that a file gets with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) mode: u16,
    pub(crate) modified: Timestamp,
}

/// What stood under the final name when a file was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Nothing. If something stands there in the end, another name means the same file here, as where the file system
    /// does not tell upper from lower case, or somebody else made it.
    Free,
    /// A file, or what else may be replaced.
    Taken,
    /// The same, and what stands there shall get another name first.
    // transfer 5.11
    ToBackUp,
}

/// The name that a file gets which makes way for a new one.
fn backup_name(last: &str) -> String {
    format!("{last}~")
}

/// Whether a file's content is safe on the disk already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// It is.
    Safe,
    /// It has to be made so before the file gets its name.
    Unsafe,
}

/// The permissions for a directory once it is filled: those of its entry, if it is new; one that was there keeps its
/// own, unless it looks like the one that an earlier attempt left behind.
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
/// What its owner needs to fill a directory.
const OWNER: u16 = 0o700;

/// The name of a directory's child: as text, or, where it is none, only fit to be shown.
pub(crate) type ChildName = Result<String, String>;

#[cfg(test)]
mod tests;
