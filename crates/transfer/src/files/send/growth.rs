//! Whether what was sent of a file is what it held: files are written while they are read.

use std::fs::File;

use crate::directory::Facts;
use crate::entry::{Entry, Timestamp};
use crate::failure::{Failure, Reason};
use crate::files::sparse::SparseReader;

/// What became of a file while it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// It has its announced size.
    Same,
    /// It is longer, and begins with what was sent.
    Grew,
}

/// Before anything is sent: a file that has grown since it was announced is sent as far as it was announced.
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

/// After all was read: what was sent must have been there at one moment. A file that was written meanwhile is read once
/// more as far as it was sent; if that gives the same, it has only grown.
// transfer 4.6
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

fn begins_with(file: &File, length: u64, hash: blake3::Hash, is_wanted: &dyn Fn() -> bool) -> bool {
    let Ok(file) = file.try_clone() else { return false };
    let Ok(mut reader) = SparseReader::from_start(file, length) else { return false };
    let mut hasher = blake3::Hasher::new();
    reader.hash_to(length, &mut hasher, is_wanted).unwrap_or(false) && hasher.finalize() == hash
}

fn shorter(entry: &Entry, found: u64) -> Failure {
    Failure::with_text(Reason::Shorter, format!("it ended after {found} of {} bytes", entry.size))
}
