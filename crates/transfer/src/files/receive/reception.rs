//! What the threads of one reception share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use super::wanted::Wanted;
use crate::directory::Directory;
use crate::entry::Entry;
use crate::error::TransferError;
use crate::failure::Failure;
use crate::files::claims::{Activity, Store};
use crate::frame::{Frame, Verdict};
use crate::progress::{Party, Progress, ProgressEvent, Report};

/// State shared by the threads of one reception.
pub(crate) struct Reception {
    pub(super) store: Arc<Store>,
    pub(super) directory: Directory,
    pub(super) wanted: Wanted,
    pub(super) progress: Arc<dyn Progress>,
    answers: mpsc::Sender<Vec<Frame>>,
    pub(super) activity: Arc<Activity>,
    report: Mutex<Report>,
    pub(super) has_ended: AtomicBool,
}

impl Reception {
    pub(crate) fn new(
        store: Arc<Store>,
        wanted: Wanted,
        progress: Arc<dyn Progress>,
        answers: mpsc::Sender<Vec<Frame>>,
    ) -> Self {
        let (activity, report, has_ended) = (Activity::new(), Mutex::default(), AtomicBool::new(false));
        let directory = store.directory.for_transfer();
        Self { store, directory, wanted, progress, answers, activity, report, has_ended }
    }

    /// Sends frames to the sender; if it is gone, the error shows on the stream.
    pub(super) fn say(&self, frames: Vec<Frame>) {
        if !frames.is_empty() {
            let _ = self.answers.blocking_send(frames);
        }
    }

    /// Whether the stream still exists, so that work for it makes sense.
    pub(super) fn is_wanted(&self) -> bool {
        !self.has_ended.load(Ordering::Relaxed) && !self.answers.is_closed()
    }

    /// Why another thread has ended: the answers have no reader any more, or it panicked.
    pub(super) fn gone(&self) -> TransferError {
        if self.answers.is_closed() {
            TransferError::Incomplete { verified: 0 }
        } else {
            TransferError::Internal
        }
    }

    pub(super) fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports the verdict of this end on an entry.
    pub(super) fn judge(&self, index: u64, entry: &Entry, outcome: Result<(), Failure>) {
        self.say(vec![self.verdict(index, entry, outcome)]);
    }

    /// Records the verdict of this end on an entry; returns the frame that tells the sender.
    pub(super) fn verdict(&self, index: u64, entry: &Entry, outcome: Result<(), Failure>) -> Frame {
        self.record(index, entry, outcome.map_err(|failure| (Party::Local, failure)))
    }

    /// Reports an entry that the sender abandoned.
    pub(super) fn on_given_up(&self, index: u64, entry: &Entry, failure: Failure) {
        self.say(vec![self.record(index, entry, Err((Party::Peer, failure)))]);
    }

    // transfer 4.8: exactly one verdict for each entry
    fn record(&self, index: u64, entry: &Entry, outcome: Result<(), (Party, Failure)>) -> Frame {
        let name = entry.path.to_string();
        match &outcome {
            Ok(()) => {
                let mut report = self.report();
                report.verified += 1;
                report.bytes = report.bytes.saturating_add(entry.size);
                drop(report);
                self.progress.on_progress(ProgressEvent::Verified { name: &name });
            }
            Err((at, failure)) => {
                self.report().add_failure(&*self.progress, *at, (name, failure.clone()));
            }
        }
        let outcome = outcome.map_err(|(_, failure)| failure);
        Frame::Verdict(Verdict { index, path: self.wanted.sent_name(&entry.path), outcome })
    }
}

/// Most entries, answers or verdicts that are handed over at once.
pub(crate) const TOGETHER: usize = 64;
