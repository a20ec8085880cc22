//! The content of one file as it arrives.

use std::io::{Seek, SeekFrom, Write};

use super::kept::Kept;
use super::reception::Reception;
use super::room;
use super::settle::{Flush, Job, Trouble, Work};
use crate::codec::CodecError;
use crate::directory::{Attributes, Identity, Target};
use crate::entry::{Entry, EntryKind};
use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::files::claims::{Complete, Held};
use crate::files::sparse::{SparseReader, hash_zeros};
use crate::progress::ProgressEvent;

/// The file whose content arrives.
pub(super) struct Content<'a> {
    reception: &'a Reception,
    index: u64,
    entry: Entry,
    target: Target,
    state: State,
}

enum State {
    Writing(Writing),
    /// The whole file exists already: only its hash may follow.
    There {
        identity: Identity,
        hash: blake3::Hash,
    },
    /// Its verdict is sent; further content is discarded.
    Refused,
}

struct Writing {
    held: Held,
    /// Its announced size; `None` if it is unknown.
    size: Option<u64>,
    hasher: Box<blake3::Hasher>,
    position: u64,
    /// Bytes since the last sync request.
    unflushed: u64,
    trouble: Trouble,
}

impl<'a> Content<'a> {
    /// Opens the file and continues at `offset`. A file that cannot be opened gets its verdict, and its content is
    /// discarded.
    // transfer 4.15
    pub(super) fn start(
        reception: &'a Reception,
        index: u64,
        entry: Entry,
        (held, target): (Held, Target),
        (kept, offset): (Kept, u64),
    ) -> Result<Self, TransferError> {
        let is_offered = match &kept {
            Kept::Nothing => offset == 0,
            Kept::Part { places, .. } => offset == 0 || places.contains(&offset),
            Kept::Whole { .. } => offset == 0 || offset == entry.size,
        };
        if !is_offered {
            return Err(CodecError::Value { field: "offset", value: offset }.into());
        }
        if offset > 0 {
            reception.report().resumed += offset;
            reception.progress.on_progress(ProgressEvent::Resumed { bytes: offset });
        }
        let state = match kept {
            Kept::Whole { identity, hash } if offset > 0 => Ok(State::There { identity, hash }),
            kept @ (Kept::Nothing | Kept::Part { .. } | Kept::Whole { .. }) => {
                Writing::open(reception, &entry, held, kept, offset).map(State::Writing)
            }
        };
        let mut content = Self { reception, index, entry, target, state: State::Refused };
        match state {
            Ok(state) => content.state = state,
            Err(failure) => content.judge(Err(failure)),
        }
        Ok(content)
    }

    pub(super) fn index(&self) -> u64 {
        self.index
    }

    pub(super) fn on_data(&mut self, piece: &[u8]) {
        let result = match &mut self.state {
            State::Writing(writing) => writing.write(piece),
            State::There { .. } => Err(Failure::new(Reason::Changed)),
            State::Refused => return,
        };
        self.check(result);
    }

    pub(super) fn on_hole(&mut self, length: u64) {
        let result = match &mut self.state {
            State::Writing(writing) => writing.leave_hole(length),
            State::There { .. } => Err(Failure::new(Reason::Changed)),
            State::Refused => return,
        };
        if result.is_ok() {
            self.reception.report().holes += length;
            self.reception.progress.on_progress(ProgressEvent::Hole { bytes: length });
        }
        self.check(result);
    }

    /// What should be synced now, so that a system crash loses little of a large file.
    // transfer 5.5
    pub(super) fn due_flush(&mut self) -> Option<Flush> {
        let State::Writing(writing) = &mut self.state else { return None };
        if writing.unflushed < FLUSH {
            return None;
        }
        writing.unflushed = 0;
        let file = writing.held.with(|part| part.file().try_clone().map_err(|e| Failure::from_io(&e)));
        Some(Flush { file: file.ok()?, trouble: Trouble::clone(&writing.trouble) })
    }

    /// Ends the content. Returns a file that matches its hash, to get its name.
    // transfer 5.3
    pub(super) fn end(mut self, hash: blake3::Hash) -> Option<Job> {
        match std::mem::replace(&mut self.state, State::Refused) {
            State::Refused => None,
            State::There { identity, hash: there } => {
                let attributes = Attributes { mode: self.entry.mode, modified: self.entry.modified };
                let outcome = if there == hash {
                    self.reception.directory.adopt(&self.entry.path, &identity, attributes)
                } else {
                    Err(Failure::new(Reason::Hash))
                };
                self.judge(outcome);
                None
            }
            State::Writing(writing) => match writing.close(hash) {
                Ok((held, complete, trouble)) => {
                    self.entry.size = complete.identity.size();
                    let (index, entry, target) = (self.index, self.entry, self.target);
                    Some(Job { index, entry, work: Work::File { held, complete, target, trouble } })
                }
                Err(failure) => {
                    self.judge(Err(failure));
                    None
                }
            },
        }
    }

