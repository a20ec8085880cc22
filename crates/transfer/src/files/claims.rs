//! Claims on files, so that two requests never write the same one, and a client that reconnects gets its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::directory::{Directory, Identity, PartFile};
use crate::failure::{Failure, Reason};
use crate::name::RelativePath;

/// A directory that receives files, and the claims on them.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) directory: Arc<Directory>,
    /// Permissions that new files and directories do not get.
    pub(crate) umask: u16,
    claims: Mutex<BTreeMap<RelativePath, Arc<Claim>>>,
    /// How many complete files may stay open until they get their names.
    open: Arc<Semaphore>,
}

/// A complete file that waits for its name.
#[derive(Debug)]
pub(crate) struct Complete {
    /// As it was when its last byte was written.
    pub(crate) identity: Identity,
    /// The file, locked, unless too many are open.
    pub(crate) open: Option<(PartFile, OwnedSemaphorePermit)>,
}

/// When data last arrived on a stream.
#[derive(Debug)]
pub(crate) struct Activity {
    last: Mutex<Instant>,
}

/// The claim on a file; released when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    store: Arc<Store>,
    path: RelativePath,
    claim: Arc<Claim>,
}

#[derive(Debug)]
struct Claim {
    activity: Arc<Activity>,
    slot: Mutex<Slot>,
}

#[derive(Debug)]
enum Slot {
    /// Nothing is open yet.
    Waiting,
    /// Its content is arriving.
    Open(PartFile),
    /// It is about to get its name: no other request may take it now.
    Settling,
    /// Another request has it now.
    Lost,
}

impl Store {
    pub(crate) fn new(directory: Directory) -> Self {
        let (directory, umask) = (Arc::new(directory), crate::directory::umask());
        Self { directory, umask, claims: Mutex::default(), open: Arc::new(Semaphore::new(MOST_OPEN)) }
    }

    /// Claims `path`, for a stream with this activity.
    ///
    /// The current owner keeps it as long as data arrives on its stream. After [`SILENCE`] the claim passes on: a
    /// client that was killed reconnects before its former connection has timed out.
    // transfer 5.2
    pub(crate) fn claim(
        self: &Arc<Self>,
        path: &RelativePath,
        activity: &Arc<Activity>,
    ) -> Result<Held, Failure> {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if let Some(held) = self.try_claim(path, activity)? {
                return Ok(held);
            }
            std::thread::sleep(POLL);
        }
        Err(Failure::new(Reason::Busy))
    }

    /// The same without waiting; `None` if another stream has it.
    pub(crate) fn try_claim(
        self: &Arc<Self>,
        path: &RelativePath,
        activity: &Arc<Activity>,
    ) -> Result<Option<Held>, Failure> {
        let mut claims = lock(&self.claims);
        if let Some(holder) = claims.get(path) {
            if Arc::ptr_eq(&holder.activity, activity) {
                return Err(Failure::new(Reason::Busy));
            }
            let mut slot = lock(&holder.slot);
            if holder.activity.silence() < SILENCE || matches!(*slot, Slot::Settling) {
                return Ok(None);
            }
            // Closes its file, and releases the lock with it.
            *slot = Slot::Lost;
        }
        let claim = Arc::new(Claim { activity: Arc::clone(activity), slot: Mutex::new(Slot::Waiting) });
        claims.insert(path.clone(), Arc::clone(&claim));
        Ok(Some(Held { store: Arc::clone(self), path: path.clone(), claim }))
    }
}

impl Held {
    /// Keeps the open file, until another request takes it.
    pub(crate) fn put(&self, part: PartFile) -> Result<(), Failure> {
        let mut slot = lock(&self.claim.slot);
        if matches!(*slot, Slot::Lost) {
            return Err(lost());
        }
        *slot = Slot::Open(part);
        Ok(())
    }

    /// Runs a function on the open file.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&mut PartFile) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match &mut *lock(&self.claim.slot) {
            Slot::Open(part) => work(part),
            Slot::Waiting | Slot::Settling | Slot::Lost => Err(lost()),
        }
    }

    /// Takes the file out, complete, to give it its name: from now on it cannot be taken over.
    pub(crate) fn complete(&self) -> Result<Complete, Failure> {
        let part = self.settle()?;
        let identity = part.identity()?;
        let permit = Arc::clone(&self.store.open).try_acquire_owned().ok();
        Ok(Complete { identity, open: permit.map(|permit| (part, permit)) })
    }

    /// Takes the file out: from now on it cannot be taken over.
    pub(crate) fn settle(&self) -> Result<PartFile, Failure> {
        let mut slot = lock(&self.claim.slot);
        match std::mem::replace(&mut *slot, Slot::Settling) {
            Slot::Open(part) => Ok(part),
            other @ (Slot::Waiting | Slot::Settling | Slot::Lost) => {
                *slot = other;
                Err(lost())
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut claims = lock(&self.store.claims);
        if claims.get(&self.path).is_some_and(|claim| Arc::ptr_eq(claim, &self.claim)) {
            claims.remove(&self.path);
        }
        drop(claims);
        // Closes the file now, and not when the last reference to the claim is dropped.
        *lock(&self.claim.slot) = Slot::Lost;
    }
}

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { last: Mutex::new(Instant::now()) })
    }

    /// Records an arrival.
    pub(crate) fn touch(&self) {
        *lock(&self.last) = Instant::now();
    }

    fn silence(&self) -> Duration {
        lock(&self.last).elapsed()
    }
}

fn lost() -> Failure {
    Failure::with_text(Reason::Busy, "another request writes it now")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// After this time without a byte a stream loses its files to the next request.
const SILENCE: Duration = Duration::from_secs(3);
/// How long a request waits for a file that another one writes.
const PATIENCE: Duration = Duration::from_secs(5);
/// Files of all requests that stay open when they are complete, which saves opening them again: a quarter of what a
/// process may open by default, 1024 files on Linux and 256 on macOS.
const MOST_OPEN: usize = if cfg!(target_os = "linux") { 256 } else { 64 };
const POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_passes_to_the_next_request_only_once_its_stream_is_silent() {
        let place = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::new(Directory::open(place.path()).unwrap()));
        let path = RelativePath::parse("file").unwrap();
        let (first, second) = (Activity::new(), Activity::new());
        let held = store.claim(&path, &first).unwrap();
        held.put(store.directory.open_part(&path).unwrap()).unwrap();
        assert!(store.try_claim(&path, &second).unwrap().is_none());
        assert_eq!(store.try_claim(&path, &first).unwrap_err().reason, Reason::Busy);

        *lock(&first.last) = Instant::now().checked_sub(SILENCE).unwrap();
        let next = store.try_claim(&path, &second).unwrap().unwrap();
        assert_eq!(held.with(|_| Ok(())).unwrap_err().reason, Reason::Busy);
        next.put(store.directory.open_part(&path).unwrap()).unwrap();
        drop(held);
        assert!(next.with(|_| Ok(())).is_ok(), "the former owner does not take it along");

        *lock(&second.last) = Instant::now().checked_sub(SILENCE).unwrap();
        next.settle().unwrap();
        assert!(store.try_claim(&path, &first).unwrap().is_none(), "not in the moment of its rename");
        drop(next);
        assert!(store.try_claim(&path, &first).unwrap().is_some());
    }
}
