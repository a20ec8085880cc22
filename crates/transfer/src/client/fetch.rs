//! Fetches one file to an output that cannot be rewound: standard output, a pipe, a device.

use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};

use manyway_session::Session;
use tokio::sync::mpsc;

use crate::answer::{Answer, Mark};
use crate::codec::CodecError;
use crate::entry::{Entry, EntryKind};
use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::flow::tell;
use crate::frame::{BODY_LIMIT, Frame, HEADER, Header, Kind, Verdict};
use crate::name::RelativePath;
use crate::pipe::consume_received;
use crate::progress::{Party, Progress, ProgressEvent, Report};
use crate::request::{GetRequest, Request, Totals};
use crate::rules::Rules;
use crate::wire::{finish, read_acceptance, read_end, write_frame, write_request};

/// The output for the content of one file, over as many attempts as it takes. Clones share one output.
#[derive(Clone)]
pub struct Outlet(Arc<Mutex<State>>);

struct State {
    writer: Box<dyn Write + Send>,
    hasher: blake3::Hasher,
    written: u64,
    /// The error of the output, if it failed.
    broken: Option<std::io::Error>,
}

impl Outlet {
    /// Writes to `writer`, which is flushed at the end.
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        let (writer, hasher) = (Box::new(writer), blake3::Hasher::new());
        Self(Arc::new(Mutex::new(State { writer, hasher, written: 0, broken: None })))
    }

    /// Takes the error of the output, if it failed.
    pub fn take_error(&self) -> Option<std::io::Error> {
        self.state().broken.take()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Outlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outlet").field("written", &self.state().written).finish_non_exhaustive()
    }
}

/// Fetches one file into `outlet`; without a path, the only one that is served. After a broken connection the next call
/// with the same outlet continues after what was written, if the file still begins with that.
///
/// The content is verified only at its end: a reader has to check the result.
///
/// # Errors
/// The other side refuses, the path is a directory or there is more than one file, or the connection broke. A missing
/// file fails in the report.
pub async fn fetch<S: Session>(
    session: &S,
    path: Option<RelativePath>,
    outlet: &Outlet,
    progress: Arc<dyn Progress>,
) -> Result<Report, TransferError> {
    let (mut send, mut receive) = session.open().await.map_err(TransferError::stream("opening a stream"))?;
    let wanted = path.clone();
    let request = GetRequest { rules: Rules::default(), paths: path.into_iter().collect() };
    write_request(&mut send, Request::Get(request)).await?;
    let totals = read_acceptance(&mut receive).await?;
    if totals.files > 1 {
        return Err(several(wanted.as_ref()));
    }
    let (answers, queue) = mpsc::channel(ANSWERS_WAITING);
    let outlet = outlet.clone();
    let receiving = consume_received(&mut receive, move |source| {
        let mut fetching =
            Fetching { progress, answers, totals, report: Report::default(), entries: 0, file: None };
        fetching.run(source, &mut outlet.state()).map(|()| fetching.report)
    });
    let (report, told) = tokio::join!(receiving, tell(queue, &mut send));
    let report = report?;
    told?;
    read_end(&mut receive).await?;
    write_frame(&mut send, &Frame::Done(Totals { files: report.verified, bytes: report.bytes })).await?;
    let _ = finish(&mut send).await;
    Ok(report)
}

/// The error for a directory, or for everything that is served.
fn several(path: Option<&RelativePath>) -> TransferError {
    TransferError::NotOneFile(match path {
        Some(path) => {
            format!(
                "{path} is a directory, and only one file can be written to this output; name a file in it"
            )
        }
        None => "there is more than one file, and only one can be written to this output; name it".to_owned(),
    })
}

/// The thread that reads the stream.
struct Fetching {
    progress: Arc<dyn Progress>,
    answers: mpsc::Sender<Vec<Frame>>,
    totals: Totals,
    report: Report,
    entries: u64,
    /// The file that is received.
    file: Option<File>,
}

struct File {
    index: u64,
    entry: Entry,
    /// The length at which it may be resumed, beside its beginning.
    mark: Option<u64>,
    course: Course,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    Announced,
    Writing,
    Ended,
}

