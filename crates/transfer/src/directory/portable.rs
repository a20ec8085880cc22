//! The directory by paths, for systems without `openat`: checks each component before it uses it.

use std::fs::{self, File, FileTimes, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::{Attributes, ChildName, Durability, Existing, Facts, Identity, OWNER, Room, Target};
use crate::entry::{EntryKind, MODE_MASK, Timestamp};
use crate::failure::{Failure, Reason};
use crate::link::LinkTarget;
use crate::name::{RelativePath, is_part, part_name};

/// New files get the permissions that the system gives them.
#[cfg(not(unix))]
pub(crate) fn umask() -> u16 {
    0
}

/// A directory by its canonical path.
#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
}

impl Directory {
    /// Opens a directory of the local user's choice; links on the way to it are followed.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let root = path.canonicalize().map_err(|e| Failure::from_io(&e))?;
        if !root.is_dir() {
            return Err(Failure::new(Reason::NotDirectory));
        }
        Ok(Self { root })
    }

    /// The same directory for one transfer.
    pub(crate) fn for_transfer(&self) -> Self {
        Self { root: self.root.clone() }
    }

    /// Looks up what exists of `path` from earlier, for a file of `size` bytes, and what stands under its name, which
    /// is refused if it cannot be replaced. Creates nothing.
    // transfer 4.13
    pub(crate) fn look(&self, path: &RelativePath, size: u64) -> Result<(Existing, Target), Failure> {
        let parent = match self.parent(path, Missing::Refuse) {
            Ok(parent) => parent,
            Err(failure) if failure.reason == Reason::NotFound => {
                return Ok((Existing::Nothing, Target::Free));
            }
            Err(failure) => return Err(failure),
        };
        let place = parent.join(path.last());
        let target = check_replaceable(&place)?;
        let part = parent.join(part_name(path.last()));
        if let Ok(metadata) = part.symlink_metadata() {
            let identity = own_part(&metadata)?;
            if identity.size > 0 {
                return Ok((Existing::Part(open(&part)?, identity), target));
            }
        }
        let existing = match place.symlink_metadata() {
            Ok(metadata) if metadata.is_file() && metadata.len() == size && size > 0 => {
                Existing::Whole(open(&place)?, identity(&metadata))
            }
            Ok(_) | Err(_) => Existing::Nothing,
        };
        Ok((existing, target))
    }

    /// Opens the temporary file for `path`, with its content from earlier; creates it and its parent directories if
    /// they do not exist.
    // transfer 5.1, 5.2
    pub(crate) fn open_part(&self, path: &RelativePath) -> Result<PartFile, Failure> {
        let parent = self.parent(path, Missing::Make)?;
        let temporary = parent.join(part_name(path.last()));
        if let Ok(metadata) = temporary.symlink_metadata() {
            own_part(&metadata)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(windows)]
        std::os::windows::fs::OpenOptionsExt::share_mode(&mut options, 0);
        let file = options.open(&temporary).map_err(|error| Failure::from_io(&error))?;
        let opened = file.metadata().map(|metadata| identity(&metadata));
        Ok(PartFile { file, opened: opened.map_err(|error| Failure::from_io(&error))?, temporary })
    }

    /// Gives a complete temporary file its permissions, time and name, if it still is as it was when its last byte was
    /// written. One that is not open any more is opened once more.
    // transfer 5.4, 5.15
    pub(crate) fn settle(
        &self,
        path: &RelativePath,
        (complete, open): (Identity, Option<PartFile>),
        attributes: Attributes,
        (durability, expected): (Durability, Target),
    ) -> Result<(), Failure> {
        let part = match open {
            Some(part) => part,
            None => self.open_part(path)?,
        };
        if part.identity()? != complete {
            return Err(Failure::with_text(
                Reason::Busy,
                "its temporary file was changed by another process",
            ));
        }
        let target = self.parent(path, Missing::Refuse)?.join(path.last());
        check_replaceable(&target)?;
        let PartFile { file, temporary, .. } = part;
        set_attributes(&file, attributes)
            .and_then(|()| if durability == Durability::Safe { Ok(()) } else { file.sync_all() })
            .map_err(|error| Failure::from_io(&error))?;
        // Some systems cannot rename an open file.
        drop(file);
        let is_there = target.symlink_metadata().is_ok();
        match expected {
            Target::Free if is_there => return Err(super::other_name()),
            Target::ToBackUp if is_there => {
                let backup = target.with_file_name(super::backup_name(path.last()));
                fs::rename(&target, backup).map_err(|error| Failure::from_io(&error))?;
            }
            Target::Free | Target::ToBackUp | Target::Taken => {}
        }
        fs::rename(temporary, target).map_err(|error| Failure::from_io(&error))
    }

    /// What stands under a final name.
    pub(crate) fn target(&self, path: &RelativePath) -> Target {
        let place = self.parent(path, Missing::Refuse).map(|parent| parent.join(path.last()));
        if place.is_ok_and(|place| place.symlink_metadata().is_ok()) { Target::Taken } else { Target::Free }
    }

    /// Gives an existing file the permissions and time of its entry, if it was not modified since it was looked up.
    pub(crate) fn adopt(
        &self,
        path: &RelativePath,
        looked_at: &Identity,
        attributes: Attributes,
    ) -> Result<(), Failure> {
        let place = self.parent(path, Missing::Refuse)?.join(path.last());
        let metadata = place.symlink_metadata().map_err(|e| Failure::from_io(&e))?;
        if identity(&metadata) != *looked_at {
            return Err(Failure::with_text(Reason::Busy, "it was changed by another process"));
        }
        if looked_at.modified == attributes.modified {
            return Ok(());
        }
        let file = OpenOptions::new().write(true).open(place).map_err(|e| Failure::from_io(&e))?;
        set_attributes(&file, attributes).map_err(|e| Failure::from_io(&e))
    }

    /// Creates a directory and its parents; returns the permissions of an existing one.
    // transfer 5.8
    pub(crate) fn make_directory(&self, path: &RelativePath, _mode: u16) -> Result<Option<u16>, Failure> {
        let directory = self.parent(path, Missing::Make)?.join(path.last());
        let before = directory.symlink_metadata().is_ok().then_some(OWNER);
        make(&directory)?;
        check_directory(&directory)?;
        Ok(before)
    }

    /// No metadata can be set on a directory on every system.
    pub(crate) fn finish_directory(&self, path: &RelativePath, _: Attributes) -> Result<(), Failure> {
        check_directory(&self.parent(path, Missing::Refuse)?.join(path.last()))
    }

    /// Directories need no sync where this is used.
    pub(crate) fn sync(&self, path: Option<&RelativePath>) -> Result<(), Failure> {
        path.map_or(Ok(()), |path| self.parent(path, Missing::Refuse).map(drop))
    }

    /// There is no single call for that.
    pub(crate) fn sync_everything(&self) -> Result<Durability, Failure> {
        check_directory(&self.root)?;
        Ok(Durability::Unsafe)
    }

    /// The target of a symbolic link.
    pub(crate) fn read_link(&self, path: &RelativePath) -> Result<String, Failure> {
        let place = self.parent(path, Missing::Refuse)?.join(path.last());
        let target = fs::read_link(place).map_err(|error| Failure::from_io(&error))?;
        let target = target.into_os_string().into_string();
        target.map_err(|_| Failure::with_text(Reason::Name, "the target of the link is not UTF-8"))
    }

    /// Some systems support no links, or links of one kind only.
    pub(crate) fn make_link(&self, path: &RelativePath, _: &LinkTarget, _: Target) -> Result<(), Failure> {
        self.parent(path, Missing::Refuse)?;
        Err(Failure::with_text(Reason::LeftOut, "symbolic link, which this system does not make"))
    }

    /// The available space is unknown here.
    pub(crate) fn room(&self, _: &RelativePath) -> Result<Room, Failure> {
        check_directory(&self.root)?;
        Ok(Room { free: u64::MAX, total: u64::MAX })
    }

    /// The largest unfinished file beside `path` other than its own: its name and its size on disk.
    pub(crate) fn largest_part(&self, path: &RelativePath) -> Option<(String, u64)> {
        let parent = self.parent(path, Missing::Refuse).ok()?;
        let own = part_name(path.last());
        let parts = fs::read_dir(parent).ok()?.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_other = is_part(&name) && name != own;
            is_other.then_some((name, entry.metadata().ok()?.len()))
        });
        parts.max_by_key(|(_, bytes)| *bytes)
    }

    /// Whether files there are generated while they are read: no such file system is known here.
    #[expect(clippy::unused_self, reason = "elsewhere it depends on the directory")]
    pub(crate) fn is_made_up(&self, _: &RelativePath) -> bool {
        false
    }

    /// Opens a regular file for reading.
    pub(crate) fn read(&self, path: &RelativePath) -> Result<(File, Facts), Failure> {
        let facts = self.describe(path)?;
        if facts.kind == EntryKind::Directory {
            return Err(Failure::new(Reason::IsDirectory));
        }
        let place = self.parent(path, Missing::Refuse)?.join(path.last());
        let file = File::open(place).map_err(|e| Failure::from_io(&e))?;
        Ok((file, facts))
    }

    /// What a name stands for.
    pub(crate) fn describe(&self, path: &RelativePath) -> Result<Facts, Failure> {
        let place = self.parent(path, Missing::Refuse)?.join(path.last());
        facts(&place.symlink_metadata().map_err(|e| Failure::from_io(&e))?)
    }

    /// The children of a directory in order of their names; `None` is the directory itself.
    pub(crate) fn children(&self, path: Option<&RelativePath>) -> Result<Vec<ChildName>, Failure> {
        let directory = match path {
            Some(path) => self.parent(path, Missing::Refuse)?.join(path.last()),
            None => self.root.clone(),
        };
        check_directory(&directory)?;
        let mut names = Vec::new();
        for entry in fs::read_dir(directory).map_err(|e| Failure::from_io(&e))? {
            let entry = entry.map_err(|e| Failure::from_io(&e))?;
            if names.len() >= super::MAX_CHILDREN {
                return Err(super::too_many_children());
            }
            names.push(entry.file_name().into_string().map_err(|n| n.to_string_lossy().into_owned()));
        }
        names.sort_unstable();
        Ok(names)
    }

    fn parent(&self, path: &RelativePath, missing: Missing) -> Result<PathBuf, Failure> {
        let mut directory = self.root.clone();
        let mut components = path.components();
        components.next_back();
        for component in components {
            directory.push(component);
            if missing == Missing::Make {
                make(&directory)?;
            }
            check_directory(&directory)?;
        }
        Ok(directory)
    }
}

