//! The directory by file descriptors: no race in which a name could be exchanged for a link.

mod beneath;
mod links;
mod recent;
mod room;
mod umask;

use std::fs::{File, FileTimes, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{Attributes, ChildName, Durability, Existing, Facts, Identity, OWNER, Target};
use crate::entry::{EntryKind, MODE_MASK, Timestamp};
use crate::failure::{Failure, Reason};
use crate::name::{RelativePath, part_name, printable};

use recent::Recent;
pub(crate) use umask::umask;

/// An open directory.
#[derive(Debug)]
pub(crate) struct Directory {
    root: Arc<OwnedFd>,
    /// Directories below it that stay open, if this is for one transfer.
    recent: Option<Recent>,
}

impl Directory {
    /// Opens a directory of the local user's choice; links on the way to it are followed.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(failure)?;
        Ok(Self { root: Arc::new(root), recent: None })
    }

    /// The same directory for one transfer: directories below it that are used again stay open, until this is dropped.
    pub(crate) fn for_transfer(&self) -> Self {
        Self { root: Arc::clone(&self.root), recent: Some(Recent::default()) }
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
        let target = check_replaceable(&parent, path.last())?;
        let part = part_name(path.last());
        if let Ok(file) = rustix::fs::openat(&parent, &*part, READ, Mode::empty()) {
            let identity = own_part(&file, &part)?;
            if identity.size > 0 {
                return Ok((Existing::Part(File::from(file), identity), target));
            }
        }
        if target == Target::Free {
            return Ok((Existing::Nothing, target));
        }
        let Ok(file) = rustix::fs::openat(&parent, path.last(), READ, Mode::empty()) else {
            return Ok((Existing::Nothing, target));
        };
        let stat = rustix::fs::fstat(&file).map_err(failure)?;
        let identity = identity(&stat);
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if is_file && identity.size == size && size > 0 {
            return Ok((Existing::Whole(File::from(file), identity), target));
        }
        Ok((Existing::Nothing, target))
    }

    /// Opens the temporary file for `path`, locked, with its content from earlier; creates it and its parent
    /// directories if they do not exist.
    // transfer 5.1, 5.2
    pub(crate) fn open_part(&self, path: &RelativePath) -> Result<PartFile, Failure> {
        let parent = self.parent(path, Missing::Make)?;
        let temporary = part_name(path.last());
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let created = flags | OFlags::CREATE | OFlags::EXCL;
        for _ in 0..OPEN_ATTEMPTS {
            let (file, is_new) = match open_private(&parent, &temporary, created) {
                Err(Errno::EXIST) => (open_private(&parent, &temporary, flags), false),
                file => (file, true),
            };
            let file = match file {
                Ok(file) => file,
                // A file that has its final permissions, but not yet its name, may be read-only.
                Err(Errno::ACCESS)
                    if rustix::fs::unlinkat(&parent, &*temporary, AtFlags::empty()).is_ok() =>
                {
                    continue;
                }
                Err(Errno::NOENT) if !is_new => continue,
                Err(error) => return Err(failure(error)),
            };
            let opened = own_part(&file, &temporary)?;
            // Between our open and our lock another process may have filled and renamed it, and has then set its time.
            let is_untouched = is_new && opened.size == 0 && opened.modified == opened.changed;
            if is_untouched || is_same(&parent, &temporary, &opened) {
                return Ok(PartFile { file: File::from(file), opened, parent, temporary });
            }
        }
        Err(Failure::new(Reason::Busy))
    }

    /// Opens a complete temporary file once more.
    fn reopen(&self, path: &RelativePath) -> Result<PartFile, Failure> {
        let parent = self.parent(path, Missing::Refuse)?;
        let temporary = part_name(path.last());
        let file = rustix::fs::openat(&parent, &*temporary, READ, Mode::empty()).map_err(failure)?;
        let opened = own_part(&file, &temporary)?;
        Ok(PartFile { file: File::from(file), opened, parent, temporary })
    }

    /// Gives a complete temporary file its permissions, time and name, if it still is as it was when its last byte was
    /// written. One that is not open any more is opened once more.
    // transfer 5.4, 5.15
    pub(crate) fn settle(
        &self,
        path: &RelativePath,
        (complete, open): (Identity, Option<PartFile>),
        attributes: Attributes,
        (durability, target): (Durability, Target),
    ) -> Result<(), Failure> {
        let part = match open {
            Some(part) => part,
            None => self.reopen(path)?,
        };
        if part.identity()? != complete {
            return Err(Failure::with_text(
                Reason::Busy,
                "its temporary file was changed by another process",
            ));
        }
        let PartFile { file, parent, temporary, .. } = part;
        set_attributes(&file, attributes)
            .and_then(|()| if durability == Durability::Safe { Ok(()) } else { file.sync_all() })
            .map_err(|error| Failure::from_io(&error))?;
        if target == Target::Free {
            return match rename_to_free(&parent, &temporary, path.last()) {
                Err(Errno::EXIST) => {
                    check_replaceable(&parent, path.last())?;
                    Err(super::other_name())
                }
                renamed => renamed.map_err(failure),
            };
        }
        check_replaceable(&parent, path.last())?;
        if target == Target::ToBackUp {
            back_up(&parent, path.last())?;
        }
        rustix::fs::renameat(&parent, &*temporary, &parent, path.last()).map_err(failure)
    }

    /// What stands under a final name.
    pub(crate) fn target(&self, path: &RelativePath) -> Target {
        let parent = self.parent(path, Missing::Refuse);
        let stat = parent.map(|parent| rustix::fs::statat(&parent, path.last(), AtFlags::SYMLINK_NOFOLLOW));
        if matches!(stat, Ok(Ok(_))) { Target::Taken } else { Target::Free }
    }

    /// Gives an existing file the permissions and time of its entry, if it was not modified since it was looked up.
    pub(crate) fn adopt(
        &self,
        path: &RelativePath,
        looked_at: &Identity,
        attributes: Attributes,
    ) -> Result<(), Failure> {
        let parent = self.parent(path, Missing::Refuse)?;
        let file = rustix::fs::openat(&parent, path.last(), READ, Mode::empty()).map_err(failure)?;
        let stat = rustix::fs::fstat(&file).map_err(failure)?;
        if identity(&stat) != *looked_at {
            return Err(Failure::with_text(Reason::Busy, "it was changed by another process"));
        }
        let facts = facts(&stat)?;
        if facts.mode == attributes.mode && facts.modified == attributes.modified {
            return Ok(());
        }
        set_attributes(&File::from(file), attributes).map_err(|error| Failure::from_io(&error))
    }

    /// Creates a directory and its parents, so that its owner can fill it; returns the permissions of an existing one.
    // transfer 5.8
    pub(crate) fn make_directory(&self, path: &RelativePath, mode: u16) -> Result<Option<u16>, Failure> {
        let parent = self.parent(path, Missing::Make)?;
        let before = match rustix::fs::mkdirat(&parent, path.last(), Mode::RWXU) {
            Ok(()) => None,
            Err(Errno::EXIST) => Some(()),
            Err(error) => return Err(failure(error)),
        };
        let directory = step(&parent, path.last())?;
        let stat = rustix::fs::fstat(&directory).map_err(failure)?;
        let before = before.map(|()| number::<_, u16>(stat.st_mode & 0o7777) & MODE_MASK);
        // The umask was applied to the entry already; here it must not remove what the owner needs.
        let wanted = before.unwrap_or(mode & MODE_MASK) | OWNER;
        if before != Some(wanted) {
            let changed = rustix::fs::fchmod(&directory, Mode::from_raw_mode(wanted.into()));
            if before.is_none() {
                changed.map_err(failure)?;
            }
        }
        Ok(before)
    }

    /// Gives a filled directory its permissions and time.
    pub(crate) fn finish_directory(
        &self,
        path: &RelativePath,
        attributes: Attributes,
    ) -> Result<(), Failure> {
        let directory = self.open_directory(Some(path))?;
        set_attributes(&File::from(directory), attributes).map_err(|error| Failure::from_io(&error))
    }

    /// Syncs the names in a directory; `None` is the directory itself.
    pub(crate) fn sync(&self, path: Option<&RelativePath>) -> Result<(), Failure> {
        let directory = self.open_directory(path)?;
        // Some file systems cannot sync directories and report an error.
        match rustix::fs::fsync(&directory) {
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            Err(error) => Err(failure(error)),
        }
    }

    /// Syncs the whole file system, where the system has one call for that.
    pub(crate) fn sync_everything(&self) -> Result<Durability, Failure> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            rustix::fs::syncfs(&self.root).map_err(failure)?;
            Ok(Durability::Safe)
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        Ok(Durability::Unsafe)
    }

    /// Opens a regular file for reading.
    pub(crate) fn read(&self, path: &RelativePath) -> Result<(File, Facts), Failure> {
        let parent = self.parent(path, Missing::Refuse)?;
        let file =
            File::from(rustix::fs::openat(&parent, path.last(), READ, Mode::empty()).map_err(failure)?);
        let facts = facts(&rustix::fs::fstat(&file).map_err(failure)?)?;
        match facts.kind {
            EntryKind::File | EntryKind::Stream | EntryKind::Link(_) => Ok((file, facts)),
            EntryKind::Directory => Err(Failure::new(Reason::IsDirectory)),
        }
    }

    /// What a name stands for.
    pub(crate) fn describe(&self, path: &RelativePath) -> Result<Facts, Failure> {
        let parent = self.parent(path, Missing::Refuse)?;
        let stat = rustix::fs::statat(&parent, path.last(), AtFlags::SYMLINK_NOFOLLOW).map_err(failure)?;
        facts(&stat)
    }

    /// The children of a directory in order of their names; `None` is the directory itself.
    pub(crate) fn children(&self, path: Option<&RelativePath>) -> Result<Vec<ChildName>, Failure> {
        let directory = self.open_directory(path)?;
        let mut names = Vec::new();
        for entry in Dir::new(directory).map_err(failure)? {
            let entry = entry.map_err(failure)?;
            if names.len() >= super::MAX_CHILDREN {
                return Err(super::too_many_children());
            }
            match entry.file_name().to_str() {
                Ok("." | "..") => {}
                Ok(name) => names.push(Ok(name.to_owned())),
                Err(_) => names.push(Err(entry.file_name().to_string_lossy().into_owned())),
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Opens a directory; `None` is the directory itself.
    fn open_directory(&self, path: Option<&RelativePath>) -> Result<OwnedFd, Failure> {
        let Some(path) = path else { return step(&self.root, ".") };
        let parent = self.parent(path, Missing::Refuse)?;
        step(&parent, path.last())
    }

    /// The directory that holds `path`.
    fn parent(&self, path: &RelativePath, missing: Missing) -> Result<Arc<OwnedFd>, Failure> {
        let Some(parent) = path.parent() else { return Ok(Arc::clone(&self.root)) };
        if let Some(directory) = self.recent.as_ref().and_then(|recent| recent.get(&parent)) {
            return Ok(directory);
        }
        let directory = Arc::new(self.open_below(&parent, missing)?);
        if let Some(recent) = &self.recent {
            recent.keep(parent, &directory);
        }
        Ok(directory)
    }

    fn open_below(&self, path: &RelativePath, missing: Missing) -> Result<OwnedFd, Failure> {
        if let Some(directory) = beneath::open(&self.root, path) {
            return Ok(directory);
        }
        let mut directory = step(&self.root, ".")?;
        for component in path.components() {
            if missing == Missing::Make {
                match rustix::fs::mkdirat(&directory, component, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(failure(error)),
                }
            }
            directory = step(&directory, component)?;
        }
        Ok(directory)
    }
}

/// A file in transfer, locked, under its temporary name. It stays when this is dropped, to be resumed later.
#[derive(Debug)]
pub(crate) struct PartFile {
    file: File,
    opened: Identity,
    parent: Arc<OwnedFd>,
    temporary: String,
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
        rustix::fs::fstat(&self.file).map(|stat| identity(&stat)).map_err(failure)
    }

    /// Removes it.
    pub(crate) fn discard(self) {
        let _ = rustix::fs::unlinkat(&self.parent, &*self.temporary, AtFlags::empty());
    }
}

/// What to do about a missing parent directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Refuse,
}

