//! Files into frames.
//!
//! Two threads share the work: the one that announces and sends, and one that compares ahead what the receiver has
//! already with what is here ([`check`]).

mod check;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver as Queue, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::receive::{WINDOW, WINDOW_BYTES};
use super::sparse::{SparseReader, hash_zeros};
use super::walk::{Source, Step, Walk};
use crate::answer::Answer;
use crate::codec::cut;
use crate::directory::Directory;
use crate::entry::{Entry, EntryKind, Timestamp};
use crate::failure::{Failure, Reason};
use crate::frame::Frame;
use crate::name::{RelativePath, printable};
use crate::pipe::{Closed, FrameSink};
use crate::progress::{Progress, ProgressEvent, Report};
use crate::request::Totals;
use check::{Checked, Course};

/// What the receiver says about the next entry.
#[derive(Debug)]
pub(crate) enum Reply {
    /// It takes it, and this is what it has of it.
    Answer(Answer),
    /// It does not take it.
    Refused,
}

/// What the side that reads the receiver's words and the one that sends tell each other.
#[derive(Debug, Default)]
pub(crate) struct Steering {
    announced: AtomicU64,
    /// Files that need no more content; those that are done with are taken out.
    refused: Mutex<BTreeSet<u64>>,
}

impl Steering {
    /// How many entries the receiver can know of.
    pub(crate) fn announced(&self) -> u64 {
        self.announced.load(Ordering::Acquire)
    }

    /// Takes note that the entry has failed at the receiver.
    pub(crate) fn on_refused(&self, index: u64) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.insert(index);
        // One that failed after its end matters no more; there are never more than a window ahead.
        if refused.len() > WINDOW {
            refused.pop_first();
        }
    }

    fn is_refused(&self, index: u64) -> bool {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).contains(&index)
    }
}

/// A file or directory that was announced and is not done with.
struct Pending {
    index: u64,
    directory: Arc<Directory>,
    place: RelativePath,
    entry: Entry,
    /// Bytes of its ENTRY.
    weight: usize,
}

/// Sends everything below the sources, as far as the receiver does not have it, and reports what could not be read
/// here.
///
/// `verified` and `bytes` of the report stay zero: only the receiver can tell.
pub(crate) fn send_files(
    sink: &mut FrameSink,
    sources: Vec<Source>,
    progress: &dyn Progress,
    replies: mpsc::Receiver<Reply>,
    steering: &Steering,
) -> Result<(Totals, Report), Closed> {
    let (to_check, pending) = sync_channel(WINDOW);
    let (checked, from_check) = sync_channel(WINDOW);
    std::thread::scope(|scope| {
        scope.spawn(move || check::run(&pending, replies, &checked));
        let sender = Sender {
            sink,
            progress,
            steering,
            walk: Walk::new(sources),
            queues: Queues { to_check, from_check },
            ahead: 0,
            weight: 0,
            sent: Totals::default(),
            report: Report::default(),
        };
        sender.run()
    })
}

struct Queues {
    to_check: SyncSender<Pending>,
    from_check: Queue<Checked>,
}

struct Sender<'a> {
    sink: &'a mut FrameSink,
    progress: &'a dyn Progress,
    steering: &'a Steering,
    walk: Walk,
    queues: Queues,
    /// Entries that were announced and are not done with, and the bytes of their ENTRY frames.
    ahead: usize,
    weight: usize,
    sent: Totals,
    report: Report,
}

