//! Frames into files.
//!
//! Three threads share the work, so that look-ups, writes and syncs overlap: one reads the stream and writes content,
//! one looks ahead for data that exists already ([`probe`]), and one syncs bundles of complete files and gives them
//! their names ([`settle`]).

mod content;
mod kept;
mod probe;
mod reception;
mod room;
mod settle;
mod wanted;

use crate::codec::CodecError;
use crate::entry::Entry;
use crate::error::TransferError;
use crate::failure::Failure;
use crate::frame::{BODY_LIMIT, Frame, HEADER, Header, Kind};
use crate::name::{RelativePath, printable};
use crate::pipe::Arriving;
use crate::progress::{Party, ProgressEvent, Report};
use content::Content;
use probe::{Announced, Found, There};
pub(crate) use reception::{Reception, TOGETHER};
use settle::{Bundle, Job, Work};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver as Queue, SyncSender, TryRecvError, sync_channel};
pub use wanted::Existing;
pub(crate) use wanted::{Admission, Naming, Wanted};

/// Most entries that are announced and not yet done.
// transfer 4.1
pub(crate) const WINDOW: usize = 1024;
/// Most bytes of ENTRY bodies that are announced and not yet done; a single larger one is allowed.
// transfer 4.1
pub(crate) const WINDOW_BYTES: usize = 1 << 20;
/// Bytes of content that are waited for before announced entries are handed over.
const SHORT: usize = 16 << 10;

impl Reception {
    /// Receives until DONE. After an early end verified files stay, and so does the beginning of the file in transfer.
    pub(crate) fn run(self, source: &mut impl Arriving) -> Result<Report, TransferError> {
        let (announced, to_probe) = sync_channel(WINDOW);
        let (found, from_probe) = sync_channel(WINDOW);
        // A channel without a buffer: the next bundle is taken when the one before is done, and grows meanwhile.
        let (bundles, to_settle) = sync_channel(0);
        let reception = &self;
        let result = std::thread::scope(|scope| {
            scope.spawn(move || probe::run(reception, &to_probe, found));
            scope.spawn(move || settle::run(reception, &to_settle));
            let queues = Queues { announced, found: from_probe, bundles };
            let mut receiver = Receiver::new(reception, queues);
            let result = receiver.run(source);
            reception.has_ended.store(true, Ordering::Relaxed);
            receiver.end();
            result
        });
        let report = self.report().clone();
        match result {
            Ok(()) => Ok(report),
            Err(TransferError::Incomplete { .. }) => {
                Err(TransferError::Incomplete { verified: report.verified })
            }
            Err(error) => Err(error),
        }
    }
}

/// The queues between the threads.
struct Queues {
    announced: SyncSender<Vec<Announced>>,
    found: Queue<Vec<Found>>,
    bundles: SyncSender<Bundle>,
}

/// The thread that reads the stream.
struct Receiver<'a> {
    reception: &'a Reception,
    queues: Queues,
    /// Entries received.
    entries: u64,
    /// Entries that are done as far as the stream is concerned.
    passed: u64,
    /// Bytes of ENTRY bodies between the two.
    weight: usize,
    /// Entries that are not handed over yet.
    announced: Vec<Announced>,
    /// The first entries that are not done, those that were looked up.
    found: VecDeque<Found>,
    /// Directories that are being filled, each below the one before.
    directories: Vec<(u64, Entry, Option<u16>)>,
    current: Option<Content<'a>>,
    bundle: Bundle,
    body: Vec<u8>,
}

impl<'a> Receiver<'a> {
    fn new(reception: &'a Reception, queues: Queues) -> Self {
        Self {
            reception,
            queues,
            entries: 0,
            passed: 0,
            weight: 0,
            announced: Vec::new(),
            found: VecDeque::new(),
            directories: Vec::new(),
            current: None,
            bundle: Bundle::default(),
            body: Vec::new(),
        }
    }

    fn run(&mut self, source: &mut impl Arriving) -> Result<(), TransferError> {
        while !self.step(source)? {
            if source.is_drained() {
                self.hand_over()?;
            }
            self.reception.activity.touch();
            self.offer_bundle()?;
        }
        Ok(())
    }