impl Fetching {
    fn run(&mut self, source: &mut impl BufRead, state: &mut State) -> Result<(), TransferError> {
        let mut body = Vec::new();
        loop {
            let mut bytes = [0; HEADER];
            source.read_exact(&mut bytes).map_err(TransferError::stream("receiving a file"))?;
            let header = Header::decode(bytes)?;
            if header.kind == Kind::Data {
                self.on_data(source, header.length, state)?;
                continue;
            }
            body.resize(header.length.min(BODY_LIMIT), 0);
            source.read_exact(&mut body).map_err(TransferError::stream("receiving a file"))?;
            match Frame::decode(header.kind, &body)? {
                Frame::Entry(entry) => self.on_entry(entry, state)?,
                Frame::Start { entry, offset } => self.on_start(entry, offset, state)?,
                Frame::Hole { length } => self.on_hole(length, state)?,
                Frame::End { hash } => self.on_end(blake3::Hash::from_bytes(hash), state)?,
                Frame::Abandoned { entry, name, failure } => self.on_abandoned(entry, &name, failure)?,
                Frame::Done(totals) if totals.files == self.entries && !self.is_open() => return Ok(()),
                Frame::Done(totals) => {
                    return Err(CodecError::Value { field: "files", value: totals.files }.into());
                }
                Frame::Request(_)
                | Frame::Accepted(_)
                | Frame::Refused(_)
                | Frame::Hello { .. }
                | Frame::Verdict(_)
                | Frame::Answer(_)
                | Frame::Interval(_)
                | Frame::Summary(_)
                | Frame::Account(_) => return Err(TransferError::Unexpected { wanted: "a file" }),
            }
        }
    }

