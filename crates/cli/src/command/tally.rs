//! Counts the work of a transfer over all its attempts, including one that never completes.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use manyway_transfer::{Failure, Progress, ProgressEvent, Report, Totals};

use crate::output::progress::ProgressView;

/// Counts, and passes everything on to the view.
#[derive(Debug)]
pub struct Tally {
    view: Arc<ProgressView>,
    counts: Mutex<Counts>,
    /// Messages that the user has seen already.
    said: Mutex<BTreeSet<String>>,
}

/// The counts so far.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// The total of the transfer.
    pub totals: Totals,
    /// Attempts, the first one included.
    pub attempts: u32,
    /// Bytes of content that arrived, over all attempts.
    pub moved: u64,
    /// Bytes of content that existed before this command began.
    pub resumed: u64,
    /// The last attempt: verified and failed files.
    pub report: Report,
}

impl Tally {
    /// Starts with zeros.
    pub fn new(view: Arc<ProgressView>) -> Self {
        Self { view, counts: Mutex::default(), said: Mutex::default() }
    }

    /// Begins another attempt.
    pub fn begin(&self) {
        let mut counts = self.counts();
        counts.attempts += 1;
        counts.report = Report::default();
    }

    /// Ends the last attempt with its certain result: everything that it sent has arrived.
    pub fn end(&self, report: Report) -> Counts {
        self.view.set_waiting(0);
        self.counts().report = report;
        self.so_far()
    }

    /// The counts so far.
    pub fn so_far(&self) -> Counts {
        Counts { moved: self.view.travelled(), ..self.counts().clone() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    /// Prints a message about an entry, once over all attempts.
    fn say(&self, text: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() < MOST_SAID && said.insert(text.to_owned()) {
            self.view.message(text);
        }
    }
}

impl Progress for Tally {
    fn on_progress(&self, event: ProgressEvent<'_>) {
        let mut counts = self.counts();
        match event {
            ProgressEvent::Totals(totals) => {
                counts.totals = totals;
                // An empty transfer has no progress; the reason follows.
                if totals.files == 0 {
                    return;
                }
            }
            ProgressEvent::Hole { bytes } => counts.report.holes += bytes,
            // What a later attempt finds there, an earlier one has sent.
            ProgressEvent::Resumed { bytes } if counts.attempts <= 1 => counts.resumed += bytes,
            ProgressEvent::Verified { .. } => counts.report.verified += 1,
            ProgressEvent::LeftOut { name, reason } => {
                counts.report.left_out += 1;
                self.say(&format!("skipping {name}: {reason}"));
            }
            ProgressEvent::Grew { name, size } => {
                self.say(&format!("{name} grew while it was sent; the first {size} bytes were sent"));
            }
            ProgressEvent::Failed { name, failure, .. } => {
                counts.report.failures += 1;
                // For a single file the end of the command reports it.
                if counts.totals.files > 1 {
                    self.say(&failure_of(name, failure));
                }
                return;
            }
            ProgressEvent::Advanced { .. }
            | ProgressEvent::Resumed { .. }
            | ProgressEvent::Started { .. }
            | ProgressEvent::Refused { .. }
            | _ => {}
        }
        drop(counts);
        self.view.on_progress(event);
    }
}

/// Why a file failed, in the form of all errors.
pub fn failure_of(name: &str, failure: &Failure) -> String {
    failure.clone().at(Path::new(name)).to_string()
}

/// Most messages that are remembered; more are not worth reading.
const MOST_SAID: usize = 1000;

#[cfg(test)]
mod tests {

    use manyway_terminal::ProgressMode;

    use super::*;

    #[test]
    fn bytes_of_an_earlier_attempt_do_not_count_as_existing_before() {
        let tally = Tally::new(Arc::new(ProgressView::new(ProgressMode::Silent, "sending")));
        for moved in [70, 20] {
            tally.begin();
            tally.on_progress(ProgressEvent::Resumed { bytes: 100 - 90 + (70 - moved) });
            tally.on_progress(ProgressEvent::Advanced { bytes: moved });
            tally.on_progress(ProgressEvent::Verified { name: "a" });
        }
        let counts = tally.so_far();
        assert_eq!((counts.attempts, counts.moved, counts.resumed, counts.report.verified), (2, 90, 10, 1));
    }

    #[test]
    fn bytes_given_to_a_broken_connection_do_not_count_as_sent() {
        let view = Arc::new(ProgressView::new(ProgressMode::Silent, "sending"));
        let tally = Tally::new(Arc::clone(&view));
        let totals = Totals { files: 1, bytes: 100 };
        for waiting in [30, 25] {
            tally.begin();
            tally.on_progress(ProgressEvent::Totals(totals));
            tally.on_progress(ProgressEvent::Advanced { bytes: 50 });
            view.set_waiting(waiting);
        }
        assert_eq!(tally.so_far().moved, 20 + 25);
        assert_eq!(tally.end(Report::default()).moved, 20 + 50);
    }
}