    /// Hands over what was announced, before anything is waited for.
    fn hand_over(&mut self) -> Result<(), TransferError> {
        if self.announced.is_empty() {
            return Ok(());
        }
        let announced = std::mem::take(&mut self.announced);
        self.queues.announced.send(announced).map_err(|_| self.reception.gone())
    }

    /// Passes on complete files, whatever the reason of the end.
    fn end(mut self) {
        if let Some(content) = self.current.take() {
            content.interrupt();
        }
        let bundle = std::mem::take(&mut self.bundle);
        if !bundle.is_empty() {
            let _ = self.queues.bundles.send(bundle);
        }
    }

    fn step(&mut self, source: &mut impl Arriving) -> Result<bool, TransferError> {
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
            Frame::Entry(entry) => self.on_entry(entry, header.length)?,
            Frame::Start { entry, offset } => self.on_start(entry, offset)?,
            Frame::Hole { length } => self.content()?.on_hole(length),
            Frame::End { hash } => self.on_end(hash)?,
            Frame::Abandoned { entry, name, failure } => self.on_abandoned(entry, &name, failure)?,
            Frame::Done(totals) => {
                // transfer 4.9
                if totals.files != self.entries {
                    return Err(CodecError::Value { field: "files", value: totals.files }.into());
                }
                self.refuse_current()?;
                self.pass_below(self.entries)?;
                self.close_directories(None);
                return Ok(true);
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
        Ok(false)
    }

    // transfer 4.1
    fn on_entry(&mut self, mut entry: Entry, weight: usize) -> Result<(), TransferError> {
        self.refuse_current()?;
        self.pass_ready()?;
        let ahead = self.entries - self.passed;
        if ahead >= WINDOW as u64 || ahead > 0 && self.weight + weight > WINDOW_BYTES {
            return Err(CodecError::TooLong { field: "entries", length: WINDOW + 1, limit: WINDOW }.into());
        }
        // transfer 5.4
        entry.mode &= !self.reception.store.umask;
        let index = self.entries;
        self.entries += 1;
        self.weight += weight;
        self.announced.push(Announced { index, entry, weight });
        if self.announced.len() < TOGETHER { Ok(()) } else { self.hand_over() }
    }

    fn on_start(&mut self, entry: u64, offset: u64) -> Result<(), TransferError> {
        self.refuse_current()?;
        let Found { index, entry, there, .. } = self.take(entry)?;
        let There::File { held, kept, target } = there else {
            return Err(TransferError::Unexpected { wanted: "a file that was asked for" });
        };
        let name = entry.path.to_string();
        self.reception
            .progress
            .on_progress(ProgressEvent::Started { name: &name, size: entry.announced_size() });
        self.close_directories(Some(&entry.path));
        self.current = Some(Content::start(self.reception, index, entry, (held, target), (kept, offset))?);
        Ok(())
    }

    fn on_data(&mut self, source: &mut impl Arriving, length: usize) -> Result<(), TransferError> {
        if length > SHORT {
            self.hand_over()?;
        }
        let reception = self.reception;
        let content = self.current.as_mut().ok_or(TransferError::Unexpected { wanted: "a file" })?;
        let mut left = length;
        while left > 0 {
            let available = source.fill_buf().map_err(TransferError::stream("receiving files"))?;
            let Some(piece) = available.get(..available.len().min(left)).filter(|p| !p.is_empty()) else {
                return Err(TransferError::Incomplete { verified: 0 });
            };
            let taken = piece.len();
            reception.activity.touch();
            content.on_data(piece);
            source.consume(taken);
            left -= taken;
        }
        let bytes = u64::try_from(length).unwrap_or(0);
        reception.report().moved += bytes;
        reception.progress.on_progress(ProgressEvent::Advanced { bytes });
        if let Some(flush) = content.due_flush() {
            // Only if no sync is running at the moment.
            let _ = self.queues.bundles.try_send(Bundle::of_flush(flush));
        }
        Ok(())
    }

    fn on_end(&mut self, hash: [u8; 32]) -> Result<(), TransferError> {
        let content = self.current.take().ok_or(TransferError::Unexpected { wanted: "a file" })?;
        if let Some(job) = content.end(blake3::Hash::from_bytes(hash)) {
            self.bundle.add(job);
        }
        self.pass_ready()
    }

    fn on_abandoned(
        &mut self,
        entry: Option<u64>,
        name: &str,
        failure: Failure,
    ) -> Result<(), TransferError> {
        let Some(entry) = entry else {
            let reception = self.reception;
            reception.report().add_failure(&*reception.progress, Party::Peer, (printable(name), failure));
            return Ok(());
        };
        if let Some(content) = self.current.take_if(|content| content.index() == entry) {
            content.abandon(failure);
            return self.pass_ready();
        }
        self.refuse_current()?;
        let found = self.take(entry)?;
        match found.there {
            There::File { .. } => self.reception.on_given_up(found.index, &found.entry, failure),
            There::Directory { .. } | There::Link { .. } | There::Refused => {}
        }
        Ok(())
    }

    fn content(&mut self) -> Result<&mut Content<'a>, TransferError> {
        self.current.as_mut().ok_or(TransferError::Unexpected { wanted: "a file" })
    }