/// Opens one component as a directory, without following a link.
fn step(directory: &OwnedFd, component: &str) -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, component, flags, Mode::empty()).map_err(|error| {
        // Some systems report a link under O_DIRECTORY | O_NOFOLLOW as "not a directory".
        let stat = rustix::fs::statat(directory, component, AtFlags::SYMLINK_NOFOLLOW);
        match stat {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
                Failure::new(Reason::SymbolicLink)
            }
            Ok(_) | Err(_) => failure(error),
        }
    })
}

fn open_private(parent: &OwnedFd, temporary: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(parent, temporary, flags, Mode::RUSR | Mode::WUSR)
}

/// Refuses a name under which a directory, device, pipe or socket stands: only files and links are replaced. Returns
/// whether one of these stands there.
// transfer 5.13
fn check_replaceable(parent: &OwnedFd, last: &str) -> Result<Target, Failure> {
    let Ok(stat) = rustix::fs::statat(parent, last, AtFlags::SYMLINK_NOFOLLOW) else {
        return Ok(Target::Free);
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Symlink => Ok(Target::Taken),
        FileType::Directory => Err(Failure::new(Reason::IsDirectory)),
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Err(Failure::new(Reason::NotFile)),
    }
}

/// Renames what stands under a name to its backup name.
// transfer 5.11
fn back_up(parent: &OwnedFd, last: &str) -> Result<(), Failure> {
    let backup = super::backup_name(last);
    match rustix::fs::renameat(parent, last, parent, &*backup) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(Failure::with_text(failure(error).reason, backup)),
    }
}

