//! Appends values to a packet, big-endian, up to a fixed end.

/// Writes into a buffer up to a fixed end.
///
/// Callers check [`Writer::remaining`] first, so encoding never fails.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut Vec<u8>,
    end: usize,
}

impl<'a> Writer<'a> {
    /// Appends to `buffer` until its length is `end`.
    pub fn new(buffer: &'a mut Vec<u8>, end: usize) -> Self {
        Self { buffer, end }
    }

    /// How many bytes may still be written.
    pub fn remaining(&self) -> usize {
        self.end.saturating_sub(self.buffer.len())
    }

    /// Length of the buffer so far, including what stood there before this writer.
    pub fn position(&self) -> usize {
        self.buffer.len()
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) {
        self.buffer.push(value);
    }

    /// Appends two bytes.
    pub fn u16(&mut self, value: u16) {
        self.buffer.extend_from_slice(&value.to_be_bytes());
    }

    /// Appends four bytes.
    pub fn u32(&mut self, value: u32) {
        self.buffer.extend_from_slice(&value.to_be_bytes());
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.buffer.extend_from_slice(&value.to_be_bytes());
    }

    /// Appends bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Appends the first `count` of `bytes`: a copy of a fixed size costs less than one of `count` bytes.
    #[inline]
    pub(crate) fn first_of<const N: usize>(&mut self, bytes: [u8; N], count: usize) {
        let end = self.buffer.len() + count.min(N);
        self.buffer.extend_from_slice(&bytes);
        self.buffer.truncate(end);
    }

    /// Appends `count` zero bytes.
    pub fn zeros(&mut self, count: usize) {
        self.buffer.resize(self.buffer.len() + count, 0);
    }
}

/// Fields gathered on the stack, so that one copy of a fixed size appends them all.
pub(crate) struct Gathered<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Gathered<N> {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; N], length: 0 }
    }

    /// Adds the first `count` of `bytes`, all of which must fit.
    #[inline]
    pub(crate) fn add<const M: usize>(&mut self, bytes: [u8; M], count: usize) {
        let place = self.bytes.get_mut(self.length..).and_then(|rest| rest.first_chunk_mut());
        debug_assert!(place.is_some(), "{M} bytes do not fit");
        if let Some(place) = place {
            *place = bytes;
            self.length += count;
        }
    }

    pub(crate) fn append_to(self, w: &mut Writer<'_>) {
        w.first_of(self.bytes, self.length);
    }
}
