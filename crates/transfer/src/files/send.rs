//! Files into frames.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use super::walk::{Source, Step, Walk};
use crate::codec::cut;
use crate::directory::Directory;
use crate::entry::{Entry, EntryKind};
use crate::failure::{Failure, Reason};
use crate::frame::Frame;
use crate::name::{RelativePath, printable};
use crate::pipe::{Closed, FrameSink};
use crate::progress::{Progress, ProgressEvent, Report};
use crate::request::Totals;

/// What the receiver's early verdicts tell the sender: which entries need no more content.
#[derive(Debug, Default)]
pub(crate) struct Steering {
    refused_below: AtomicU64,
}

impl Steering {
    /// Takes note that the entry has failed at the receiver. Verdicts come in the order of entries.
    pub(crate) fn on_refused(&self, index: u64) {
        self.refused_below.fetch_max(index.saturating_add(1), Ordering::Relaxed);
    }

    fn is_refused(&self, index: u64) -> bool {
        self.refused_below.load(Ordering::Relaxed) > index
    }
}

/// Sends everything below the sources and reports what could not be read here.
///
/// `verified` and `bytes` of the report stay zero: only the receiver can tell.
pub(crate) fn send_files(
    sink: &mut FrameSink,
    sources: &[Source],
    progress: &dyn Progress,
    steering: &Steering,
) -> Result<(Totals, Report), Closed> {
    let mut sender = Sender { sink, progress, steering, sent: Totals::default(), report: Report::default() };
    for step in Walk::new(sources) {
        match step {
            Step::Failed { name, failure } => sender.give_up(&name, failure)?,
            Step::Found { directory, place, name, facts } => match facts.kind {
                EntryKind::Directory => {
                    let modified = facts.modified;
                    let kind = EntryKind::Directory;
                    sender.announce(&Entry { path: name, kind, size: 0, modified, mode: facts.mode })?;
                }
                EntryKind::File => sender.send_file(&directory, &place, name)?,
            },
        }
    }
    let done = Frame::Done(sender.sent);
    sender.sink.frame(&done)?;
    Ok((sender.sent, sender.report))
}

struct Sender<'a> {
    sink: &'a mut FrameSink,
    progress: &'a dyn Progress,
    steering: &'a Steering,
    sent: Totals,
    report: Report,
}

impl Sender<'_> {
    fn announce(&mut self, entry: &Entry) -> Result<(), Closed> {
        self.progress.on_progress(ProgressEvent::Started { name: &entry.path.to_string(), size: entry.size });
        self.sink.frame(&Frame::Entry(entry.clone()))?;
        self.sent.files += 1;
        Ok(())
    }

    // transfer 3.2: ENTRY, DATA…, then END or ABANDONED
    fn send_file(
        &mut self,
        directory: &Directory,
        place: &RelativePath,
        name: RelativePath,
    ) -> Result<(), Closed> {
        let (mut file, facts) = match directory.read(place) {
            Ok(opened) => opened,
            Err(failure) => return self.give_up(name.as_str(), failure),
        };
        let index = self.sent.files;
        let entry = Entry {
            path: name,
            kind: EntryKind::File,
            size: facts.size,
            modified: facts.modified,
            mode: facts.mode,
        };
        self.announce(&entry)?;
        let mut hasher = blake3::Hasher::new();
        let mut length = 0_u64;
        loop {
            if self.steering.is_refused(index) {
                return self.abandon(&entry.path, Failure::new(Reason::Abandoned));
            }
            let result = self.sink.data(|space| {
                let read = read_some(&mut file, space)?;
                hasher.update(space.get(..read).unwrap_or_default());
                Ok(read)
            })?;
            match result {
                Ok(0) => break,
                Ok(read) => length += u64::try_from(read).unwrap_or(0),
                Err(error) => return self.abandon(&entry.path, Failure::from_io(&error)),
            }
            // transfer 3.4: a file that grows while it is sent would never end
            if length > facts.size {
                break;
            }
        }
        if length != facts.size {
            return self.abandon(&entry.path, Failure::new(Reason::Changed));
        }
        self.sent.bytes = self.sent.bytes.saturating_add(length);
        self.sink.frame(&Frame::End { hash: *hasher.finalize().as_bytes() })
    }

    /// Ends an entry that was announced; the receiver's verdict will say so.
    fn abandon(&mut self, path: &RelativePath, failure: Failure) -> Result<(), Closed> {
        self.sink.frame(&Frame::Abandoned { name: path.as_str().to_owned(), failure })
    }

    /// Reports a name that cannot even be announced.
    fn give_up(&mut self, name: &str, failure: Failure) -> Result<(), Closed> {
        let shown = printable(name);
        self.progress.on_progress(ProgressEvent::Failed { name: &shown, failure: &failure });
        self.report.add_failure(shown, failure.clone());
        // A name from the file system may be longer than any that travels.
        let name = cut(name, RelativePath::MAX_LENGTH).to_owned();
        self.sink.frame(&Frame::Abandoned { name, failure })
    }
}

fn read_some(file: &mut impl Read, space: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(space) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
