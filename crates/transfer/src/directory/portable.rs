//! The directory by paths, for systems without `openat`: checks each component before it uses it.

use std::fs::{self, File, FileTimes, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::{ChildName, Facts};
use crate::entry::{EntryKind, MODE_MASK, Timestamp};
use crate::failure::{Failure, Reason};
use crate::name::{RelativePath, part_name};

/// A directory by its canonical path.
#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
}

impl Directory {
    /// Finds a directory of the local user's choice; links on the way to it are followed.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let root = path.canonicalize().map_err(|e| Failure::from_io(&e))?;
        if !root.is_dir() {
            return Err(Failure::new(Reason::NotDirectory));
        }
        Ok(Self { root })
    }

    /// Makes the temporary file for `path`; makes the directories on the way.
    // transfer 4.1, 4.2
    pub(crate) fn create(&self, path: &RelativePath) -> Result<PartFile, Failure> {
        let parent = self.parent(path, Missing::Make)?;
        let target = parent.join(path.last());
        if target.symlink_metadata().is_ok_and(|m| m.is_dir()) {
            return Err(Failure::new(Reason::IsDirectory));
        }
        let temporary = parent.join(part_name(path.last()));
        // Without locks a left-over and a file in use look the same; one that was not written to lately is left over.
        let is_left_over = temporary
            .symlink_metadata()
            .and_then(|m| m.modified())
            .is_ok_and(|time| time.elapsed().is_ok_and(|age| age > LEFT_OVER));
        if is_left_over {
            fs::remove_file(&temporary).map_err(|e| Failure::from_io(&e))?;
        }
        match OpenOptions::new().read(true).write(true).create_new(true).open(&temporary) {
            Ok(file) => Ok(PartFile { file: Some(file), temporary, target, is_settled: false }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Failure::new(Reason::Busy)),
            Err(error) => Err(Failure::from_io(&error)),
        }
    }

    /// Makes a directory and those on the way; one that exists is left as it is.
    pub(crate) fn make_directory(&self, path: &RelativePath, _mode: u16) -> Result<(), Failure> {
        let directory = self.parent(path, Missing::Make)?.join(path.last());
        make(&directory)?;
        check_directory(&directory)
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
            names.push(entry.file_name().into_string().map_err(|n| n.to_string_lossy().into_owned()));
        }
        names.sort();
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

/// A file on its way: under its temporary name until [`PartFile::finish`], removed if that is never reached.
#[derive(Debug)]
pub(crate) struct PartFile {
    file: Option<File>,
    temporary: PathBuf,
    target: PathBuf,
    is_settled: bool,
}

impl PartFile {
    /// Where the content goes.
    #[expect(clippy::expect_used, reason = "the file is only taken by drop")]
    pub(crate) fn file(&mut self) -> &mut File {
        self.file.as_mut().expect("open until dropped")
    }

    /// Gives the file its time and name, after its content is safe on the disk.
    // transfer 4.4
    pub(crate) fn finish(mut self, mode: u16, modified: Timestamp) -> Result<(), Failure> {
        self.settle(mode, modified).map_err(|e| Failure::from_io(&e))
    }

    fn settle(&mut self, mode: u16, modified: Timestamp) -> io::Result<()> {
        let file = self.file();
        file.set_times(FileTimes::new().set_modified(modified.to_system_time()))?;
        if mode & 0o222 == 0 {
            let mut permissions = file.metadata()?.permissions();
            permissions.set_readonly(true);
            file.set_permissions(permissions)?;
        }
        file.sync_all()?;
        fs::rename(&self.temporary, &self.target)?;
        self.is_settled = true;
        Ok(())
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.is_settled {
            self.file = None;
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// What to do about a directory on the way that does not exist.
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
    Ok(Facts { kind, size, modified, mode: mode & MODE_MASK })
}

/// After so long without a write a temporary file belongs to nobody.
const LEFT_OVER: std::time::Duration = std::time::Duration::from_secs(120);
