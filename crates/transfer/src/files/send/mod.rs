//! Files into frames.
//!
//! Two threads share the work: one announces and sends, and one compares ahead the receiver's data with the local files
//! ([`check`]).

mod check;
mod growth;
mod pending;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver as Queue, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::receive::{WINDOW, WINDOW_BYTES};
use super::source::Source;
use super::sparse::{SparseReader, hash_zeros, read_some};
use super::walk::{Origin, Step, Walk};
use crate::codec::cut;
use crate::directory::Facts;
use crate::entry::EntryKind;
use crate::failure::{Failure, Reason};
use crate::frame::Frame;
use crate::link::LinkTarget;
use crate::name::{RelativePath, printable};
use crate::pipe::{Closed, FrameSink};
use crate::progress::{Party, Progress, ProgressEvent, Report};
use crate::request::Totals;
use crate::rules::Rules;
use check::{Checked, Course};
use growth::Growth;
pub(crate) use growth::{Sent, watch};
use pending::Pending;
pub(crate) use pending::Reply;

/// Shared by the thread that reads the receiver's frames and the one that sends.
#[derive(Debug, Default)]
pub(crate) struct Steering {
    announced: AtomicU64,
    /// Files that need no more content; those that are done are taken out.
    refused: Mutex<BTreeSet<u64>>,
    /// Entries whose content has ended here and for which the verdict of the receiver is outstanding.
    ended: Mutex<BTreeMap<u64, Ending>>,
}

/// How the content of an entry ended at the sender.
#[derive(Debug)]
pub(crate) enum Ending {
    /// It was sent to its end.
    Sent(Sent),
    /// It was abandoned, for this reason.
    Abandoned(Reason),
}

impl Steering {
    /// Number of entries that the receiver can know.
    pub(crate) fn announced(&self) -> u64 {
        self.announced.load(Ordering::Acquire)
    }

    /// Records that the entry has failed at the receiver.
    pub(crate) fn on_refused(&self, index: u64) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.insert(index);
        // A failure after the end of the content no longer matters; at most a window of them is ahead.
        if refused.len() > WINDOW {
            refused.pop_first();
        }
    }

    /// Takes how the content of an entry ended here, once the receiver has sent its verdict.
    pub(crate) fn take_ending(&self, index: u64) -> Option<Ending> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).remove(&index)
    }

    fn on_ended(&self, index: u64, ending: Ending) {
        if self.is_refused(index) {
            return;
        }
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.insert(index, ending);
        if ended.len() > MOST_ENDED {
            ended.pop_first();
        }
    }

    fn is_refused(&self, index: u64) -> bool {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).contains(&index)
    }
}

/// Sends everything below the sources, except what the receiver has, and reports what could not be read here.
///
/// `verified` and `bytes` of the report stay zero: only the receiver knows them.
pub(crate) fn send_files(
    sink: &mut FrameSink,
    (sources, rules): (Vec<Source>, Rules),
    progress: &dyn Progress,
    replies: mpsc::Receiver<Vec<Reply>>,
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
            walk: Walk::new(sources, rules),
            queues: Queues { to_check, from_check },
            checked: Vec::new().into_iter(),
            ahead: 0,
            weight: 0,
            sent: Totals::default(),
            report: Report::default(),
        };
        sender.run()
    })
}

/// The sent content of an entry, from its beginning.
struct Content {
    bytes: u64,
    hash: blake3::Hash,
}

struct Queues {
    to_check: SyncSender<Pending>,
    from_check: Queue<Vec<Checked>>,
}