    /// Handles a file that the sender abandons. What exists stays for the next time.
    // transfer 5.6
    pub(super) fn abandon(mut self, failure: Failure) {
        if let State::Writing(writing) = std::mem::replace(&mut self.state, State::Refused) {
            writing.leave();
            self.reception.on_given_up(self.index, &self.entry, failure);
        }
    }

    /// Handles the end of the stream in the middle of the file.
    // transfer 5.6
    pub(super) fn interrupt(self) {
        if let State::Writing(writing) = self.state {
            writing.leave();
        }
    }

    // transfer 4.8: a failure is reported at once, so that the sender can stop
    fn check(&mut self, result: Result<(), Failure>) {
        let Err(mut failure) = result else { return };
        if let State::Writing(mut writing) = std::mem::replace(&mut self.state, State::Refused) {
            if failure.reason == Reason::DiskFull {
                failure = writing.give_way(self.reception, &self.entry);
            }
            writing.leave();
        }
        self.judge(Err(failure));
    }

    fn judge(&self, outcome: Result<(), Failure>) {
        self.reception.judge(self.index, &self.entry, outcome);
    }
}

impl Writing {
    fn open(
        reception: &Reception,
        entry: &Entry,
        held: Held,
        kept: Kept,
        offset: u64,
    ) -> Result<Self, Failure> {
        // Data that arrived since the look-up may have taken the space.
        room::check(reception, entry, &kept)?;
        let mut part = reception.directory.open_part(&entry.path)?;
        let mut hasher: Box<blake3::Hasher> = Box::default();
        if let Kept::Part { identity, hasher: whole, places } = kept
            && offset > 0
        {
            if part.opened() != identity {
                return Err(Failure::with_text(Reason::Busy, "its unfinished file was changed meanwhile"));
            }
            if places.last() == Some(&offset) {
                hasher = whole;
            } else {
                let file = part.file().try_clone().map_err(|e| Failure::from_io(&e))?;
                let reached = SparseReader::new(file, 0, offset)
                    .hash_to(offset, &mut hasher, &|| reception.is_wanted())
                    .map_err(|e| Failure::from_io(&e))?;
                if !reached {
                    return Err(Failure::new(Reason::Busy));
                }
            }
        }
        if part.opened().size() > 0 {
            // The rest is cut off: a hole must not show old content.
            part.file()
                .set_len(offset)
                .and_then(|()| part.file().seek(SeekFrom::Start(offset)))
                .map_err(|error| Failure::from_io(&error))?;
        }
        held.put(part)?;
        // transfer 4.11
        let size = (entry.kind != EntryKind::Stream).then_some(entry.size);
        Ok(Self { held, size, hasher, position: offset, unflushed: 0, trouble: Trouble::default() })
    }

    fn write(&mut self, piece: &[u8]) -> Result<(), Failure> {
        let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        let end = self.advance(length)?;
        self.held.with(|part| part.file().write_all(piece).map_err(|error| Failure::from_io(&error)))?;
        self.hasher.update(piece);
        self.position = end;
        self.unflushed += length;
        Ok(())
    }

    fn leave_hole(&mut self, length: u64) -> Result<(), Failure> {
        let end = self.advance(length)?;
        self.held.with(|part| {
            let file = part.file();
            file.set_len(end)
                .and_then(|()| file.seek(SeekFrom::Start(end)))
                .map(drop)
                .map_err(|error| Failure::from_io(&error))
        })?;
        hash_zeros(&mut self.hasher, length);
        self.position = end;
        Ok(())
    }

    fn advance(&self, length: u64) -> Result<u64, Failure> {
        match self.position.checked_add(length) {
            Some(end) if self.size.is_none_or(|size| end <= size) => Ok(end),
            Some(_) | None => Err(Failure::new(Reason::Changed)),
        }
    }

    fn close(self, hash: blake3::Hash) -> Result<(Held, Complete, Trouble), Failure> {
        if self.size.is_some_and(|size| self.position != size) {
            return Err(Failure::new(Reason::Changed));
        }
        if self.hasher.finalize() != hash {
            return Err(Failure::new(Reason::Hash));
        }
        let complete = self.held.complete()?;
        Ok((self.held, complete, self.trouble))
    }

    /// Frees space on a full disk for other files.
    // transfer 5.17
    fn give_way(&mut self, reception: &Reception, entry: &Entry) -> Failure {
        let keep = room::kept_when_full(reception, entry, self.position);
        let trimmed = self.held.with(|part| part.file().set_len(keep).map_err(|e| Failure::from_io(&e)));
        if trimmed.is_ok() {
            self.position = keep;
        }
        room::full(reception, entry, self.position)
    }

    /// Leaves the unfinished file behind, unless it is empty or cannot be resumed.
    fn leave(self) {
        if (self.position == 0 || self.size.is_none())
            && let Ok(part) = self.held.settle()
        {
            part.discard();
        }
    }
}

/// Bytes between two sync requests.
const FLUSH: u64 = 64 << 20;
