//! Reports the progress of a transfer to the caller.

use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::name::printable;
use crate::request::Totals;

/// One of the two ends of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    /// The one that reports.
    Local,
    /// The other one.
    Peer,
}

/// One step of a transfer.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum ProgressEvent<'a> {
    /// The total that will follow, as the sender counted it before it began.
    Totals(Totals),
    /// A file or directory begins.
    Started {
        /// Its name, safe to print.
        name: &'a str,
        /// Its announced size in bytes; `None` for content of unknown length, such as standard input.
        size: Option<u64>,
    },
    /// This many more bytes of content were sent or received.
    Advanced {
        /// Bytes since the last such event.
        bytes: u64,
    },
    /// This many bytes of content need not be sent: the receiver has them from earlier, and they agree.
    Resumed {
        /// Bytes of one file.
        bytes: u64,
    },
    /// This many bytes of content are a hole in the file, of which only the length is sent.
    Hole {
        /// Bytes since the last such event.
        bytes: u64,
    },
    /// The receiver has verified the file and put it in its place.
    Verified {
        /// Its name, safe to print.
        name: &'a str,
    },
    /// Something is left out on purpose, which is no failure.
    LeftOut {
        /// Its name, safe to print.
        name: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// A file grew while it was sent: its announced beginning was sent.
    Grew {
        /// Its name, safe to print.
        name: &'a str,
        /// Bytes sent.
        size: u64,
    },
    /// A file failed; the transfer goes on with the next one.
    Failed {
        /// Its name, safe to print.
        name: &'a str,
        /// Why.
        failure: &'a Failure,
        /// At which end: the one that could not read, check or write it.
        at: Party,
    },
    /// The transfer ended before this file did, or before its receiver had sent the verdict; reported by servers only.
    BrokenOff {
        /// Its name, safe to print.
        name: &'a str,
        /// Bytes of content received or sent, and those from earlier.
        bytes: u64,
        /// Why.
        error: &'a TransferError,
    },
    /// A server refused a request; reported by servers only.
    Refused {
        /// Why, as the client was told.
        failure: &'a Failure,
    },
}

/// Receives each step of a transfer, from several threads; must not block.
pub trait Progress: Send + Sync {
    /// Handles a step.
    fn on_progress(&self, event: ProgressEvent<'_>);
}

/// Ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn on_progress(&self, _event: ProgressEvent<'_>) {}
}

impl<F: Fn(ProgressEvent<'_>) + Send + Sync> Progress for F {
    fn on_progress(&self, event: ProgressEvent<'_>) {
        self(event);
    }
}

/// A file that did not arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedFile {
    /// Its name, safe to print.
    pub name: String,
    /// Why.
    pub failure: Failure,
}

/// The result of a transfer that completed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Files and directories that the receiver verified.
    pub verified: u64,
    /// Bytes of content in them.
    pub bytes: u64,
    /// Bytes of content that were transferred.
    pub moved: u64,
    /// Bytes of content that the receiver had from earlier.
    pub resumed: u64,
    /// Bytes of content that were holes.
    pub holes: u64,
    /// Entries that were left out on purpose.
    pub left_out: u64,
    /// Files of which only the announced beginning was sent, since they grew meanwhile. Known to their sender.
    pub grown: u64,
    /// Names of files that have another name in the same transfer (hard links): each is transferred as a file of its
    /// own. Known to their sender.
    pub hard_links: u64,
    /// Those that failed, the first [`Report::MAX_FAILED`] of them.
    pub failed: Vec<FailedFile>,
    /// How many failed in all.
    pub failures: u64,
}

impl Report {
    /// Most failed files that are remembered by name.
    pub const MAX_FAILED: usize = 1000;

    /// Whether every file arrived.
    pub fn is_complete(&self) -> bool {
        self.failures == 0
    }

    /// Records a failure at one end, and reports it to `progress`.
    pub(crate) fn add_failure(
        &mut self,
        progress: &dyn Progress,
        at: Party,
        (name, failure): (String, Failure),
    ) {
        if failure.reason == Reason::LeftOut {
            self.left_out += 1;
            let reason = printable(&failure.text);
            progress.on_progress(ProgressEvent::LeftOut { name: &name, reason: &reason });
            return;
        }
        progress.on_progress(ProgressEvent::Failed { name: &name, failure: &failure, at });
        self.failures += 1;
        if self.failed.len() < Self::MAX_FAILED {
            self.failed.push(FailedFile { name, failure });
        }
    }
}
