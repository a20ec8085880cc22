//! The directories that were used last, kept open: the files of one directory follow each other.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::name::RelativePath;

/// Open directories below another one, for the time of one transfer.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Vec<Open>>);

#[derive(Debug)]
struct Open {
    path: RelativePath,
    directory: Arc<OwnedFd>,
    /// How often it may still be used.
    left: u32,
}

/// Threads that look ahead, read or write, and give names, are in different directories.
const MOST: usize = 4;
/// A directory that was moved meanwhile is used no further.
const USES: u32 = 256;

impl Recent {
    /// The directory, if it is open and was not removed.
    pub(super) fn get(&self, path: &RelativePath) -> Option<Arc<OwnedFd>> {
        let mut open = self.lock();
        let at = open.iter().position(|open| open.path == *path)?;
        let found = open.get_mut(at)?;
        found.left = found.left.saturating_sub(1);
        let directory = Arc::clone(&found.directory);
        let exists = rustix::fs::fstat(&*directory).is_ok_and(|stat| stat.st_nlink > 0);
        if found.left == 0 || !exists {
            open.remove(at);
        }
        exists.then_some(directory)
    }

    /// Keeps a directory open, in place of the one that was opened first.
    pub(super) fn keep(&self, path: RelativePath, directory: &Arc<OwnedFd>) {
        let mut open = self.lock();
        if open.len() >= MOST {
            open.remove(0);
        }
        open.push(Open { path, directory: Arc::clone(directory), left: USES });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
