//! The files of one request that have begun and not ended.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::TransferError;
use crate::progress::{Progress, ProgressEvent};

/// Passes events on, and knows which files a broken request leaves behind.
pub(super) struct Underway {
    progress: Arc<dyn Progress>,
    /// In the order in which they began; `None` once the request has broken off. Later events of its threads are
    /// dropped, since every file has been reported.
    files: Mutex<Option<VecDeque<File>>>,
}

struct File {
    name: String,
    /// `None` for content of unknown length.
    size: Option<u64>,
    done: u64,
}

impl Underway {
    pub(super) fn new(progress: &Arc<dyn Progress>) -> Arc<Self> {
        Arc::new(Self { progress: Arc::clone(progress), files: Mutex::new(Some(VecDeque::new())) })
    }

    /// The request has ended early, and so have its files.
    pub(super) fn break_off(&self, error: &TransferError) {
        let files = self.files().take();
        for File { name, done, .. } in files.into_iter().flatten() {
            self.progress.on_progress(ProgressEvent::BrokenOff { name: &name, bytes: done, error });
        }
    }

    fn files(&self) -> MutexGuard<'_, Option<VecDeque<File>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Underway {
    fn on_progress(&self, event: ProgressEvent<'_>) {
        let mut guard = self.files();
        let Some(files) = &mut *guard else { return };
        match event {
            ProgressEvent::Started { name, size } => {
                files.push_back(File { name: name.to_owned(), size, done: 0 });
                if files.len() > MOST_FILES {
                    files.pop_front();
                }
            }
            ProgressEvent::Advanced { bytes } => advance(files, bytes),
            ProgressEvent::Resumed { bytes } | ProgressEvent::Hole { bytes } => {
                if let Some(last) = files.back_mut() {
                    last.done = last.done.saturating_add(bytes);
                }
            }
            ProgressEvent::Verified { name }
            | ProgressEvent::Failed { name, .. }
            | ProgressEvent::LeftOut { name, .. } => {
                // Files end about in the order in which they began.
                let place = files.iter().position(|file| file.name == name);
                place.and_then(|place| files.remove(place));
            }
            ProgressEvent::Totals(_)
            | ProgressEvent::Grew { .. }
            | ProgressEvent::BrokenOff { .. }
            | ProgressEvent::Refused { .. } => {}
        }
        drop(guard);
        self.progress.on_progress(event);
    }
}

/// Content arrives in the order of the files; the size of the last one may be unknown.
fn advance(files: &mut VecDeque<File>, mut bytes: u64) {
    let is_complete = |file: &File| file.size.is_some_and(|size| size > 0 && file.done >= size);
    let complete = files.iter().rposition(is_complete).map_or(0, |place| place + 1);
    for file in files.range_mut(complete..) {
        let part = bytes.min(file.size.unwrap_or(0).saturating_sub(file.done));
        file.done += part;
        bytes -= part;
    }
    if let Some(last) = files.back_mut() {
        last.done = last.done.saturating_add(bytes);
    }
}

/// Most files of one request that are remembered: as many as a receiver collects.
const MOST_FILES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_request_reports_the_files_that_have_begun_and_not_ended() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let progress: Arc<dyn Progress> = {
            let told = Arc::clone(&told);
            Arc::new(move |event: ProgressEvent<'_>| {
                if let ProgressEvent::BrokenOff { name, bytes, .. } = event {
                    told.lock().unwrap().push((name.to_owned(), bytes));
                }
            })
        };
        let underway = Underway::new(&progress);
        for (name, size) in [("verified", 10), ("sent", 20), ("half", 100)] {
            underway.on_progress(ProgressEvent::Started { name, size: Some(size) });
        }
        underway.on_progress(ProgressEvent::Resumed { bytes: 5 });
        underway.on_progress(ProgressEvent::Advanced { bytes: 40 });
        underway.on_progress(ProgressEvent::Verified { name: "verified" });
        let error = TransferError::Incomplete { verified: 1 };
        underway.break_off(&error);
        underway.on_progress(ProgressEvent::Started { name: "late", size: Some(1) });
        underway.break_off(&error);
        assert_eq!(*told.lock().unwrap(), [("sent".to_owned(), 20), ("half".to_owned(), 15)]);
    }
}
