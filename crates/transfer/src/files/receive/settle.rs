//! Syncs bundles of complete files and gives them their names.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::mpsc::Receiver as Queue;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::debug;

use super::reception::{Reception, TOGETHER};
use crate::directory::{Attributes, Directory, Durability, Target, final_mode};
use crate::entry::Entry;
use crate::failure::Failure;
use crate::files::claims::{Complete, Held};
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
pub(super) struct Job {
    pub(super) index: u64,
    pub(super) entry: Entry,
    pub(super) work: Work,
}

/// What is left to do.
pub(super) enum Work {
    /// A file that is complete and verified.
    File { held: Held, complete: Complete, target: Target, trouble: Trouble },
    /// A symbolic link, and what stood under its name.
    Link { target: LinkTarget, expected: Target },
    /// A directory that is filled, and the permissions that it had before, if it was there.
    Directory { before: Option<u16> },
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
        self.bytes = self.bytes.saturating_add(job.entry.size);
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

/// A job whose name is given, or has failed.
struct Settled {
    index: u64,
    entry: Entry,
    outcome: Result<(), Failure>,
    left: Left,
}

/// What a settled job leaves until the names are safe.
enum Left {
    /// The claim on a file.
    Claim(Held),
    /// The permissions of a directory.
    Directory {
        before: Option<u16>,
    },
    Nothing,
}

// transfer 5.4: sync the content, then rename, then sync the directories, then send the verdicts
fn settle(reception: &Reception, jobs: Vec<Job>) {
    let directory = &reception.directory;
    let files = jobs.iter().filter(|job| matches!(job.work, Work::File { .. })).count();
    let durability = if files > FEW { directory.sync_everything() } else { Ok(Durability::Unsafe) };
    let settled: Vec<_> = jobs.into_iter().map(|job| name(directory, job, &durability)).collect();
    let named = settled.iter().filter(|settled| settled.outcome.is_ok());
    let parents: BTreeSet<_> = named.map(|settled| settled.entry.path.parent()).collect();
    let safe = sync_parents(reception, &parents);
    let mut verdicts = Vec::new();
    for Settled { index, entry, outcome, left } in settled {
        let outcome = outcome.and_then(|()| safe.clone());
        let outcome = match left {
            Left::Claim(held) => {
                drop(held);
                outcome
            }
            Left::Nothing => outcome,
            Left::Directory { before } => {
                let finished = finish(directory, &entry, before);
                outcome.and(finished)
            }
        };
        verdicts.push(reception.verdict(index, &entry, outcome));
        if verdicts.len() >= TOGETHER {
            reception.say(std::mem::take(&mut verdicts));
        }
    }
    reception.say(verdicts);
}

/// Gives a file or link its name.
fn name(directory: &Directory, job: Job, durability: &Result<Durability, Failure>) -> Settled {
    let Job { index, entry, work } = job;
    let (outcome, left) = match work {
        Work::Directory { before } => (Ok(()), Left::Directory { before }),
        Work::Link { target, expected } => {
            (directory.make_link(&entry.path, &target, expected), Left::Nothing)
        }
        Work::File { held, complete: Complete { identity, open }, target, trouble } => {
            let attributes = attributes(&entry, entry.mode);
            let (open, _permit) = open.unzip();
            let outcome = told(&trouble).and_then(|()| durability.clone()).and_then(|durability| {
                directory.settle(&entry.path, (identity, open), attributes, (durability, target))
            });
            (outcome, Left::Claim(held))
        }
    };
    Settled { index, entry, outcome, left }
}

/// Gives a filled directory its permissions and time; one that was there may keep its own.
fn finish(directory: &Directory, entry: &Entry, before: Option<u16>) -> Result<(), Failure> {
    let attributes = attributes(entry, final_mode(entry.mode, before));
    let finished = directory.finish_directory(&entry.path, attributes);
    if let (Err(failure), Some(_)) = (&finished, before) {
        debug!(reason = %failure, "a directory that was there keeps its time");
        return Ok(());
    }
    finished
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
