//! How a caller learns what goes on.

use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::name::printable;
use crate::request::Totals;

/// One of the two ends of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    /// The one that tells it.
    Local,
    /// The other one.
    Peer,
}

/// One step of a transfer.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum ProgressEvent<'a> {
    /// What will follow in all, as the sender counted it before it began.
    Totals(Totals),
    /// A file or directory begins.
    Started {
        /// Its name, safe to print.
        name: &'a str,
        /// Its announced size in bytes.
        size: u64,
    },
    /// So many more bytes of content went out or came in.
    Advanced {
        /// Bytes since the last such event.
        bytes: u64,
    },
    /// So many bytes of content need not travel: the receiver has them from earlier, and they agree.
    Resumed {
        /// Bytes of one file.
        bytes: u64,
    },
    /// So many bytes of content are a hole in the file, which travels as a number.
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
    /// A file became longer while it was sent: its announced beginning was sent.
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
    /// The transfer ended before this file did, or before its receiver had said what became of it; told by servers
    /// alone.
    BrokenOff {
        /// Its name, safe to print.
        name: &'a str,
        /// Bytes of content that came in or went out, and those that were there from earlier.
        bytes: u64,
        /// Why.
        error: &'a TransferError,
    },
    /// A server did not do what a client asked for; told by servers alone.
    Refused {
        /// Why, as the client was told.
        failure: &'a Failure,
    },
}

/// Is told each step of a transfer, from several threads; must not block.
pub trait Progress: Send + Sync {
    /// Takes note of a step.
    fn on_progress(&self, event: ProgressEvent<'_>);
}

/// Takes no note of anything.
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

/// The end of a transfer that ran to its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Files and directories that the receiver verified.
    pub verified: u64,
    /// Bytes of content in them.
    pub bytes: u64,
    /// Bytes of content that travelled.
    pub moved: u64,
    /// Bytes of content that the receiver had from earlier.
    pub resumed: u64,
    /// Bytes of content that were holes.
    pub holes: u64,
    /// Entries that were left out on purpose.
    pub left_out: u64,
    /// Files of which only the announced beginning was sent, since they became longer meanwhile. Known to their sender.
    pub grown: u64,
    /// Names of files that have another name in the same transfer (hard links): each travels as a file of its own.
    /// Known to their sender.
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

    /// Takes note of what did not arrive because of one end, and tells `progress`.
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
