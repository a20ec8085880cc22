//! Symbolic links: reads them, and creates them in place of an existing file or link.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::{Directory, Missing, back_up, check_replaceable, failure};
use crate::directory::Target;
use crate::failure::{Failure, Reason};
use crate::link::LinkTarget;
use crate::name::{RelativePath, part_name};

impl Directory {
    /// The target of a symbolic link.
    ///
    /// # Errors
    /// There is no such link, or its target is not UTF-8.
    pub(crate) fn read_link(&self, path: &RelativePath) -> Result<String, Failure> {
        let parent = self.parent(path, Missing::Refuse)?;
        let target = rustix::fs::readlinkat(&parent, path.last(), Vec::new()).map_err(failure)?;
        target
            .into_string()
            .map_err(|_| Failure::with_text(Reason::Name, "the target of the link is not UTF-8"))
    }

    /// Creates a symbolic link in place of the file or link that stands there. No data is ever written through it:
    /// every other operation refuses a link in a path.
    // transfer 5.10
    pub(crate) fn make_link(
        &self,
        path: &RelativePath,
        target: &LinkTarget,
        expected: Target,
    ) -> Result<(), Failure> {
        let parent = self.parent(path, Missing::Make)?;
        check_replaceable(&parent, path.last())?;
        if has_target(&parent, path.last(), target) {
            return Ok(());
        }
        let temporary = part_name(&format!("{}.link", path.last()));
        remove_link(&parent, &temporary);
        rustix::fs::symlinkat(target.as_str(), &parent, &*temporary).map_err(|error| match error {
            Errno::PERM | Errno::NOTSUP => Failure::with_text(
                Reason::LeftOut,
                "symbolic link, which the file system there does not have",
            ),
            Errno::EXIST => Failure::new(Reason::Busy),
            error => failure(error),
        })?;
        let backed_up = if expected == Target::ToBackUp { back_up(&parent, path.last()) } else { Ok(()) };
        let renamed = backed_up
            .and_then(|()| rustix::fs::renameat(&parent, &*temporary, &parent, path.last()).map_err(failure));
        if renamed.is_err() {
            remove_link(&parent, &temporary);
        }
        renamed
    }
}

fn has_target(parent: &OwnedFd, name: &str, target: &LinkTarget) -> bool {
    rustix::fs::readlinkat(parent, name, Vec::new())
        .is_ok_and(|there| there.as_bytes() == target.as_str().as_bytes())
}

/// Removes what an earlier attempt left.
fn remove_link(parent: &OwnedFd, name: &str) {
    let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    if stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink) {
        let _ = rustix::fs::unlinkat(parent, name, AtFlags::empty());
    }
}