    fn is_open(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.course != Course::Ended)
    }

    fn on_entry(&mut self, entry: Entry, state: &State) -> Result<(), TransferError> {
        let index = self.entries;
        self.entries += 1;
        let refused = match &entry.kind {
            _ if self.file.is_some() => return Err(several(None)),
            EntryKind::Directory => return Err(several(Some(&entry.path))),
            EntryKind::Link(_) => Some("a symbolic link can not be written to this output"),
            EntryKind::Stream if state.written > 0 => Some("content of unknown length can be read only once"),
            EntryKind::File | EntryKind::Stream => None,
        };
        if let Some(text) = refused {
            let failure = Failure::with_text(Reason::Other, text);
            self.judge(index, &entry, Err((Party::Local, failure)));
            return Ok(());
        }
        self.progress.on_progress(ProgressEvent::Totals(self.totals));
        let is_mark = state.written > 0 && state.written <= entry.size;
        let mark = is_mark.then_some(state.written);
        let hash = *state.hasher.finalize().as_bytes();
        let marks = mark.map(|length| Mark { length, hash }).into_iter().collect();
        self.file = Some(File { index, entry, mark, course: Course::Announced });
        self.say(Frame::Answer(Answer { entry: index, marks }));
        Ok(())
    }

    fn on_start(&mut self, entry: u64, offset: u64, state: &State) -> Result<(), TransferError> {
        let Some(file) = self.file.as_mut().filter(|f| f.index == entry && f.course == Course::Announced)
        else {
            return Err(TransferError::Unexpected { wanted: "a file that was asked for" });
        };
        if offset != 0 && Some(offset) != file.mark {
            return Err(CodecError::Value { field: "offset", value: offset }.into());
        }
        file.course = Course::Writing;
        let name = file.entry.path.to_string();
        self.progress.on_progress(ProgressEvent::Started { name: &name, size: file.entry.announced_size() });
        if offset != state.written {
            self.fail(Failure::with_text(
                Reason::Changed,
                "what was written of it already is no longer its beginning",
            ));
            return Ok(());
        }
        if offset > 0 {
            self.report.resumed += offset;
            self.progress.on_progress(ProgressEvent::Resumed { bytes: offset });
        }
        Ok(())
    }

    fn on_data(
        &mut self,
        source: &mut impl BufRead,
        length: usize,
        state: &mut State,
    ) -> Result<(), TransferError> {
        let mut left = length;
        while left > 0 {
            let available = source.fill_buf().map_err(TransferError::stream("receiving a file"))?;
            let Some(piece) = available.get(..available.len().min(left)).filter(|p| !p.is_empty()) else {
                return Err(TransferError::Incomplete { verified: 0 });
            };
            let taken = piece.len();
            self.write(piece, state)?;
            source.consume(taken);
            left -= taken;
        }
        self.flush(state);
        let bytes = u64::try_from(length).unwrap_or(0);
        self.report.moved += bytes;
        self.progress.on_progress(ProgressEvent::Advanced { bytes });
        Ok(())
    }

    /// Makes the data available to a reader: the next piece may take long.
    fn flush(&mut self, state: &mut State) {
        if let Err(error) = state.writer.flush() {
            let failure = Failure::from_io(&error);
            state.broken.get_or_insert(error);
            self.fail(failure);
        }
    }

    fn on_hole(&mut self, length: u64, state: &mut State) -> Result<(), TransferError> {
        let mut left = length;
        while left > 0 {
            let piece = usize::try_from(left).unwrap_or(ZEROS.len()).min(ZEROS.len());
            self.write(ZEROS.get(..piece).unwrap_or_default(), state)?;
            left -= u64::try_from(piece).unwrap_or(left);
        }
        self.flush(state);
        self.report.holes += length;
        self.progress.on_progress(ProgressEvent::Hole { bytes: length });
        Ok(())
    }

    fn write(&mut self, piece: &[u8], state: &mut State) -> Result<(), TransferError> {
        let Some(file) = &self.file else { return Err(TransferError::Unexpected { wanted: "a file" }) };
        match file.course {
            Course::Announced => return Err(TransferError::Unexpected { wanted: "the start of a file" }),
            // Its verdict is sent; further content is discarded.
            Course::Ended => return Ok(()),
            Course::Writing => {}
        }
        let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        let end = state.written.saturating_add(length);
        if file.entry.kind == EntryKind::File && end > file.entry.size {
            self.fail(Failure::new(Reason::Changed));
            return Ok(());
        }
        if let Err(error) = state.writer.write_all(piece) {
            let failure = Failure::from_io(&error);
            state.broken = Some(error);
            self.fail(failure);
            return Ok(());
        }
        state.hasher.update(piece);
        state.written = end;
        Ok(())
    }

    fn on_end(&mut self, hash: blake3::Hash, state: &State) -> Result<(), TransferError> {
        let Some(file) = &mut self.file else { return Err(TransferError::Unexpected { wanted: "a file" }) };
        match file.course {
            Course::Announced => return Err(TransferError::Unexpected { wanted: "the start of a file" }),
            Course::Ended => return Ok(()),
            Course::Writing => {}
        }
        if file.entry.kind == EntryKind::File && state.written != file.entry.size {
            self.fail(Failure::new(Reason::Changed));
        } else if state.hasher.finalize() != hash {
            self.fail(Failure::new(Reason::Hash));
        } else {
            file.course = Course::Ended;
            file.entry.size = state.written;
            let (index, entry) = (file.index, file.entry.clone());
            self.judge(index, &entry, Ok(()));
        }
        Ok(())
    }

    fn on_abandoned(
        &mut self,
        entry: Option<u64>,
        name: &str,
        failure: Failure,
    ) -> Result<(), TransferError> {
        match (entry, &self.file) {
            (None, _) => {
                let name = crate::name::printable(name);
                self.report.add_failure(&*self.progress, Party::Peer, (name, failure));
                Ok(())
            }
            (Some(index), Some(file)) if file.index == index => {
                self.fail_at(Party::Peer, failure);
                Ok(())
            }
            (Some(value), _) => Err(CodecError::Value { field: "entry", value }.into()),
        }
    }

    /// Fails the file that is received, unless its verdict is sent.
    fn fail(&mut self, failure: Failure) {
        self.fail_at(Party::Local, failure);
    }

    fn fail_at(&mut self, at: Party, failure: Failure) {
        let Some(file) = self.file.as_mut().filter(|file| file.course != Course::Ended) else { return };
        file.course = Course::Ended;
        let (index, entry) = (file.index, file.entry.clone());
        self.judge(index, &entry, Err((at, failure)));
    }

    // transfer 4.8
    fn judge(&mut self, index: u64, entry: &Entry, outcome: Result<(), (Party, Failure)>) {
        let name = entry.path.to_string();
        match &outcome {
            Ok(()) => {
                self.report.verified += 1;
                self.report.bytes = entry.size;
                self.progress.on_progress(ProgressEvent::Verified { name: &name });
            }
            Err((at, failure)) => {
                self.report.add_failure(&*self.progress, *at, (name, failure.clone()));
            }
        }
        let outcome = outcome.map_err(|(_, failure)| failure);
        self.say(Frame::Verdict(Verdict { index, path: entry.path.clone(), outcome }));
    }

    /// Sends a frame to the sender; if it is gone, the error shows on the stream.
    fn say(&self, frame: Frame) {
        let _ = self.answers.blocking_send(vec![frame]);
    }
}

/// Most queued answers.
const ANSWERS_WAITING: usize = 16;
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
