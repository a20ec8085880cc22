//! New bytes of a stream for packets that they fill.

use std::ops::Range;

use manyway_wire::Writer;
use manyway_wire::mmsp2::{encode_stream_header, stream_overhead};

use super::{LARGEST_BLOCK, SendHalf};
use crate::packet::content::SentContent;

/// New bytes, written to packet after packet. [`SendHalf::on_bulk_sent`] records them all at once.
#[derive(Debug)]
pub(crate) struct Bulk<'a> {
    send: &'a SendHalf,
    written: Range<u64>,
    /// End of the bytes that may be sent.
    end: u64,
    /// Position of the next byte's chunk in the buffer.
    chunk: usize,
}

impl SendHalf {
    /// The bytes beyond all that were sent, `skip` bytes further on, for at most `credit` of the connection; `None` if
    /// the next ones are deferred bytes, or the stream carries messages.
    pub(crate) fn bulk(&self, skip: u64, credit: u64) -> Option<Bulk<'_>> {
        let Range { start, end } = self.unsent(skip, credit);
        let is_new = self.messages.is_none() && start >= self.buffer.sent();
        is_new.then(|| Bulk { send: self, written: start..start, end, chunk: self.buffer.chunk_with(start) })
    }

    /// Records what was written; returns the connection credit that it used.
    pub(crate) fn on_bulk_sent(&mut self, written: Range<u64>) -> u64 {
        let before = self.buffer.sent();
        self.buffer.on_sent(written);
        let spent = self.buffer.sent() - before;
        self.credit.spend(spent);
        spent
    }
}

impl Bulk<'_> {
    /// Fills a packet to its last byte; `None` if no byte would be left for another packet, so that neither the FIN nor
    /// anything else can be due here.
    pub(crate) fn fill(&mut self, w: &mut Writer<'_>) -> Option<SentContent> {
        let (stream, offset) = (self.send.stream, self.written.end);
        let size = w.remaining().checked_sub(stream_overhead(stream, offset))?;
        let end = offset + size as u64;
        if end >= self.end || w.remaining() > LARGEST_BLOCK {
            return None;
        }
        encode_stream_header(w, stream, offset, size, false);
        self.chunk = self.send.buffer.encode_from(self.chunk, offset..end, w);
        self.written.end = end;
        Some(SentContent::Stream { stream, offset, length: u32::try_from(size).ok()?, end: false })
    }

    /// The bytes written.
    pub(crate) fn written(&self) -> Range<u64> {
        self.written.clone()
    }
}
