//! Files that only their owner may read, replaced as a whole.

use std::fs::{DirBuilder, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::error::HomeError;

/// Larger than any file here; a larger one is refused unread.
const MAX_SIZE: u64 = 16 << 20;

/// Distinguishes two states of a file that was replaced in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(Option<(u64, u64, i64, i64)>);

pub(super) fn stamp(path: &Path) -> Stamp {
    let facts = std::fs::metadata(path).ok();
    Stamp(facts.map(|facts| (facts.ino(), facts.size(), facts.mtime(), facts.mtime_nsec())))
}

/// Reads a file that must be private to its owner; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>, HomeError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(HomeError::system(path)(error)),
    };
    let facts = file.metadata().map_err(HomeError::system(path))?;
    let mode = facts.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(HomeError::Open { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    file.take(MAX_SIZE).read_to_string(&mut text).map_err(HomeError::system(path))?;
    Ok(Some(text))
}

/// Replaces a file by a new one: after a crash one of them is there, complete.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), HomeError> {
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    let attempt = || {
        let mut file = tempfile::Builder::new()
            .prefix(".new-")
            .permissions(std::fs::Permissions::from_mode(0o600))
            .tempfile_in(directory)?;
        file.write_all(text.as_bytes())?;
        give_to_owner(file.as_file(), directory);
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        // The new name is on the disk only once its directory is synced.
        File::open(directory)?.sync_all()
    };
    attempt().map_err(HomeError::system(path))
}

/// A file that root writes into the directory of a service is given to the service, or it could not read it any more.
pub(super) fn give_to_owner(file: &File, directory: &Path) {
    let (Ok(own), Ok(owner)) = (file.metadata(), directory.metadata()) else { return };
    if own.uid() != owner.uid() {
        // Other users than root may not change the owner, and need not.
        let _ = std::os::unix::fs::fchown(file, Some(owner.uid()), Some(owner.gid()));
    }
}

/// Locks the directory, which is created if necessary, against changes by others until the result is dropped.
pub(super) fn lock(directory: &Path) -> Result<File, HomeError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory).map_err(HomeError::system(directory))?;
    let path = directory.join(".lock");
    let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(HomeError::system(&path))?;
    give_to_owner(&file, directory);
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|error| HomeError::system(&path)(error.into()))?;
    Ok(file)
}