/// A file in transfer under its temporary name. It stays when this is dropped, to be resumed later.
#[derive(Debug)]
pub(crate) struct PartFile {
    file: File,
    opened: Identity,
    temporary: PathBuf,
}

impl PartFile {
    /// The file for the content.
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Its identity when it was opened.
    pub(crate) fn opened(&self) -> Identity {
        self.opened
    }

    /// Its current identity.
    pub(crate) fn identity(&self) -> Result<Identity, Failure> {
        self.file.metadata().map(|metadata| identity(&metadata)).map_err(|e| Failure::from_io(&e))
    }

    /// Removes it.
    pub(crate) fn discard(self) {
        drop(self.file);
        let _ = fs::remove_file(&self.temporary);
    }
}

/// What to do about a missing parent directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Refuse,
}

fn make(directory: &Path) -> Result<(), Failure> {
    match fs::create_dir(directory) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Failure::from_io(&error)),
    }
}

fn check_directory(directory: &Path) -> Result<(), Failure> {
    let metadata = directory.symlink_metadata().map_err(|e| Failure::from_io(&e))?;
    if metadata.is_symlink() {
        return Err(Failure::new(Reason::SymbolicLink));
    }
    if !metadata.is_dir() {
        return Err(Failure::new(Reason::NotDirectory));
    }
    Ok(())
}

