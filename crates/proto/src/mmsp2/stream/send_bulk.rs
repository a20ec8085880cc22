//! New bytes of a stream for packets that they fill.

use std::ops::Range;

use manyway_wire::mmsp2::{encode_stream_header, stream_overhead};
use manyway_wire::{StreamId, Writer};

use super::{LARGEST_BLOCK, SendHalf};
use crate::mmsp2::stream::send_buffer::Unwritten;
use crate::packet::content::SentContent;

/// New bytes, written to packet after packet. [`SendHalf::on_bulk_sent`] records them all at once.
#[derive(Debug)]
pub(crate) struct Bulk<'a> {
    stream: StreamId,
    written: Range<u64>,
    /// End of the bytes that may be sent.
    end: u64,
    rest: Unwritten<'a>,
}

impl SendHalf {
    /// The first bytes that were never sent, `skip` of them further on, for at most `credit` of the connection; `None` if
    /// the stream carries messages.
    pub(crate) fn bulk(&self, skip: u64, credit: u64) -> Option<Bulk<'_>> {
        let Range { start, end } = self.unsent(skip, credit);
        let is_bytes = self.messages.is_none() && start < end;
        is_bytes.then(|| {
            let rest = self.buffer.bytes_from(start);
            Bulk { stream: self.stream, written: start..start, end, rest }
        })
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
        let (stream, offset) = (self.stream, self.written.end);
        let size = w.remaining().checked_sub(stream_overhead(stream, offset))?;
        let end = offset + size as u64;
        if end >= self.end || w.remaining() > LARGEST_BLOCK {
            return None;
        }
        encode_stream_header(w, stream, offset, size, false);
        self.rest.write(size, w);
        self.written.end = end;
        Some(SentContent::Stream { stream, offset, length: u32::try_from(size).ok()?, end: false })
    }

    /// The bytes written.
    pub(crate) fn written(&self) -> Range<u64> {
        self.written.clone()
    }
}
