//! Looks ahead for existing data of announced files, and answers the sender.

use std::fs::File;
use std::sync::mpsc::{Receiver as Queue, SyncSender};

use super::kept::Kept;
use super::reception::Reception;
use super::{Existing, room};
use crate::answer::{Answer, Mark, places};
use crate::directory::{Existing as Before, Target};
use crate::entry::{Entry, EntryKind};
use crate::failure::{Failure, Reason};
use crate::files::claims::Held;
use crate::files::sparse::SparseReader;
use crate::frame::Frame;
use crate::link::LinkTarget;

/// An entry as it arrived.
pub(super) struct Announced {
    pub(super) index: u64,
    pub(super) entry: Entry,
    /// Bytes of its ENTRY.
    pub(super) weight: usize,
}

/// An entry that was looked up.
pub(super) struct Found {
    pub(super) index: u64,
    pub(super) entry: Entry,
    pub(super) weight: usize,
    pub(super) there: There,
}

/// What exists of it.
pub(super) enum There {
    /// It is refused, and its verdict is sent.
    Refused,
    /// A symbolic link that is created in its turn.
    Link { target: LinkTarget, expected: Target },
    /// The directory, created, or found with these permissions.
    Directory { before: Option<u16> },
    /// A file, and the claim on it.
    File { held: Held, kept: Kept, target: Target },
}

/// The thread that looks ahead. It takes as many entries at once as the stream has brought, and passes them on
/// together, but keeps none waiting while it reads what exists of another.
struct Probe<'a> {
    reception: &'a Reception,
    found: SyncSender<Vec<Found>>,
    looked_at: Vec<Found>,
    replies: Vec<Frame>,
}

/// The thread that reads the stream has ended.
struct Ended;

pub(super) fn run(reception: &Reception, announced: &Queue<Vec<Announced>>, found: SyncSender<Vec<Found>>) {
    let mut probe = Probe { reception, found, looked_at: Vec::new(), replies: Vec::new() };
    while let Ok(announced) = announced.recv() {
        for announced in announced {
            if !reception.is_wanted() {
                return;
            }
            probe.on_entry(announced);
        }
        if probe.pass_on().is_err() {
            return;
        }
    }
}

impl Probe<'_> {
    fn on_entry(&mut self, Announced { index, entry, weight }: Announced) {
        let wanted = &self.reception.wanted;
        let renamed = wanted.check(&entry).and_then(|()| wanted.rename(&entry));
        let (entry, looked) = match renamed {
            Ok(entry) => {
                let looked = self.look(&entry);
                (entry, looked)
            }
            Err(failure) => (entry, Err(failure)),
        };
        let (there, reply) = match looked {
            Ok((there, marks)) => (there, Frame::Answer(Answer { entry: index, marks })),
            Err(failure) => (There::Refused, self.reception.verdict(index, &entry, Err(failure))),
        };
        self.looked_at.push(Found { index, entry, weight, there });
        self.replies.push(reply);
    }

    /// The entries are queued before the sender can act on the replies. Also called before anything that takes long;
    /// that the other thread has ended is then noticed the next time.
    fn pass_on(&mut self) -> Result<(), Ended> {
        if !self.looked_at.is_empty() {
            self.found.send(std::mem::take(&mut self.looked_at)).map_err(|_| Ended)?;
            self.reception.say(std::mem::take(&mut self.replies));
        }
        Ok(())
    }

    fn look(&mut self, entry: &Entry) -> Result<(There, Vec<Mark>), Failure> {
        let directory = &self.reception.directory;
        match &entry.kind {
            EntryKind::Directory => {
                let before = directory.make_directory(&entry.path, entry.mode)?;
                Ok((There::Directory { before }, Vec::new()))
            }
            EntryKind::Link(target) => {
                let expected = expected(self.reception, directory.target(&entry.path))?;
                Ok((There::Link { target: target.clone(), expected }, Vec::new()))
            }
            EntryKind::File | EntryKind::Stream => self.look_at_file(entry),
        }
    }

    // transfer 4.13
    fn look_at_file(&mut self, entry: &Entry) -> Result<(There, Vec<Mark>), Failure> {
        let reception = self.reception;
        let held = match reception.store.try_claim(&entry.path, &reception.activity)? {
            Some(held) => held,
            None => {
                let _ = self.pass_on();
                reception.store.claim(&entry.path, &reception.activity)?
            }
        };
        if reception.wanted.existing == Existing::Keep {
            expected(reception, reception.directory.target(&entry.path))?;
        }
        let (found, target) = reception.directory.look(&entry.path, entry.size)?;
        let target = expected(reception, target)?;
        let (kept, marks) = match found {
            // transfer 4.11: content that is read only once cannot be resumed
            _ if entry.kind == EntryKind::Stream => (Kept::Nothing, Vec::new()),
            Before::Nothing => (Kept::Nothing, Vec::new()),
            Before::Part(file, identity) => {
                let places: Vec<_> = places(identity.size().min(entry.size)).collect();
                let (hasher, marks) = self.hash(file, &places);
                let places = marks.iter().map(|mark| mark.length).collect();
                (Kept::Part { identity, hasher, places }, marks)
            }
            Before::Whole(file, identity) => {
                let (hasher, marks) = self.hash(file, &[entry.size]);
                (Kept::Whole { identity, hash: hasher.finalize() }, marks)
            }
        };
        // A file that cannot be read any more counts as missing.
        let kept = if marks.is_empty() { Kept::Nothing } else { kept };
        room::check(reception, entry, &kept)?;
        Ok((There::File { held, kept, target }, marks))
    }

    /// Hashes the prefixes that end at `places`; none if the file cannot be read that far.
    fn hash(&mut self, file: File, places: &[u64]) -> (Box<blake3::Hasher>, Vec<Mark>) {
        let end = places.last().copied().unwrap_or(0);
        if end > SHORT {
            let _ = self.pass_on();
        }
        let mut hasher: Box<blake3::Hasher> = Box::default();
        let mut marks = Vec::with_capacity(places.len());
        let mut reader = SparseReader::new(file, 0, end);
        for place in places {
            let reached = reader.hash_to(*place, &mut hasher, &|| self.reception.is_wanted());
            if !reached.unwrap_or(false) {
                return (hasher, Vec::new());
            }
            marks.push(Mark { length: *place, hash: *hasher.finalize().as_bytes() });
        }
        (hasher, marks)
    }
}

/// What to do with what stands under the name.
// transfer 5.11
fn expected(reception: &Reception, there: Target) -> Result<Target, Failure> {
    match (there, reception.wanted.existing) {
        (Target::Free, _) => Ok(Target::Free),
        (Target::Taken | Target::ToBackUp, Existing::Replace) => Ok(Target::Taken),
        (Target::Taken | Target::ToBackUp, Existing::BackUp) => Ok(Target::ToBackUp),
        (Target::Taken | Target::ToBackUp, Existing::Keep) => {
            Err(Failure::with_text(Reason::LeftOut, "a file of that name is there and is kept"))
        }
    }
}

/// Bytes that are read before entries found earlier are passed on.
const SHORT: u64 = 64 << 10;