impl Sender<'_> {
    fn run(mut self) -> Result<(Totals, Report), Closed> {
        loop {
            let is_walked = self.announce_ahead()?;
            if is_walked && self.ahead == 0 {
                break;
            }
            let checked = match self.queues.from_check.try_recv() {
                Ok(checked) => checked,
                Err(TryRecvError::Disconnected) => return Err(Closed),
                Err(TryRecvError::Empty) => {
                    self.sink.flush()?;
                    self.queues.from_check.recv().map_err(|_| Closed)?
                }
            };
            self.ahead -= 1;
            self.weight -= checked.pending.weight;
            match checked.course {
                Course::Skip => {}
                Course::Send { offset, hasher } => self.send_file(&checked.pending, offset, hasher)?,
            }
        }
        self.sink.frame(&Frame::Done(self.sent))?;
        Ok((self.sent, self.report))
    }

    /// Fills the window; `true` if there is nothing more to announce.
    // transfer 4.1
    fn announce_ahead(&mut self) -> Result<bool, Closed> {
        while self.ahead < WINDOW && self.weight + LONGEST_ENTRY <= WINDOW_BYTES {
            match self.walk.next() {
                None => return Ok(true),
                Some(Step::Failed { name, failure }) => self.give_up(&name, failure)?,
                Some(Step::Found { directory, place, name, facts }) => {
                    let (kind, size, modified, mode) = (facts.kind, facts.size, facts.modified, facts.mode);
                    let entry = Entry { path: name, kind, size, modified, mode };
                    let weight = self.sink.frame(&Frame::Entry(entry.clone()))?;
                    let index = self.sent.files;
                    self.sent.files += 1;
                    self.ahead += 1;
                    self.weight += weight;
                    self.steering.announced.store(self.sent.files, Ordering::Release);
                    let pending = Pending { index, directory, place, entry, weight };
                    self.queues.to_check.send(pending).map_err(|_| Closed)?;
                }
            }
        }
        Ok(false)
    }

    // transfer 4.5: START, DATA and HOLE…, then END or ABANDONED
    fn send_file(
        &mut self,
        pending: &Pending,
        offset: u64,
        mut hasher: Box<blake3::Hasher>,
    ) -> Result<(), Closed> {
        let Pending { index, directory, place, entry, .. } = pending;
        let file = match directory.read(place) {
            Ok((file, facts)) if facts.size == entry.size && facts.modified == entry.modified => file,
            Ok(_) => return self.abandon(pending, Failure::new(Reason::Changed)),
            Err(failure) => return self.abandon(pending, failure),
        };
        let name = entry.path.to_string();
        self.progress.on_progress(ProgressEvent::Started { name: &name, size: entry.size });
        self.sink.frame(&Frame::Start { entry: *index, offset })?;
        if offset > 0 {
            self.report.resumed += offset;
            self.progress.on_progress(ProgressEvent::Resumed { bytes: offset });
        }
        let mut reader = SparseReader::new(file, offset, entry.size);
        if let Err(failure) = self.send_content(*index, &mut reader, &mut hasher)? {
            return self.abandon(pending, failure);
        }
        // transfer 4.6
        let after = reader.file().metadata();
        let is_same = after.is_ok_and(|after| {
            after.len() == entry.size
                && after.modified().map(Timestamp::from).is_ok_and(|m| m == entry.modified)
        });
        if !is_same || reader.position() != entry.size {
            return self.abandon(pending, Failure::new(Reason::Changed));
        }
        self.sent.bytes = self.sent.bytes.saturating_add(entry.size);
        self.sink.frame(&Frame::End { hash: *hasher.finalize().as_bytes() }).map(drop)
    }

    fn send_content(
        &mut self,
        index: u64,
        reader: &mut SparseReader,
        hasher: &mut blake3::Hasher,
    ) -> Result<Result<(), Failure>, Closed> {
        loop {
            if self.steering.is_refused(index) {
                return Ok(Err(Failure::new(Reason::Abandoned)));
            }
            match reader.skip_hole() {
                Ok(0) => {}
                Ok(length) => {
                    self.sink.frame(&Frame::Hole { length })?;
                    hash_zeros(hasher, length);
                    self.report.holes += length;
                    self.progress.on_progress(ProgressEvent::Hole { bytes: length });
                    continue;
                }
                Err(error) => return Ok(Err(Failure::from_io(&error))),
            }
            let result = self.sink.data(|space| {
                let read = reader.read(space)?;
                hasher.update(space.get(..read).unwrap_or_default());
                Ok(read)
            })?;
            match result {
                Ok(0) => return Ok(Ok(())),
                Ok(read) => self.report.moved += u64::try_from(read).unwrap_or(0),
                Err(error) => return Ok(Err(Failure::from_io(&error))),
            }
        }
    }

    /// Ends an entry that was announced; the receiver's verdict will say so.
    fn abandon(&mut self, pending: &Pending, failure: Failure) -> Result<(), Closed> {
        let name = pending.entry.path.as_str().to_owned();
        self.sink.frame(&Frame::Abandoned { entry: Some(pending.index), name, failure }).map(drop)
    }

    /// Reports a name that cannot even be announced.
    fn give_up(&mut self, name: &str, failure: Failure) -> Result<(), Closed> {
        let shown = printable(name);
        self.progress.on_progress(ProgressEvent::Failed { name: &shown, failure: &failure });
        self.report.add_failure(shown, failure.clone());
        // A name from the file system may be longer than any that travels.
        let name = cut(name, RelativePath::MAX_LENGTH).to_owned();
        self.sink.frame(&Frame::Abandoned { entry: None, name, failure }).map(drop)
    }
}

/// A directory has no content to wait for.
fn is_directory(entry: &Entry) -> bool {
    entry.kind == EntryKind::Directory
}

/// No ENTRY has more bytes than this: its name and the fields before it.
const LONGEST_ENTRY: usize = RelativePath::MAX_LENGTH + 64;
