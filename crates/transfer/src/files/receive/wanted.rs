//! What a receiver takes, under which name, and what it does with files that are there.

use std::collections::BTreeSet;

use crate::entry::{Entry, EntryKind};
use crate::failure::{Failure, Reason};
use crate::name::RelativePath;

/// What a receiver takes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    pub(crate) admission: Admission,
    pub(crate) existing: Existing,
    pub(crate) naming: Naming,
}

/// Which names a receiver takes.
#[derive(Debug, Clone, Default)]
pub(crate) enum Admission {
    /// Any name: the sender was invited to put what it likes.
    #[default]
    Anything,
    /// Any name: everything was asked for that is in a directory.
    Everything,
    /// Names that begin with one of these components: what was asked for.
    // transfer 7.3
    Below(BTreeSet<String>),
}

/// What happens to a file whose name is taken at the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// It is replaced once the new one is verified.
    #[default]
    Replace,
    /// It stays, and the new one is left out.
    Keep,
    /// It gets its name with `~` at the end, in the place of an earlier one of that name, and is then replaced.
    BackUp,
}

/// Under which name something is received.
#[derive(Debug, Clone, Default)]
pub(crate) enum Naming {
    /// Its own.
    #[default]
    AsSent,
    /// One thing was asked for. If it is a file it gets this name; a directory lies in one of this name.
    Renamed { asked: RelativePath, to: RelativePath },
}

impl Wanted {
    /// Checks an entry as it came.
    pub(crate) fn check(&self, entry: &Entry) -> Result<(), Failure> {
        let tree = match &self.admission {
            Admission::Anything => 1,
            Admission::Everything => 0,
            Admission::Below(names) if names.contains(entry.path.first()) => 1,
            Admission::Below(_) => return Err(Failure::new(Reason::Unasked)),
        };
        match &entry.kind {
            // transfer 2.6: the receiver does not trust the sender with that
            EntryKind::Link(target) if !target.stays_below(&entry.path, tree) => {
                let text = format!("a symbolic link that leads out of the tree, to {target}");
                Err(Failure::with_text(Reason::Name, text))
            }
            EntryKind::Link(_) | EntryKind::File | EntryKind::Directory | EntryKind::Stream => Ok(()),
        }
    }

    /// The entry under the name that it gets here.
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

    /// The name by which the sender knows what is called `path` here.
    pub(crate) fn sent_name(&self, path: &RelativePath) -> RelativePath {
        let Naming::Renamed { asked, to } = &self.naming else { return path.clone() };
        if path == to {
            return asked.clone();
        }
        let below = path.as_str().strip_prefix(to.as_str()).and_then(|rest| rest.strip_prefix('/'));
        below.and_then(|rest| RelativePath::parse(rest).ok()).unwrap_or_else(|| path.clone())
    }
}
