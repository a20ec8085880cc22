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

pub(super) fn run(reception: &Reception, announced: &Queue<Announced>, found: &SyncSender<Found>) {
    while let Ok(Announced { index, entry, weight }) = announced.recv() {
        if !reception.is_wanted() {
            return;
        }
        let wanted = &reception.wanted;
        let renamed = wanted.check(&entry).and_then(|()| wanted.rename(&entry));
        let (entry, looked) = match renamed {
            Ok(entry) => {
                let looked = look(reception, &entry);
                (entry, looked)
            }
            Err(failure) => (entry, Err(failure)),
        };
        // The result is queued before the sender can act on the answer.
        match looked {
            Ok((there, marks)) => {
                if found.send(Found { index, entry, weight, there }).is_err() {
                    return;
                }
                reception.say(Frame::Answer(Answer { entry: index, marks }));
            }
            Err(failure) => {
                let refused = Found { index, entry: entry.clone(), weight, there: There::Refused };
                if found.send(refused).is_err() {
                    return;
                }
                reception.judge(index, &entry, Err(failure));
            }
        }
    }
}

fn look(reception: &Reception, entry: &Entry) -> Result<(There, Vec<Mark>), Failure> {
    match &entry.kind {
        EntryKind::Directory => {
            let before = reception.directory.make_directory(&entry.path, entry.mode)?;
            Ok((There::Directory { before }, Vec::new()))
        }
        EntryKind::Link(target) => {
            let (target, expected) = (target.clone(), expected(reception, entry)?);
            Ok((There::Link { target, expected }, Vec::new()))
        }
        EntryKind::File | EntryKind::Stream => look_at_file(reception, entry),
    }
}

/// What stands under the name, and what to do with it.
// transfer 5.11
fn expected(reception: &Reception, entry: &Entry) -> Result<Target, Failure> {
    match (reception.directory.target(&entry.path), reception.wanted.existing) {
        (Target::Free, _) => Ok(Target::Free),
        (Target::Taken | Target::ToBackUp, Existing::Replace) => Ok(Target::Taken),
        (Target::Taken | Target::ToBackUp, Existing::BackUp) => Ok(Target::ToBackUp),
        (Target::Taken | Target::ToBackUp, Existing::Keep) => {
            Err(Failure::with_text(Reason::LeftOut, "a file of that name is there and is kept"))
        }
    }
}

// transfer 4.13
fn look_at_file(reception: &Reception, entry: &Entry) -> Result<(There, Vec<Mark>), Failure> {
    let held = reception.store.claim(&entry.path, &reception.activity)?;
    let target = expected(reception, entry)?;
    let found = reception.directory.look(&entry.path, entry.size)?;
    let (kept, marks) = match found {
        // transfer 4.11: content that is read only once cannot be resumed
        _ if entry.kind == EntryKind::Stream => (Kept::Nothing, Vec::new()),
        Before::Nothing => (Kept::Nothing, Vec::new()),
        Before::Part(file, identity) => {
            let places: Vec<_> = places(identity.size().min(entry.size)).collect();
            let (hasher, marks) = hash(reception, file, &places);
            let places = marks.iter().map(|mark| mark.length).collect();
            (Kept::Part { identity, hasher, places }, marks)
        }
        Before::Whole(file, identity) => {
            let (hasher, marks) = hash(reception, file, &[entry.size]);
            (Kept::Whole { identity, hash: hasher.finalize() }, marks)
        }
    };
    // A file that cannot be read any more counts as missing.
    let kept = if marks.is_empty() { Kept::Nothing } else { kept };
    room::check(reception, entry, &kept)?;
    Ok((There::File { held, kept, target }, marks))
}

/// Hashes the prefixes that end at `places`; none if the file cannot be read that far.
fn hash(reception: &Reception, file: File, places: &[u64]) -> (Box<blake3::Hasher>, Vec<Mark>) {
    let mut hasher: Box<blake3::Hasher> = Box::default();
    let mut marks = Vec::with_capacity(places.len());
    let mut reader = SparseReader::new(file, 0, places.last().copied().unwrap_or(0));
    for place in places {
        let reached = reader.hash_to(*place, &mut hasher, &|| reception.is_wanted());
        if !reached.unwrap_or(false) {
            return (hasher, Vec::new());
        }
        marks.push(Mark { length: *place, hash: *hasher.finalize().as_bytes() });
    }
    (hasher, marks)
}
