//! What the application must read: a simple model beside the protocol machine.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use manyway_proto::StreamId;

use crate::ids::HostId;
use crate::invariants::Law;

/// Content that follows from the writer, the stream and the offset, so that it can be checked without storing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern(u64);

impl Pattern {
    /// The content that `writer` writes to `stream`.
    pub fn new(writer: HostId, stream: StreamId) -> Self {
        Self(mix(stream.0 ^ (writer.0 as u64).rotate_left(48)))
    }

    /// The bytes from `offset` on.
    pub fn bytes(self, offset: u64, length: usize) -> Bytes {
        let mut bytes = Vec::with_capacity(length);
        for (index, range) in blocks(offset, length) {
            bytes.extend_from_slice(self.block(index).get(range).unwrap_or_default());
        }
        bytes.into()
    }

    /// The index of the first byte in `bytes`, read at `offset`, that differs from what was written.
    pub fn first_difference(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let mut rest = bytes;
        for (index, range) in blocks(offset, bytes.len()) {
            let at = index * BLOCK as u64 + range.start as u64;
            let block = self.block(index);
            let right = block.get(range).unwrap_or_default();
            let (read, later) = rest.split_at(right.len());
            if read != right {
                let same = read.iter().zip(right).take_while(|(read, right)| read == right);
                return Some(at + same.count() as u64);
            }
            rest = later;
        }
        None
    }

    /// Words that ascend in steps of one constant from a random one: as good for finding errors as random ones, and
    /// several are computed at a time.
    #[inline]
    fn block(self, index: u64) -> [u8; BLOCK] {
        let first = mix(self.0.wrapping_add(index.wrapping_mul(STEP)));
        let mut block = [0; BLOCK];
        for (place, chunk) in (0..).zip(block.chunks_exact_mut(8)) {
            chunk.copy_from_slice(&first.wrapping_add(STEP.wrapping_mul(place)).to_le_bytes());
        }
        block
    }
}

/// Bytes that follow from one random word.
const BLOCK: usize = 64;
/// Odd, and without regularity: the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The blocks in which a range lies, with the part of each.
fn blocks(offset: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
    let (size, end) = (BLOCK as u64, offset + length as u64);
    (offset / size..end.div_ceil(size)).map(move |index| {
        let within = |at: u64| usize::try_from(at.saturating_sub(index * size)).unwrap_or(BLOCK).min(BLOCK);
        (index, within(offset)..within(end))
    })
}

/// The finaliser of splitmix64.
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// All streams of one connection, each direction by its writer.
#[derive(Debug, Default)]
pub struct Reference {
    halves: BTreeMap<(HostId, StreamId), Half>,
}

/// One direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Half {
    /// Bytes that the machine accepted from the writer.
    pub written: u64,
    /// Bytes that the reader got.
    pub read: u64,
    /// The writer's last operation.
    pub writer: WriterState,
    /// The reader's last observation.
    pub reader: ReaderState,
}

/// The writer's end of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriterState {
    /// More may come.
    #[default]
    Open,
    /// It was finished.
    Finished,
    /// It was reset.
    Reset,
}

/// The reader's end of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReaderState {
    /// More may come.
    #[default]
    Open,
    /// It saw the end.
    Ended,
    /// It saw a reset.
    Reset,
    /// It stopped reading.
    Stopped,
}

impl Reference {
    /// One direction of a stream; new if it has no operation yet.
    pub fn half(&self, writer: HostId, stream: StreamId) -> Half {
        self.halves.get(&(writer, stream)).copied().unwrap_or_default()
    }

