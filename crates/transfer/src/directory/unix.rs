//! The directory by file descriptors: no moment at which a name could be exchanged for a link.

use std::fs::{File, FileTimes, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{ChildName, Facts};
use crate::entry::{EntryKind, MODE_MASK, Timestamp};
use crate::failure::{Failure, Reason};
use crate::name::{RelativePath, part_name};

/// An open directory.
#[derive(Debug)]
pub(crate) struct Directory {
    root: OwnedFd,
}

impl Directory {
    /// Opens a directory of the local user's choice; links on the way to it are followed.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(failure)?;
        Ok(Self { root })
    }

    /// Opens the temporary file for `path`, empty and locked; makes the directories on the way.
    // transfer 4.1, 4.2
    pub(crate) fn create(&self, path: &RelativePath) -> Result<PartFile, Failure> {
        let parent = self.parent(path, Missing::Make)?;
        refuse_directory(&parent, path.last())?;
        let temporary = part_name(path.last());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        for _ in 0..OPEN_ATTEMPTS {
            let file = File::from(rustix::fs::openat(&parent, &*temporary, flags, mode).map_err(failure)?);
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(Failure::new(Reason::Busy)),
                Err(error) => return Err(failure(error)),
            }
            let stat = rustix::fs::fstat(&file).map_err(failure)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink > 1 {
                return Err(Failure::with_text(Reason::NotFile, format!("{temporary} is in the way")));
            }
            // Its former owner may have renamed it between our open and our lock.
            if is_same(&parent, &temporary, &stat) {
                file.set_len(0).map_err(|e| Failure::from_io(&e))?;
                return Ok(PartFile {
                    file,
                    parent,
                    temporary,
                    last: path.last().to_owned(),
                    is_settled: false,
                });
            }
        }
        Err(Failure::new(Reason::Busy))
    }

    /// Makes a directory and those on the way; one that exists is left as it is.
    pub(crate) fn make_directory(&self, path: &RelativePath, mode: u16) -> Result<(), Failure> {
        let parent = self.parent(path, Missing::Make)?;
        match rustix::fs::mkdirat(&parent, path.last(), Mode::RWXU) {
            // transfer 4.7: the umask may not take away what the entry grants
            Ok(()) => {
                let made = step(&parent, path.last())?;
                let mode = Mode::from_raw_mode(u32::from(mode & MODE_MASK | 0o700));
                rustix::fs::fchmod(made, mode).map_err(failure)
            }
            Err(Errno::EXIST) => step(&parent, path.last()).map(drop),
            Err(error) => Err(failure(error)),
        }
    }

    /// Opens a regular file for reading.
    pub(crate) fn read(&self, path: &RelativePath) -> Result<(File, Facts), Failure> {
        let parent = self.parent(path, Missing::Refuse)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file =
            File::from(rustix::fs::openat(&parent, path.last(), flags, Mode::empty()).map_err(failure)?);
        let facts = facts(&rustix::fs::fstat(&file).map_err(failure)?)?;
        match facts.kind {
            EntryKind::File => Ok((file, facts)),
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
        let directory = match path {
            Some(path) => step(&self.parent(path, Missing::Refuse)?, path.last())?,
            None => step(&self.root, ".")?,
        };
        let mut names = Vec::new();
        for entry in Dir::new(directory).map_err(failure)? {
            let entry = entry.map_err(failure)?;
            match entry.file_name().to_str() {
                Ok("." | "..") => {}
                Ok(name) => names.push(Ok(name.to_owned())),
                Err(_) => names.push(Err(entry.file_name().to_string_lossy().into_owned())),
            }
        }
        names.sort();
        Ok(names)
    }

    fn parent(&self, path: &RelativePath, missing: Missing) -> Result<OwnedFd, Failure> {
        let mut directory = step(&self.root, ".")?;
        let mut components = path.components();
        components.next_back();
        for component in components {
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

/// A file on its way: under its temporary name until [`PartFile::finish`], removed if that is never reached.
#[derive(Debug)]
pub(crate) struct PartFile {
    file: File,
    parent: OwnedFd,
    temporary: String,
    last: String,
    is_settled: bool,
}

impl PartFile {
    /// Where the content goes.
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the file its permissions, time and name, after its content is safe on the disk.
    // transfer 4.4
    pub(crate) fn finish(mut self, mode: u16, modified: Timestamp) -> Result<(), Failure> {
        self.settle(mode, modified).map_err(|e| Failure::from_io(&e))
    }

    fn settle(&mut self, mode: u16, modified: Timestamp) -> io::Result<()> {
        self.file.set_permissions(Permissions::from_mode(u32::from(mode & MODE_MASK)))?;
        self.file.set_times(FileTimes::new().set_modified(modified.to_system_time()))?;
        self.file.sync_all()?;
        rustix::fs::renameat(&self.parent, &*self.temporary, &self.parent, &*self.last)?;
        self.is_settled = true;
        // The rename itself is only safe once the directory is; some file systems cannot do that and say so.
        match rustix::fs::fsync(&self.parent) {
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.is_settled {
            let _ = rustix::fs::unlinkat(&self.parent, &*self.temporary, AtFlags::empty());
        }
    }
}

/// What to do about a directory on the way that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Refuse,
}

/// Opens one component as a directory, without following a link.
fn step(directory: &OwnedFd, component: &str) -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, component, flags, Mode::empty()).map_err(|error| {
        // A link under O_DIRECTORY | O_NOFOLLOW is reported as "not a directory" by some systems.
        let stat = rustix::fs::statat(directory, component, AtFlags::SYMLINK_NOFOLLOW);
        match stat {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
                Failure::new(Reason::SymbolicLink)
            }
            Ok(_) | Err(_) => failure(error),
        }
    })
}

fn refuse_directory(parent: &OwnedFd, last: &str) -> Result<(), Failure> {
    match rustix::fs::statat(parent, last, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            Err(Failure::new(Reason::IsDirectory))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn is_same(parent: &OwnedFd, name: &str, open: &Stat) -> bool {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|named| named.st_ino == open.st_ino && named.st_dev == open.st_dev)
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
    Ok(Facts {
        kind,
        size: if kind == EntryKind::File { number(stat.st_size) } else { 0 },
        modified: Timestamp {
            seconds: number(stat.st_mtime),
            nanos: number::<_, u32>(stat.st_mtime_nsec).min(999_999_999),
        },
        mode: number::<_, u16>(stat.st_mode & 0o7777) & MODE_MASK,
    })
}

/// Systems disagree about the types of these fields, not about their values.
fn number<T: TryInto<U>, U: Default>(value: T) -> U {
    value.try_into().unwrap_or_default()
}

fn failure(error: Errno) -> Failure {
    match error {
        Errno::LOOP => Failure::new(Reason::SymbolicLink),
        // Opening a socket or a device without a driver.
        Errno::NXIO => Failure::new(Reason::NotFile),
        error => Failure::from_io(&error.into()),
    }
}

/// How often a temporary file may be renamed under our hands before that counts as busy.
const OPEN_ATTEMPTS: usize = 4;
