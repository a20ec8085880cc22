//! Compares the receiver's data with the local files, ahead of the sending.

use std::sync::mpsc::{Receiver as Queue, SyncSender};

use tokio::sync::mpsc;

use super::pending::{Pending, Reply};
use crate::answer::Mark;
use crate::entry::EntryKind;
use crate::files::sparse::SparseReader;
use crate::files::walk::Origin;

/// An entry for which it is decided what to do.
pub(super) struct Checked {
    pub(super) pending: Pending,
    pub(super) course: Course,
}

/// What to do.
pub(super) enum Course {
    /// Nothing: a directory, or the receiver refuses it.
    Skip,
    /// Send from this offset; the hasher has hashed what comes before.
    Send { offset: u64, hasher: Box<blake3::Hasher> },
}

/// Handles as many replies at once as have come together, but keeps none waiting while a file is compared.
pub(super) fn run(
    pending: &Queue<Pending>,
    mut replies: mpsc::Receiver<Vec<Reply>>,
    checked: &SyncSender<Vec<Checked>>,
) {
    let mut together = Vec::new().into_iter();
    let mut done = Vec::new();
    while let Ok(pending) = pending.recv() {
        let reply = loop {
            match together.next() {
                Some(reply) => break reply,
                None => match replies.blocking_recv() {
                    Some(next) => together = next.into_iter(),
                    None => return,
                },
            }
        };
        let course = match reply {
            Reply::Answer(answer) if pending.entry.kind.has_content() => {
                if !answer.marks.is_empty() && checked.send(std::mem::take(&mut done)).is_err() {
                    return;
                }
                compare(&pending, &answer.marks, &|| !replies.is_closed())
            }
            Reply::Answer(_) | Reply::Refused => Course::Skip,
        };
        done.push(Checked { pending, course });
        if together.len() == 0 && checked.send(std::mem::take(&mut done)).is_err() {
            return;
        }
    }
}

/// Finds the longest prefix that both sides have. This comparison verifies it: a torn or foreign prefix and a changed
/// source both end it.
// transfer 4.4
fn compare(pending: &Pending, marks: &[Mark], is_wanted: &dyn Fn() -> bool) -> Course {
    let mut agreed: (u64, Box<blake3::Hasher>) = (0, Box::default());
    // If the file cannot be read, the sending thread will find and report the error.
    if !marks.is_empty()
        && pending.entry.kind == EntryKind::File
        && let Origin::Place(directory, place) = &pending.origin
        && let Ok((file, facts)) = directory.read(place)
    {
        let end = facts.size.min(pending.entry.size);
        let mut hasher = agreed.1.clone();
        let mut reader = SparseReader::new(file, 0, end);
        for mark in marks.iter().take_while(|mark| mark.length <= end) {
            let reached = reader.hash_to(mark.length, &mut hasher, is_wanted);
            if !reached.unwrap_or(false) || hasher.finalize() != blake3::Hash::from_bytes(mark.hash) {
                break;
            }
            agreed = (mark.length, hasher.clone());
        }
    }
    let (offset, hasher) = agreed;
    Course::Send { offset, hasher }
}