/// Locks an open temporary file and checks that it is a regular file with this one name.
fn own_part(file: &OwnedFd, name: &str) -> Result<Identity, Failure> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(Failure::new(Reason::Busy)),
        Err(error) => return Err(failure(error)),
    }
    let stat = rustix::fs::fstat(file).map_err(failure)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink > 1 {
        return Err(Failure::with_text(Reason::NotFile, printable(name)));
    }
    Ok(identity(&stat))
}

fn is_same(parent: &OwnedFd, name: &str, open: &Identity) -> bool {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|named| identity(&named) == *open)
}

/// Renames without replacing an existing file, where the file system supports that.
// transfer 5.16
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn rename_to_free(parent: &OwnedFd, from: &str, to: &str) -> Result<(), Errno> {
    use rustix::fs::{RenameFlags, renameat_with};
    match renameat_with(parent, from, parent, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => rustix::fs::renameat(parent, from, parent, to),
        result => result,
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn rename_to_free(parent: &OwnedFd, from: &str, to: &str) -> Result<(), Errno> {
    match rustix::fs::statat(parent, to, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(Errno::EXIST),
        Err(_) => rustix::fs::renameat(parent, from, parent, to),
    }
}

fn identity(stat: &Stat) -> Identity {
    Identity {
        device: number(stat.st_dev),
        inode: number(stat.st_ino),
        size: number(stat.st_size),
        modified: Timestamp { seconds: number(stat.st_mtime), nanos: number(stat.st_mtime_nsec) },
        changed: Timestamp { seconds: number(stat.st_ctime), nanos: number(stat.st_ctime_nsec) },
    }
}

fn set_attributes(file: &File, attributes: Attributes) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(u32::from(attributes.mode & MODE_MASK)))?;
    file.set_times(FileTimes::new().set_modified(attributes.modified.to_system_time()))
}