struct Sender<'a> {
    sink: &'a mut FrameSink,
    progress: &'a dyn Progress,
    steering: &'a Steering,
    walk: Walk,
    queues: Queues,
    /// Entries of which it is known what to do.
    checked: std::vec::IntoIter<Checked>,
    /// Entries that were announced and are not done, and the bytes of their ENTRY frames.
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
            let checked = self.next_checked()?;
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

    /// Waits for the next entry of which it is known what to do.
    fn next_checked(&mut self) -> Result<Checked, Closed> {
        loop {
            if let Some(checked) = self.checked.next() {
                return Ok(checked);
            }
            let checked = match self.queues.from_check.try_recv() {
                Ok(checked) => checked,
                Err(TryRecvError::Disconnected) => return Err(Closed),
                Err(TryRecvError::Empty) => {
                    self.sink.flush()?;
                    self.queues.from_check.recv().map_err(|_| Closed)?
                }
            };
            self.checked = checked.into_iter();
        }
    }

    /// Fills the window; returns `true` if everything is announced.
    // transfer 4.1
    fn announce_ahead(&mut self) -> Result<bool, Closed> {
        while self.ahead < WINDOW && self.weight + LONGEST_ENTRY <= WINDOW_BYTES {
            match self.walk.next() {
                None => return Ok(true),
                Some(Step::Failed { name, failure }) => self.give_up(&name, failure)?,
                Some(Step::Found { origin, entry, is_again }) => {
                    self.report.hard_links += u64::from(is_again);
                    let weight = self.sink.frame(&Frame::Entry(entry.clone()))?;
                    let index = self.sent.files;
                    self.sent.files += 1;
                    self.ahead += 1;
                    self.weight += weight;
                    self.steering.announced.store(self.sent.files, Ordering::Release);
                    let pending = Pending { index, origin, entry, weight };
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
        hasher: Box<blake3::Hasher>,
    ) -> Result<(), Closed> {
        let sent = match (&pending.origin, &pending.entry.kind) {
            (Origin::Feed(feed), _) => match feed.take() {
                Ok(reader) => self.send_stream(pending, reader)?,
                Err(failure) => Err(failure),
            },
            (Origin::Place(directory, place), EntryKind::Stream) => match directory.read(place) {
                Ok((file, _)) => self.send_stream(pending, Box::new(file))?,
                Err(failure) => Err(failure),
            },
            (Origin::Place(directory, place), _) => match directory.read(place) {
                Ok((file, facts)) => self.send_sized(pending, (file, facts), (offset, hasher))?,
                Err(failure) => Err(failure),
            },
        };
        match sent {
            Ok(Content { bytes, hash }) => {
                self.sent.bytes = self.sent.bytes.saturating_add(bytes);
                self.sink.frame(&Frame::End { hash: *hash.as_bytes() }).map(drop)
            }
            Err(failure) => self.abandon(pending, failure),
        }
    }

    /// Sends a file of announced size, except what the receiver has.
    fn send_sized(
        &mut self,
        pending: &Pending,
        (file, facts): (File, Facts),
        (offset, mut hasher): (u64, Box<blake3::Hasher>),
    ) -> Result<Result<Content, Failure>, Closed> {
        let entry = &pending.entry;
        if let Err(failure) = growth::check_before(entry, &facts) {
            return Ok(Err(failure));
        }
        self.start(pending, offset)?;
        let mut reader = SparseReader::new(file, offset, entry.size);
        if let Err(failure) = self.send_content(pending.index, &mut reader, &mut hasher)? {
            return Ok(Err(failure));
        }
        let hash = hasher.finalize();
        let is_wanted = || !self.steering.is_refused(pending.index);
        Ok(match growth::check_after(entry, &facts, reader, (hash, &is_wanted)) {
            Ok(growth) => {
                let (name, size) = (entry.path.to_string(), entry.size);
                match (growth, &pending.origin) {
                    (Growth::Grew, _) => {
                        self.report.grown += 1;
                        self.progress.on_progress(ProgressEvent::Grew { name: &name, size });
                    }
                    (Growth::Same, Origin::Place(directory, place)) => {
                        let (directory, place) = (Arc::clone(directory), place.clone());
                        let identity = (facts.device, facts.inode);
                        let sent = Sent { directory, place, name, size, identity };
                        self.steering.on_ended(pending.index, Ending::Sent(sent));
                    }
                    (Growth::Same, Origin::Feed(_)) => {}
                }
                Ok(Content { bytes: entry.size, hash })
            }
            Err(failure) => Err(failure),
        })
    }

    /// Sends content of unknown length. Each piece is sent at once: the next one may take long.
    // transfer 4.11
    fn send_stream(
        &mut self,
        pending: &Pending,
        mut reader: Box<dyn Read + Send>,
    ) -> Result<Result<Content, Failure>, Closed> {
        self.start(pending, 0)?;
        let mut hasher = blake3::Hasher::new();
        let mut bytes = 0;
        loop {
            self.sink.flush()?;
            if self.steering.is_refused(pending.index) {
                return Ok(Err(Failure::new(Reason::Abandoned)));
            }
            let result = self.sink.data(|space| {
                let read = read_some(&mut reader, space)?;
                hasher.update(space.get(..read).unwrap_or_default());
                Ok(read)
            })?;
            let read = match result {
                Ok(0) => return Ok(Ok(Content { bytes, hash: hasher.finalize() })),
                Ok(read) => u64::try_from(read).unwrap_or(0),
                Err(error) => return Ok(Err(Failure::from_io(&error))),
            };
            bytes += read;
            self.report.moved += read;
        }
    }

    fn start(&mut self, pending: &Pending, offset: u64) -> Result<(), Closed> {
        let name = pending.entry.path.to_string();
        self.progress
            .on_progress(ProgressEvent::Started { name: &name, size: pending.entry.announced_size() });
        self.sink.frame(&Frame::Start { entry: pending.index, offset })?;
        if offset > 0 {
            self.report.resumed += offset;
            self.progress.on_progress(ProgressEvent::Resumed { bytes: offset });
        }
        Ok(())
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

    /// Abandons an announced entry; the receiver's verdict will say so.
    fn abandon(&mut self, pending: &Pending, failure: Failure) -> Result<(), Closed> {
        self.steering.on_ended(pending.index, Ending::Abandoned(failure.reason));
        let name = pending.entry.path.as_str().to_owned();
        self.sink.frame(&Frame::Abandoned { entry: Some(pending.index), name, failure }).map(drop)
    }

    /// Reports a name that cannot even be announced.
    fn give_up(&mut self, name: &str, failure: Failure) -> Result<(), Closed> {
        self.report.add_failure(self.progress, Party::Local, (printable(name), failure.clone()));
        // A name from the file system may exceed the limit of the protocol.
        let name = cut(name, RelativePath::MAX_LENGTH).to_owned();
        self.sink.frame(&Frame::Abandoned { entry: None, name, failure }).map(drop)
    }
}

/// Most ended entries without a verdict whose ending is remembered: as many as a receiver collects.
const MOST_ENDED: usize = 4096;
/// Upper bound of an ENTRY in bytes: its name, the target of a link and the fields before them.
const LONGEST_ENTRY: usize = RelativePath::MAX_LENGTH + LinkTarget::MAX_LENGTH + 64;
