//! Joins fragments to messages: consecutive TSEQs from B to E (spec 3.34).

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use manyway_wire::mmsp1::{Data, Fragment, Sseq, Tseq};

use crate::collections::range_set::RangeSet;
use crate::message::OVERHEAD;

/// A DATA block whose TSEQ is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) stream: u16,
    pub(crate) sseq: Sseq,
    pub(crate) protocol: u32,
    pub(crate) unordered: bool,
    pub(crate) fragment: Fragment,
    pub(crate) data: Bytes,
}

impl Piece {
    fn may_follow(&self, before: &Self) -> bool {
        self.head().may_follow(&before.head())
    }

    fn head(&self) -> Data<'_> {
        let Self { stream, sseq, protocol, unordered, fragment, .. } = *self;
        Data { tseq: Tseq(0), stream, sseq, protocol, unordered, fragment, data: &[] }
    }

    fn bytes(&self) -> u64 {
        self.data.len() as u64
    }
}

/// A complete message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) stream: u16,
    /// `None` if it is unordered.
    pub(crate) sseq: Option<Sseq>,
    /// That of the first fragment.
    pub(crate) protocol: u32,
    pub(crate) data: Bytes,
}

impl Whole {
    /// Memory that it takes, in bytes.
    pub(crate) fn cost(&self) -> u64 {
        OVERHEAD + self.data.len() as u64
    }
}

/// Why the connection cannot go on. The fragment was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The fragment contradicts a neighbour: RST with 0x0004.
    Impossible,
    /// The message is larger than the receiver permits: RST with 0x000A.
    TooLarge,
}

/// Consecutive fragments of a message that is not complete, by their first TSEQ.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Behind the last TSEQ.
    end: u64,
    /// Whether the first fragment has B.
    begins: bool,
    /// Whether the last fragment has E.
    ends: bool,
    bytes: u64,
}

/// The fragments of incomplete messages.
#[derive(Debug)]
pub(crate) struct Reassembly {
    pieces: BTreeMap<u64, Piece>,
    runs: BTreeMap<u64, Run>,
    /// TSEQs of complete messages, and those before the initial one: a message begins behind each of these ranges and
    /// ends before it. As many ranges as there are gaps in what has arrived and incomplete messages, plus one.
    complete: RangeSet,
    /// Bytes of the largest message.
    most: u64,
    held: u64,
}

impl Reassembly {
    /// `first` is the TSEQ of the peer's first block, `most` the bytes of the largest message.
    pub(crate) fn new(first: u64, most: u64) -> Self {
        let mut complete = RangeSet::default();
        complete.insert(0..first);
        Self { pieces: BTreeMap::new(), runs: BTreeMap::new(), complete, most, held: 0 }
    }

    /// Takes a block that has not arrived before, and returns the message that it completes. Each block that is
    /// acknowledged passes here, also one without data or (with its data left out) for a wrong stream, because it tells
    /// where messages begin and end. Costs O(log fragments) and the bytes of the message.
    ///
    /// # Errors
    /// [`Broken`]; then nothing has changed.
    pub(crate) fn insert(&mut self, tseq: u64, piece: Piece) -> Result<Option<Whole>, Broken> {
        if self.complete.contains(tseq) || self.pieces.contains_key(&tseq) {
            return Ok(None);
        }
        if self.contradicts(tseq, &piece) {
            return Err(Broken::Impossible);
        }
        let (begin, run) = self.join(tseq, &piece);
        if run.bytes > self.most {
            return Err(Broken::TooLarge);
        }
        if run.end > tseq + 1 {
            self.runs.remove(&(tseq + 1));
        }
        if run.begins && run.ends {
            self.runs.remove(&begin);
            self.complete.insert(begin..run.end);
            return Ok(Some(self.take_message(begin..run.end, tseq, piece)));
        }
        self.runs.insert(begin, run);
        self.held += OVERHEAD + piece.bytes();
        self.pieces.insert(tseq, piece);
        Ok(None)
    }

    fn contradicts(&self, tseq: u64, piece: &Piece) -> bool {
        let before = tseq.checked_sub(1);
        let cannot_begin_here = before
            .and_then(|before| self.pieces.get(&before))
            .is_some_and(|before| !piece.may_follow(before));
        let cannot_go_on = self.pieces.get(&(tseq + 1)).is_some_and(|after| !after.may_follow(piece));
        let begins_late =
            !piece.fragment.begins() && before.is_some_and(|before| self.complete.contains(before));
        let ends_late = !piece.fragment.ends() && self.complete.contains(tseq + 1);
        cannot_begin_here || cannot_go_on || begins_late || ends_late
    }

    /// The run that the piece makes together with those before and behind it, and where it begins.
    fn join(&self, tseq: u64, piece: &Piece) -> (u64, Run) {
        let (begins, ends) = (piece.fragment.begins(), piece.fragment.ends());
        let mut begin = tseq;
        let mut run = Run { end: tseq + 1, begins, ends, bytes: piece.bytes() };
        if let Some((start, before)) =
            self.runs.range(..tseq).next_back().filter(|(_, run)| run.end == tseq && !begins)
        {
            begin = *start;
            run.begins = before.begins;
            run.bytes += before.bytes;
        }
        if let Some(after) = self.runs.get(&(tseq + 1)).filter(|_| !ends) {
            run.end = after.end;
            run.ends = after.ends;
            run.bytes += after.bytes;
        }
        (begin, run)
    }

    /// Removes the fragments of a message, of which `newest`, at `at`, is not stored, and joins them.
    fn take_message(&mut self, range: Range<u64>, at: u64, newest: Piece) -> Whole {
        if range.end - range.start == 1 {
            let data = newest.data.clone();
            return whole(&newest, data);
        }
        let head = if range.start == at { None } else { self.pieces.get(&range.start) };
        let mut message = whole(head.unwrap_or(&newest), Bytes::new());
        let mut data = BytesMut::new();
        for tseq in range {
            if tseq == at {
                data.extend_from_slice(&newest.data);
            } else if let Some(piece) = self.pieces.remove(&tseq) {
                data.extend_from_slice(&piece.data);
                self.held -= OVERHEAD + piece.bytes();
            }
        }
        message.data = data.freeze();
        message
    }

    /// Memory that the fragments take, in bytes.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Whether no message is incomplete.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

fn whole(first: &Piece, data: Bytes) -> Whole {
    let sseq = (!first.unordered).then_some(first.sseq);
    Whole { stream: first.stream, sseq, protocol: first.protocol, data }
}

#[cfg(test)]
#[path = "reassembly/tests.rs"]
mod tests;
