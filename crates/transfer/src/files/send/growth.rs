//! Checks whether the sent content is what the file held: files may be written while they are read.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::Receiver as Queue;

use crate::directory::{Directory, Facts};
use crate::entry::{Entry, Timestamp};
use crate::failure::{Failure, Reason};
use crate::files::sparse::SparseReader;
use crate::name::RelativePath;
use crate::progress::{Progress, ProgressEvent};

/// What happened to a file while it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// It has its announced size.
    Same,
    /// It is longer, and begins with the sent content.
    Grew,
}

/// Before sending: a file that has grown since it was announced is sent up to its announced size.
// transfer 4.6
pub(super) fn check_before(entry: &Entry, facts: &Facts) -> Result<(), Failure> {
    if facts.size < entry.size {
        return Err(shorter(entry, facts.size));
    }
    if facts.size == entry.size && facts.modified != entry.modified {
        return Err(Failure::new(Reason::Changed));
    }
    Ok(())
}

/// After reading everything: the sent content must have existed at one moment. A file that was written meanwhile is
/// read again as far as it was sent; if the content is the same, the file has only grown.
// transfer 4.6, 4.16
pub(super) fn check_after(
    entry: &Entry,
    before: &Facts,
    reader: SparseReader,
    (sent, is_wanted): (blake3::Hash, &dyn Fn() -> bool),
) -> Result<Growth, Failure> {
    if reader.position() < entry.size {
        return Err(shorter(entry, reader.position()));
    }
    let after = reader.file().metadata().map_err(|error| Failure::from_io(&error))?;
    let modified = after.modified().map(Timestamp::from).map_err(|error| Failure::from_io(&error))?;
    if after.len() < entry.size {
        return Err(shorter(entry, after.len()));
    }
    let is_untouched = after.len() == before.size && modified == before.modified;
    if is_untouched {
        return Ok(if after.len() > entry.size { Growth::Grew } else { Growth::Same });
    }
    if after.len() == entry.size || !begins_with(reader.file(), entry.size, sent, is_wanted) {
        return Err(Failure::new(Reason::Changed));
    }
    Ok(Growth::Grew)
}

/// A file that was read to its announced size, and had that when its last byte was read.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(super) directory: Arc<Directory>,
    pub(super) place: RelativePath,
    pub(super) name: String,
    pub(super) size: u64,
    /// Device and inode: another file of that name has not grown.
    pub(super) identity: (u64, u64),
}

impl Sent {
    fn has_grown(&self) -> bool {
        let is_longer = |now: &Facts| (now.device, now.inode) == self.identity && now.size > self.size;
        self.directory.describe(&self.place).is_ok_and(|now| is_longer(&now))
    }
}

/// Checks each file again once its receiver has verified it: a file may have been read as a whole long before its last
/// byte was sent. Returns how many have grown.
pub(crate) fn watch(verified: &Queue<Vec<Sent>>, progress: &dyn Progress) -> u64 {
    let mut grown = 0;
    for sent in verified.iter().flatten() {
        if sent.has_grown() {
            grown += 1;
            progress.on_progress(ProgressEvent::Grew { name: &sent.name, size: sent.size });
        }
    }
    grown
}

fn begins_with(file: &File, length: u64, hash: blake3::Hash, is_wanted: &dyn Fn() -> bool) -> bool {
    let Ok(file) = file.try_clone() else { return false };
    let Ok(mut reader) = SparseReader::from_start(file, length) else { return false };
    let mut hasher = blake3::Hasher::new();
    reader.hash_to(length, &mut hasher, is_wanted).unwrap_or(false) && hasher.finalize() == hash
}

fn shorter(entry: &Entry, found: u64) -> Failure {
    Failure::with_text(Reason::Shorter, format!("it ended after {found} of {} bytes", entry.size))
}
