//! Frames into files.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};

use crate::codec::CodecError;
use crate::directory::{Directory, PartFile};
use crate::entry::{Entry, EntryKind};
use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::frame::{BODY_LIMIT, Frame, HEADER, Header, Kind, Verdict};
use crate::name::printable;
use crate::progress::{Progress, ProgressEvent, Report};

/// Which names a receiver takes.
#[derive(Debug, Clone)]
pub(crate) enum Admission {
    /// Any name: the sender was invited to put what it likes.
    Anything,
    /// Names that begin with one of these components: what was asked for.
    // transfer 5.3
    Below(BTreeSet<String>),
}

/// Takes files from a stream of frames into a directory.
pub(crate) struct Receiver<'a> {
    directory: &'a Directory,
    admission: &'a Admission,
    progress: &'a dyn Progress,
    verdicts: &'a mut dyn FnMut(Verdict),
    entries: u64,
    report: Report,
    current: Option<Current>,
    body: Vec<u8>,
}

/// The file whose content comes in.
struct Current {
    index: u64,
    entry: Entry,
    state: State,
}

enum State {
    Writing {
        part: PartFile,
        hasher: Box<blake3::Hasher>,
        received: u64,
    },
    /// Its verdict is out; what still comes is thrown away.
    Refused,
}

impl<'a> Receiver<'a> {
    pub(crate) fn new(
        directory: &'a Directory,
        admission: &'a Admission,
        progress: &'a dyn Progress,
        verdicts: &'a mut dyn FnMut(Verdict),
    ) -> Self {
        let report = Report::default();
        Self { directory, admission, progress, verdicts, entries: 0, report, current: None, body: Vec::new() }
    }

