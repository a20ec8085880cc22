//! Counts what a transfer does over all its attempts, also one that never comes to its end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use manyway_transfer::{Progress, ProgressEvent, Report, Totals};

use crate::output::progress::ProgressView;

/// Counts, and hands everything on to the view.
#[derive(Debug)]
pub struct Tally {
    view: Arc<ProgressView>,
    counts: Mutex<Counts>,
}

/// What is known so far.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// What there is to transfer.
    pub totals: Totals,
    /// Attempts, the first one included.
    pub attempts: u32,
    /// Bytes of content that travelled, over all attempts.
    pub moved: u64,
    /// Bytes of content that were there before this command began.
    pub resumed: u64,
    /// The last attempt: what was verified, and what failed.
    pub report: Report,
}

impl Tally {
    /// Nothing yet.
    pub fn new(view: Arc<ProgressView>) -> Self {
        Self { view, counts: Mutex::default() }
    }

    /// Another attempt begins.
    pub fn begin(&self) {
        let mut counts = self.counts();
        counts.attempts += 1;
        counts.report = Report::default();
    }

    /// An attempt came to its end, and this is what is known of it for sure.
    pub fn end(&self, report: Report) {
        self.counts().report = report;
    }

    /// What is known so far.
    pub fn so_far(&self) -> Counts {
        self.counts().clone()
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Tally {
    fn on_progress(&self, event: ProgressEvent<'_>) {
        let mut counts = self.counts();
        match event {
            ProgressEvent::Totals(totals) => counts.totals = totals,
            ProgressEvent::Advanced { bytes } => counts.moved += bytes,
            ProgressEvent::Hole { bytes } => counts.report.holes += bytes,
            // What a later attempt finds there, an earlier one has sent.
            ProgressEvent::Resumed { bytes } if counts.attempts <= 1 => counts.resumed += bytes,
            ProgressEvent::Verified { .. } => counts.report.verified += 1,
            ProgressEvent::Failed { .. } => counts.report.failures += 1,
            ProgressEvent::Resumed { .. } | ProgressEvent::Started { .. } | _ => {}
        }
        drop(counts);
        self.view.on_progress(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::progress::ProgressMode;

    #[test]
    fn what_an_earlier_attempt_sent_does_not_count_as_there_before() {
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
}