fn facts(stat: &Stat) -> Result<Facts, Failure> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => return Err(Failure::new(Reason::SymbolicLink)),
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => return Err(Failure::new(Reason::NotFile)),
    };
    let size = if kind == EntryKind::File { number(stat.st_size) } else { 0 };
    Ok(Facts {
        kind,
        size,
        room: number::<_, u64>(stat.st_blocks).saturating_mul(512).min(size),
        device: number(stat.st_dev),
        inode: number(stat.st_ino),
        links: number(stat.st_nlink),
        modified: Timestamp {
            seconds: number(stat.st_mtime),
            nanos: number::<_, u32>(stat.st_mtime_nsec).min(999_999_999),
        },
        mode: number::<_, u16>(stat.st_mode & 0o7777) & MODE_MASK,
    })
}

/// Systems differ in the types of these fields, not in their values.
fn number<T: TryInto<U>, U: Default>(value: T) -> U {
    value.try_into().unwrap_or_default()
}

fn failure(error: Errno) -> Failure {
    match error {
        Errno::LOOP => Failure::new(Reason::SymbolicLink),
        // The error for opening a socket or a device without a driver.
        Errno::NXIO => Failure::new(Reason::NotFile),
        error => Failure::from_io(&error.into()),
    }
}

/// Reading without following a link, waiting for the other end of a pipe, or acquiring a terminal.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
/// How often a temporary file may be renamed during opening before that counts as busy.
const OPEN_ATTEMPTS: usize = 4;