    fn refuse_current(&self) -> Result<(), TransferError> {
        match self.current {
            Some(_) => Err(TransferError::Unexpected { wanted: "the end of a file" }),
            None => Ok(()),
        }
    }

    /// Passes the entries before an announced entry, and takes the entry.
    fn take(&mut self, entry: u64) -> Result<Found, TransferError> {
        if entry < self.passed || entry >= self.entries {
            return Err(CodecError::Value { field: "entry", value: entry }.into());
        }
        self.pass_below(entry)?;
        let found = self.next_found()?;
        self.passed += 1;
        self.weight -= found.weight;
        Ok(found)
    }

    /// Passes entries that need no content; a requested file that was left out is an error.
    fn pass_below(&mut self, entry: u64) -> Result<(), TransferError> {
        while self.passed < entry {
            let found = self.next_found()?;
            self.pass(found)?;
        }
        Ok(())
    }

    /// Passes entries that are known by now to need no content.
    fn pass_ready(&mut self) -> Result<(), TransferError> {
        loop {
            if self.found.is_empty() {
                match self.queues.found.try_recv() {
                    Ok(found) => self.found.extend(found),
                    Err(TryRecvError::Empty) => return Ok(()),
                    Err(TryRecvError::Disconnected) => return Err(self.reception.gone()),
                }
            }
            if self.found.front().is_some_and(|found| matches!(found.there, There::File { .. })) {
                return Ok(());
            }
            if let Some(found) = self.found.pop_front() {
                self.pass(found)?;
            }
        }
    }

    fn pass(&mut self, found: Found) -> Result<(), TransferError> {
        self.passed += 1;
        self.weight -= found.weight;
        match found.there {
            There::Refused => Ok(()),
            There::File { .. } => Err(TransferError::Unexpected { wanted: "the next file" }),
            There::Directory { before } => {
                self.close_directories(Some(&found.entry.path));
                self.directories.push((found.index, found.entry, before));
                Ok(())
            }
            There::Link { target, expected } => {
                self.close_directories(Some(&found.entry.path));
                let work = Work::Link { target, expected };
                self.bundle.add(Job { index: found.index, entry: found.entry, work });
                Ok(())
            }
        }
    }

    fn next_found(&mut self) -> Result<Found, TransferError> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Ok(found);
            }
            self.hand_over()?;
            self.found.extend(self.queues.found.recv().map_err(|_| self.reception.gone())?);
        }
    }

    /// Completes the directories that do not hold `next`.
    fn close_directories(&mut self, next: Option<&RelativePath>) {
        while let Some((index, entry, before)) = self
            .directories
            .pop_if(|(_, directory, _)| !next.is_some_and(|next| next.is_below(&directory.path)))
        {
            self.bundle.add(Job { index, entry, work: Work::Directory { before } });
        }
    }

    fn offer_bundle(&mut self) -> Result<(), TransferError> {
        if !self.bundle.is_due() {
            return Ok(());
        }
        let bundle = std::mem::take(&mut self.bundle);
        if bundle.is_full() {
            return self.queues.bundles.send(bundle).map_err(|_| TransferError::Internal);
        }
        if let Err(error) = self.queues.bundles.try_send(bundle) {
            match error {
                std::sync::mpsc::TrySendError::Full(bundle) => self.bundle = bundle,
                std::sync::mpsc::TrySendError::Disconnected(_) => return Err(TransferError::Internal),
            }
        }
        Ok(())
    }
}