    /// Receives until DONE. An early end loses the file that was on its way, not those before it.
    pub(crate) fn run(mut self, source: &mut impl BufRead) -> Result<Report, TransferError> {
        loop {
            match self.step(source) {
                Ok(false) => {}
                Ok(true) => return Ok(self.report),
                Err(TransferError::Incomplete { .. }) => {
                    return Err(TransferError::Incomplete { verified: self.report.verified });
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn step(&mut self, source: &mut impl BufRead) -> Result<bool, TransferError> {
        let mut bytes = [0; HEADER];
        source.read_exact(&mut bytes).map_err(TransferError::stream("receiving files"))?;
        let header = Header::decode(bytes)?;
        if header.kind == Kind::Data {
            self.on_data(source, header.length)?;
            return Ok(false);
        }
        // `Header::decode` bounds the length.
        self.body.resize(header.length.min(BODY_LIMIT), 0);
        source.read_exact(&mut self.body).map_err(TransferError::stream("receiving files"))?;
        match Frame::decode(header.kind, &self.body)? {
            Frame::Entry(entry) => self.on_entry(entry)?,
            Frame::End { hash } => self.on_end(hash)?,
            Frame::Abandoned { name, failure } => self.on_abandoned(&name, failure),
            Frame::Done(totals) => {
                if self.current.is_some() {
                    return Err(TransferError::Unexpected { wanted: "the end of a file" });
                }
                // transfer 3.6
                if totals.files != self.entries {
                    return Err(CodecError::Value { field: "files", value: totals.files }.into());
                }
                return Ok(true);
            }
            Frame::Request(_)
            | Frame::Accepted(_)
            | Frame::Refused(_)
            | Frame::Hello { .. }
            | Frame::Verdict(_)
            | Frame::Interval(_)
            | Frame::Summary(_)
            | Frame::Account(_) => return Err(TransferError::Unexpected { wanted: "a file" }),
        }
        Ok(false)
    }

    fn on_entry(&mut self, entry: Entry) -> Result<(), TransferError> {
        if self.current.is_some() {
            return Err(TransferError::Unexpected { wanted: "the end of a file" });
        }
        let index = self.entries;
        self.entries += 1;
        self.progress.on_progress(ProgressEvent::Started { name: &entry.path.to_string(), size: entry.size });
        let opened = self.admit(&entry).and_then(|()| match entry.kind {
            EntryKind::Directory => self.directory.make_directory(&entry.path, entry.mode).map(|()| None),
            EntryKind::File => self.directory.create(&entry.path).map(Some),
        });
        let state = match opened {
            Ok(None) => {
                self.judge(index, &entry, Ok(()));
                return Ok(());
            }
            Ok(Some(part)) => State::Writing { part, hasher: Box::default(), received: 0 },
            Err(failure) => {
                self.judge(index, &entry, Err(failure));
                if entry.kind == EntryKind::Directory {
                    return Ok(());
                }
                State::Refused
            }
        };
        self.current = Some(Current { index, entry, state });
        Ok(())
    }

    fn admit(&self, entry: &Entry) -> Result<(), Failure> {
        match self.admission {
            Admission::Anything => Ok(()),
            Admission::Below(names) if names.contains(entry.path.first()) => Ok(()),
            Admission::Below(_) => Err(Failure::new(Reason::Unasked)),
        }
    }

    fn on_data(&mut self, source: &mut impl BufRead, length: usize) -> Result<(), TransferError> {
        let Some(mut current) = self.current.take() else {
            return Err(TransferError::Unexpected { wanted: "a file" });
        };
        let mut left = length;
        while left > 0 {
            let available = source.fill_buf().map_err(TransferError::stream("receiving files"))?;
            let Some(piece) = available.get(..available.len().min(left)).filter(|p| !p.is_empty()) else {
                return Err(TransferError::Incomplete { verified: 0 });
            };
            let taken = piece.len();
            if let Err(failure) = current.write(piece) {
                // transfer 3.5: told at once, so that the sender can stop
                current.state = State::Refused;
                self.judge(current.index, &current.entry, Err(failure));
            }
            source.consume(taken);
            left -= taken;
        }
        self.progress.on_progress(ProgressEvent::Advanced { bytes: u64::try_from(length).unwrap_or(0) });
        self.current = Some(current);
        Ok(())
    }

    fn on_end(&mut self, hash: [u8; 32]) -> Result<(), TransferError> {
        let Some(Current { index, entry, state }) = self.current.take() else {
            return Err(TransferError::Unexpected { wanted: "a file" });
        };
        match state {
            State::Refused => {}
            State::Writing { part, hasher, received } => {
                // transfer 4.3: nothing gets its name that is not what was announced and hashed
                let outcome = if received != entry.size {
                    Err(Failure::new(Reason::Changed))
                } else if hasher.finalize() != blake3::Hash::from_bytes(hash) {
                    Err(Failure::new(Reason::Hash))
                } else {
                    part.finish(entry.mode, entry.modified)
                };
                self.judge(index, &entry, outcome);
            }
        }
        Ok(())
    }

    fn on_abandoned(&mut self, name: &str, failure: Failure) {
        match self.current.take() {
            Some(Current { state: State::Refused, .. }) => {}
            Some(Current { index, entry, state: State::Writing { .. } }) => {
                self.judge(index, &entry, Err(failure));
            }
            None => {
                let shown = printable(name);
                self.progress.on_progress(ProgressEvent::Failed { name: &shown, failure: &failure });
                self.report.add_failure(shown, failure);
            }
        }
    }

    // transfer 3.5: exactly one verdict for each entry, in order
    fn judge(&mut self, index: u64, entry: &Entry, outcome: Result<(), Failure>) {
        let name = entry.path.to_string();
        match &outcome {
            Ok(()) => {
                self.report.verified += 1;
                self.report.bytes = self.report.bytes.saturating_add(entry.size);
                self.progress.on_progress(ProgressEvent::Verified { name: &name });
            }
            Err(failure) => {
                self.progress.on_progress(ProgressEvent::Failed { name: &name, failure });
                self.report.add_failure(name, failure.clone());
            }
        }
        (self.verdicts)(Verdict { index, path: entry.path.clone(), outcome });
    }
}

impl Current {
    fn write(&mut self, piece: &[u8]) -> Result<(), Failure> {
        let State::Writing { part, hasher, received } = &mut self.state else { return Ok(()) };
        let total = received.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        if total > self.entry.size {
            return Err(Failure::new(Reason::Changed));
        }
        hasher.update(piece);
        part.file().write_all(piece).map_err(|e: io::Error| Failure::from_io(&e))?;
        *received = total;
        Ok(())
    }
}