    /// All directions with an operation.
    pub fn halves(&self) -> impl Iterator<Item = (HostId, StreamId, Half)> + '_ {
        self.halves.iter().map(|((writer, stream), half)| (*writer, *stream, *half))
    }

    /// Whether every finished direction was read to its end, unless its reader stopped.
    pub fn is_settled(&self) -> bool {
        self.halves
            .values()
            .all(|half| half.writer != WriterState::Finished || half.reader != ReaderState::Open)
    }

    /// The machine accepted `length` bytes.
    pub fn on_write(&mut self, writer: HostId, stream: StreamId, length: usize) {
        self.entry(writer, stream).written += length as u64;
    }

    /// The writer finished.
    pub fn on_finish(&mut self, writer: HostId, stream: StreamId) {
        self.entry(writer, stream).writer = WriterState::Finished;
    }

    /// The writer reset the stream.
    pub fn on_reset(&mut self, writer: HostId, stream: StreamId) {
        self.entry(writer, stream).writer = WriterState::Reset;
    }

    /// The reader stopped the stream.
    pub fn on_stop(&mut self, writer: HostId, stream: StreamId) {
        self.entry(writer, stream).reader = ReaderState::Stopped;
    }

    /// The reader got these bytes.
    ///
    /// # Errors
    /// If they differ from what was written next.
    pub fn on_read(&mut self, writer: HostId, stream: StreamId, data: &[u8]) -> Result<(), Law> {
        let half = self.entry(writer, stream);
        let offset = half.read;
        half.read += data.len() as u64;
        let Half { written, read, reader, .. } = *half;
        if read > written || reader != ReaderState::Open {
            return Err(Law::Invention { writer, stream, written, read });
        }
        match Pattern::new(writer, stream).first_difference(offset, data) {
            Some(offset) => Err(Law::Content { writer, stream, offset }),
            None => Ok(()),
        }
    }

    /// The reader saw the end of the stream.
    ///
    /// # Errors
    /// If the writer did not finish it here.
    pub fn on_end(&mut self, writer: HostId, stream: StreamId) -> Result<(), Law> {
        let half = self.entry(writer, stream);
        half.reader = ReaderState::Ended;
        let finished = (half.writer == WriterState::Finished).then_some(half.written);
        if finished == Some(half.read) {
            return Ok(());
        }
        Err(Law::End { writer, stream, finished, read: half.read })
    }

    /// The reader saw a reset of the stream.
    ///
    /// # Errors
    /// If the writer did not reset it.
    pub fn on_reset_seen(&mut self, writer: HostId, stream: StreamId) -> Result<(), Law> {
        let half = self.entry(writer, stream);
        half.reader = ReaderState::Reset;
        match half.writer {
            WriterState::Reset => Ok(()),
            WriterState::Open | WriterState::Finished => Err(Law::Reset { writer, stream }),
        }
    }

    fn entry(&mut self, writer: HostId, stream: StreamId) -> &mut Half {
        self.halves.entry((writer, stream)).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITER: HostId = HostId(0);
    const STREAM: StreamId = StreamId(4);

    #[test]
    fn a_pattern_is_the_same_in_any_pieces() {
        let pattern = Pattern::new(WRITER, STREAM);
        let whole = pattern.bytes(0, 1_000);
        for (offset, length) in [(0, 1_000), (1, 7), (7, 2), (8, 8), (13, 500), (999, 1)] {
            assert_eq!(pattern.bytes(offset as u64, length), whole[offset..offset + length]);
            assert_eq!(pattern.first_difference(offset as u64, &whole[offset..offset + length]), None);
        }
        let mut wrong = whole.to_vec();
        wrong[613] ^= 1;
        assert_eq!(pattern.first_difference(5, &wrong[5..]), Some(613));
        assert_ne!(Pattern::new(HostId(1), STREAM).bytes(0, 64), pattern.bytes(0, 64));
    }

    #[test]
    fn a_correct_transfer_is_accepted() {
        let mut reference = Reference::default();
        let pattern = Pattern::new(WRITER, STREAM);
        reference.on_write(WRITER, STREAM, 100);
        assert_eq!(reference.on_read(WRITER, STREAM, &pattern.bytes(0, 60)), Ok(()));
        reference.on_finish(WRITER, STREAM);
        assert!(!reference.is_settled());
        assert_eq!(reference.on_read(WRITER, STREAM, &pattern.bytes(60, 40)), Ok(()));
        assert_eq!(reference.on_end(WRITER, STREAM), Ok(()));
        assert!(reference.is_settled());
    }

    #[test]
    fn every_kind_of_error_is_found() {
        let pattern = Pattern::new(WRITER, STREAM);
        let written = || {
            let mut reference = Reference::default();
            reference.on_write(WRITER, STREAM, 100);
            reference
        };
        let swapped = pattern.bytes(1, 10);
        assert!(matches!(written().on_read(WRITER, STREAM, &swapped), Err(Law::Content { offset: 0, .. })));
        let more = pattern.bytes(0, 101);
        assert!(matches!(written().on_read(WRITER, STREAM, &more), Err(Law::Invention { .. })));
        assert!(matches!(written().on_end(WRITER, STREAM), Err(Law::End { finished: None, .. })));
        let mut early = written();
        early.on_finish(WRITER, STREAM);
        assert!(matches!(early.on_end(WRITER, STREAM), Err(Law::End { finished: Some(100), read: 0, .. })));
        assert!(matches!(written().on_reset_seen(WRITER, STREAM), Err(Law::Reset { .. })));
    }
}
