//! Syncs bundles of complete files and gives them their names.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::mpsc::Receiver as Queue;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::debug;

use super::reception::Reception;
use crate::directory::{Attributes, Durability, Identity, Target, final_mode};
use crate::entry::Entry;
use crate::failure::Failure;
use crate::files::claims::Held;
use crate::link::LinkTarget;
use crate::name::RelativePath;

/// Files that get their names together.
#[derive(Default)]
pub(super) struct Bundle {
    jobs: Vec<Job>,
    bytes: u64,
    born: Option<Instant>,
    flush: Option<Flush>,
}

/// One of them.
pub(super) enum Job {
    /// A file that is complete, closed and verified.
    File { index: u64, entry: Entry, held: Held, closed: (Identity, Target), trouble: Trouble },
    /// A symbolic link, and what stood under its name.
    Link { index: u64, entry: Entry, target: LinkTarget, expected: Target },
    /// A directory that is filled, and the permissions that it had before, if it was there.
    Directory { index: u64, entry: Entry, before: Option<u16> },
}

/// The beginning of a large file, to be synced meanwhile.
pub(super) struct Flush {
    pub(super) file: File,
    /// Where its failure is reported: the system reports it only once.
    pub(super) trouble: Trouble,
}

/// A failure that another thread found.
pub(super) type Trouble = Arc<Mutex<Option<Failure>>>;

impl Bundle {
    pub(super) fn of_flush(flush: Flush) -> Self {
        Self { flush: Some(flush), ..Self::default() }
    }

    pub(super) fn add(&mut self, job: Job) {
        if let Job::File { entry, .. } = &job {
            self.bytes = self.bytes.saturating_add(entry.size);
        }
        self.born.get_or_insert_with(Instant::now);
        self.jobs.push(job);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether it is worth the cost of a sync if the thread is idle.
    pub(super) fn is_due(&self) -> bool {
        self.jobs.len() >= WORTHWHILE
            || self.bytes >= WORTHWHILE_BYTES
            || self.born.is_some_and(|born| born.elapsed() >= OLD)
    }

    /// Whether the stream has to wait for it.
    pub(super) fn is_full(&self) -> bool {
        self.jobs.len() >= FULL
    }
}

pub(super) fn run(reception: &Reception, bundles: &Queue<Bundle>) {
    while let Ok(bundle) = bundles.recv() {
        if let Some(Flush { file, trouble }) = bundle.flush
            && let Err(error) = file.sync_data()
        {
            *trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(Failure::from_io(&error));
        }
        settle(reception, bundle.jobs);
    }
}

// transfer 5.4: sync the content, then rename, then sync the directories, then send the verdicts
fn settle(reception: &Reception, jobs: Vec<Job>) {
    let directory = &reception.directory;
    let files = jobs.iter().filter(|job| matches!(job, Job::File { .. })).count();
    let durability = if files > FEW { directory.sync_everything() } else { Ok(Durability::Unsafe) };
    let mut settled = Vec::with_capacity(jobs.len());
    let mut parents = BTreeSet::new();
    for job in jobs {
        let outcome = match (&job, &durability) {
            (Job::Directory { .. }, _) => Ok(()),
            (Job::Link { entry, target, expected, .. }, _) => {
                directory.make_link(&entry.path, target, *expected)
            }
            (Job::File { .. }, Err(failure)) => Err(failure.clone()),
            (Job::File { entry, closed: (closed, target), trouble, .. }, Ok(durability)) => {
                let attributes = attributes(entry, entry.mode);
                told(trouble)
                    .and_then(|()| directory.settle(&entry.path, closed, attributes, (*durability, *target)))
            }
        };
        let (Job::File { entry, .. } | Job::Directory { entry, .. } | Job::Link { entry, .. }) = &job;
        if outcome.is_ok() {
            parents.insert(entry.path.parent());
        }
        settled.push((job, outcome));
    }
    let safe = sync_parents(reception, &parents);
    for (job, outcome) in settled {
        let outcome = outcome.and_then(|()| safe.clone());
        match job {
            Job::File { index, entry, held, .. } => {
                drop(held);
                reception.judge(index, &entry, outcome);
            }
            Job::Link { index, entry, .. } => reception.judge(index, &entry, outcome),
            Job::Directory { index, entry, before } => {
                let attributes = attributes(&entry, final_mode(entry.mode, before));
                let finished = directory.finish_directory(&entry.path, attributes);
                if let (Err(failure), Some(_)) = (&finished, before) {
                    debug!(reason = %failure, "a directory that was there keeps its time");
                }
                let finished = if before.is_some() { Ok(()) } else { finished };
                reception.judge(index, &entry, outcome.and(finished));
            }
        }
    }
}

/// The failure that a flush of the same file found meanwhile.
fn told(trouble: &Trouble) -> Result<(), Failure> {
    let found = trouble.lock().unwrap_or_else(PoisonError::into_inner).take();
    found.map_or(Ok(()), Err)
}

fn sync_parents(reception: &Reception, parents: &BTreeSet<Option<RelativePath>>) -> Result<(), Failure> {
    let directory = &reception.directory;
    if parents.len() > FEW && directory.sync_everything()? == Durability::Safe {
        return Ok(());
    }
    parents.iter().try_for_each(|parent| directory.sync(parent.as_ref()))
}

fn attributes(entry: &Entry, mode: u16) -> Attributes {
    Attributes { mode, modified: entry.modified }
}

/// Up to this many files or directories are synced one by one; more by one call for the whole file system.
const FEW: usize = 8;
/// Jobs that are worth a sync.
const WORTHWHILE: usize = 256;
/// Bytes that are worth a sync.
const WORTHWHILE_BYTES: u64 = 16 << 20;
/// Longest wait of a complete file for others.
const OLD: Duration = Duration::from_millis(100);
/// Most jobs that wait, in memory and without a name: some 200 bytes and the names each.
const FULL: usize = 4096;
