//! The progress of files.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use manyway_transfer::{Progress, ProgressEvent};

use super::document::FilesDocument;

/// Counts the files of a command or of one of its peers; clones count together.
#[derive(Debug, Clone, Default)]
pub struct FileCounts(Arc<Mutex<FilesDocument>>);

impl FileCounts {
    /// The counts; `None` before there is anything to transfer.
    pub fn so_far(&self) -> Option<FilesDocument> {
        let files = self.lock();
        (files.files > 0 || files.current.is_some()).then(|| files.clone())
    }

    fn lock(&self) -> MutexGuard<'_, FilesDocument> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for FileCounts {
    fn on_progress(&self, event: ProgressEvent<'_>) {
        let mut files = self.lock();
        match event {
            // Another attempt or another request begins.
            ProgressEvent::Totals(totals) => {
                *files =
                    FilesDocument { files: totals.files, bytes: totals.bytes, ..FilesDocument::default() };
            }
            ProgressEvent::Started { name, .. } => files.current = Some(name.to_owned()),
            ProgressEvent::Advanced { bytes }
            | ProgressEvent::Resumed { bytes }
            | ProgressEvent::Hole { bytes } => files.bytes_done = files.bytes_done.saturating_add(bytes),
            ProgressEvent::Verified { name } => {
                files.files_done += 1;
                files.forget(name);
            }
            ProgressEvent::Failed { name, .. } | ProgressEvent::BrokenOff { name, .. } => {
                files.failed += 1;
                files.forget(name);
            }
            ProgressEvent::LeftOut { name, .. } => files.forget(name),
            ProgressEvent::Grew { .. } | ProgressEvent::Refused { .. } | _ => {}
        }
    }
}

impl FilesDocument {
    /// Of the bytes that count as done, this many were given to a connection and have not arrived.
    pub(super) fn take_back(&mut self, waiting: u64) {
        self.bytes_done = self.bytes_done.saturating_sub(waiting);
    }

    fn forget(&mut self, name: &str) {
        self.current.take_if(|current| current == name);
    }
}

#[cfg(test)]
mod tests {
    use manyway_transfer::Totals;

    use super::*;

    #[test]
    fn a_file_is_shown_during_its_transfer() {
        let counts = FileCounts::default();
        assert_eq!(counts.so_far(), None);
        counts.on_progress(ProgressEvent::Totals(Totals { files: 2, bytes: 1000 }));
        counts.on_progress(ProgressEvent::Started { name: "a", size: Some(600) });
        counts.on_progress(ProgressEvent::Advanced { bytes: 600 });
        let now = counts.so_far().unwrap();
        assert_eq!((now.current.as_deref(), now.bytes_done, now.files_done), (Some("a"), 600, 0));
        counts.on_progress(ProgressEvent::Verified { name: "a" });
        let now = counts.so_far().unwrap();
        assert_eq!((now.current, now.files_done, now.files), (None, 1, 2));
    }
}