fn facts(metadata: &Metadata) -> Result<Facts, Failure> {
    let kind = if metadata.is_file() {
        EntryKind::File
    } else if metadata.is_dir() {
        EntryKind::Directory
    } else if metadata.is_symlink() {
        return Err(Failure::new(Reason::SymbolicLink));
    } else {
        return Err(Failure::new(Reason::NotFile));
    };
    let modified = metadata.modified().map(Timestamp::from).unwrap_or_default();
    let mode = if metadata.permissions().readonly() { 0o444 } else { 0o644 };
    let size = if kind == EntryKind::File { metadata.len() } else { 0 };
    let mode = mode & MODE_MASK;
    Ok(Facts { kind, size, room: size, device: 0, inode: 0, links: 1, modified, mode })
}

// transfer 5.13
fn check_replaceable(target: &Path) -> Result<Target, Failure> {
    match target.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => Err(Failure::new(Reason::IsDirectory)),
        Ok(metadata) if !metadata.is_file() && !metadata.is_symlink() => Err(Failure::new(Reason::NotFile)),
        Ok(_) => Ok(Target::Taken),
        Err(_) => Ok(Target::Free),
    }
}

fn own_part(metadata: &Metadata) -> Result<Identity, Failure> {
    if metadata.is_file() { Ok(identity(metadata)) } else { Err(Failure::new(Reason::NotFile)) }
}

fn open(place: &Path) -> Result<File, Failure> {
    File::open(place).map_err(|error| Failure::from_io(&error))
}

fn identity(metadata: &Metadata) -> Identity {
    let modified = metadata.modified().map(Timestamp::from).unwrap_or_default();
    Identity { device: 0, inode: 0, size: metadata.len(), modified, changed: Timestamp::default() }
}

fn set_attributes(file: &File, attributes: Attributes) -> io::Result<()> {
    file.set_times(FileTimes::new().set_modified(attributes.modified.to_system_time()))?;
    if attributes.mode & 0o222 == 0 {
        let mut permissions = file.metadata()?.permissions();
        permissions.set_readonly(true);
        file.set_permissions(permissions)?;
    }
    Ok(())
}
