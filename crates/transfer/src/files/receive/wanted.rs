//! What a receiver accepts, under which name, and what happens to existing files.

use std::collections::BTreeSet;

use crate::entry::{Entry, EntryKind};
use crate::failure::{Failure, Reason};
use crate::name::RelativePath;

/// What a receiver accepts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    pub(crate) admission: Admission,
    pub(crate) existing: Existing,
    pub(crate) naming: Naming,
}

/// Which names a receiver accepts.
#[derive(Debug, Clone, Default)]
pub(crate) enum Admission {
    /// Any name: the sender may put what it likes.
    #[default]
    Anything,
    /// Any name: the whole directory was requested.
    Everything,
    /// Names that begin with one of these components: the requested ones.
    // transfer 7.3
    Below(BTreeSet<String>),
}

/// What happens to a file whose name exists at the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// It is replaced once the new one is verified.
    #[default]
    Replace,
    /// It stays, and the new one is left out.
    Keep,
    /// It is renamed with `~` at the end, replacing an earlier backup, and then replaced.
    BackUp,
}

/// Under which name an entry is received.
#[derive(Debug, Clone, Default)]
pub(crate) enum Naming {
    /// Its own.
    #[default]
    AsSent,
    /// One thing was requested. A file gets this name; a directory is put into one of this name.
    Renamed { asked: RelativePath, to: RelativePath },
}

impl Wanted {
    /// Checks an entry as it arrived.
    pub(crate) fn check(&self, entry: &Entry) -> Result<(), Failure> {
        let tree = match &self.admission {
            Admission::Anything => 1,
            Admission::Everything => 0,
            Admission::Below(names) if names.contains(entry.path.first()) => 1,
            Admission::Below(_) => return Err(Failure::new(Reason::NotRequested)),
        };
        match &entry.kind {
            // transfer 2.6: the receiver does not trust the sender's check
            EntryKind::Link(target) if !target.stays_below(&entry.path, tree) => {
                let text = format!("a symbolic link that leads out of the tree, to {target}");
                Err(Failure::with_text(Reason::Name, text))
            }
            EntryKind::Link(_) | EntryKind::File | EntryKind::Directory | EntryKind::Stream => Ok(()),
        }
    }

    /// The entry under its name at the receiver.
    pub(crate) fn rename(&self, entry: &Entry) -> Result<Entry, Failure> {
        let Naming::Renamed { to, .. } = &self.naming else { return Ok(entry.clone()) };
        let is_file = entry.kind.has_content() && entry.path.parent().is_none();
        let path = if is_file {
            to.clone()
        } else {
            RelativePath::parse(&format!("{}/{}", to.as_str(), entry.path.as_str()))?
        };
        Ok(Entry { path, ..entry.clone() })
    }

    /// The sender's name of what is called `path` here.
    pub(crate) fn sent_name(&self, path: &RelativePath) -> RelativePath {
        let Naming::Renamed { asked, to } = &self.naming else { return path.clone() };
        if path == to {
            return asked.clone();
        }
        let below = path.as_str().strip_prefix(to.as_str()).and_then(|rest| rest.strip_prefix('/'));
        below.and_then(|rest| RelativePath::parse(rest).ok()).unwrap_or_else(|| path.clone())
    }
}
