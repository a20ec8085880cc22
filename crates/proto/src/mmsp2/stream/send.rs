//! The sending half of a stream.

use std::ops::Range;

use bytes::Bytes;
use manyway_wire::frame::encode_padding;
use manyway_wire::mmsp2::{encode_stream_header, stream_overhead};
use manyway_wire::{StreamId, Writer};

use super::send_buffer::SendBuffer;
use super::send_credit::SendCredit;
use super::state::{SendEvent, SendState};
use crate::mmsp2::message::outbox::Outbox;
use crate::packet::content::SentContent;
use crate::stream::event::WriteError;
use crate::stream::priority::{Rank, Urgency};
use crate::stream::receive_credit::Epoch;
use crate::{Misuse, StreamConfig};

#[path = "send_bulk.rs"]
mod send_bulk;
#[path = "send_copies.rs"]
mod send_copies;
#[path = "send_messages.rs"]
mod send_messages;

pub(crate) use send_bulk::Bulk;
pub(crate) use send_messages::NewMessage;

/// The sending half of one stream.
#[derive(Debug)]
pub(crate) struct SendHalf {
    stream: StreamId,
    state: SendState,
    buffer: SendBuffer,
    /// Exists once the application has sent a message; then the buffer stays empty except for the FIN.
    messages: Option<Box<Outbox>>,
    credit: SendCredit,
    capacity: u64,
    max_capacity: u64,
    /// Bytes that were acknowledged in order in this period, since the buffer last grew.
    acknowledged: (Option<Epoch>, u64),
    /// Memory that the other streams leave to this one; it counts if it is less than the capacity.
    share: u64,
    /// Exists while a write was cut short and no `Writable` event has followed: the space needed for the event.
    writer_waits: Option<u64>,
    /// The code of the peer's STOP-SENDING.
    stopped: Option<u64>,
}

/// The data that a sending half has to send, as far as its own credit permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ready {
    /// New bytes, beyond all that were sent.
    pub(crate) new: u64,
    /// Deferred bytes: new bytes below others that were sent; they need no credit.
    pub(crate) deferred: u64,
    /// Bytes to retransmit; they need no credit.
    pub(crate) retransmissions: u64,
    /// The rest of partially sent messages; its credit is reserved.
    pub(crate) partially_sent: u64,
    /// Whether a block without bytes is needed for the FIN.
    pub(crate) fin_only: bool,
    /// Bytes written and not acknowledged.
    pub(crate) held: u64,
    /// Whether anything is unsent or unacknowledged.
    pub(crate) unsettled: bool,
    /// Bytes from the first unacknowledged one to the highest that was sent.
    pub(crate) outstanding: u64,
    /// Credit of the stream that is left, while it holds bytes.
    pub(crate) credit: u64,
}

impl Ready {
    /// Bytes that were never sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.new + self.deferred
    }

    /// Whether there is data that needs no credit, besides deferred bytes: retransmissions, the rest of partially
    /// sent messages, or the FIN without data.
    pub(crate) fn has_credit_free(&self) -> bool {
        self.credit_free() > 0
    }

    /// Bytes of these; the FIN without data counts as one.
    pub(crate) fn credit_free(&self) -> u64 {
        self.retransmissions + self.partially_sent + u64::from(self.fin_only)
    }
}

/// The result of an attempt to write new bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewData {
    /// A block, and the connection credit that it used.
    Block(SentContent, u64),
    /// It does not fit into the packet.
    Full,
    /// There are no new bytes, or no credit for them.
    Nothing,
}

/// The ranks of the parts of [`Ready`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ranks {
    /// New bytes.
    pub(crate) new: Rank,
    /// Data that needs no credit.
    pub(crate) retransmissions: Rank,
}

/// The effect of an acknowledgement for the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing to report.
    None,
    /// The application may write again.
    Writable,
    /// All data reached the peer.
    Finished,
}

/// A block at the end of a packet is not cut to fewer bytes than this.
const SMALLEST_CUT: u64 = 32;
/// The length field of a block counts up to this.
const LARGEST_BLOCK: usize = 0xffff;
/// More credit of a stream counts as this much, so that sums stay exact.
const MOST_COUNTED: u64 = 1 << 40;

impl SendHalf {
    pub(crate) fn new(stream: StreamId, credit: u64, config: &StreamConfig) -> Self {
        Self {
            stream,
            state: SendState::Open,
            buffer: SendBuffer::default(),
            messages: None,
            credit: SendCredit::new(credit),
            capacity: config.send_buffer,
            max_capacity: config.max_send_buffer.max(config.send_buffer),
            acknowledged: (None, 0),
            share: u64::MAX,
            writer_waits: None,
            stopped: None,
        }
    }

    /// Takes as much of `data` as there is space for; returns how much.
    pub(crate) fn write(&mut self, mut data: Bytes) -> Result<usize, WriteError> {
        self.check_open()?;
        if self.messages.is_some() {
            return Err(Misuse::CarriesMessages { stream: self.stream }.into());
        }
        let room = usize::try_from(self.room()).unwrap_or(usize::MAX);
        if data.len() > room {
            self.writer_waits = Some(0);
            data.truncate(room);
        }
        let accepted = data.len();
        self.buffer.write(data);
        Ok(accepted)
    }

    /// The application has written all its data.
    pub(crate) fn finish(&mut self) -> Result<(), WriteError> {
        self.check_open()?;
        self.step(SendEvent::Finish);
        self.buffer.finish();
        self.writer_waits = None;
        Ok(())
    }

    /// The application abandons the stream.
    pub(crate) fn reset(&mut self, code: u64) -> Result<(), Misuse> {
        if self.abandon(code) { Ok(()) } else { Err(Misuse::SendingEnded { stream: self.stream }) }
    }

    /// The peer stops the stream: the answer is a reset (RFC 9000, section 3.5). False if the stream was already
    /// over.
    pub(crate) fn on_stop(&mut self, code: u64) -> bool {
        let abandoned = self.abandon(code);
        if abandoned {
            self.stopped = Some(code);
        }
        abandoned
    }

    fn abandon(&mut self, code: u64) -> bool {
        let abandoned = self.step(SendEvent::Reset { code });
        if abandoned {
            self.buffer.clear();
            if let Some(messages) = &mut self.messages {
                messages.clear();
            }
            self.writer_waits = None;
        }
        abandoned
    }

    pub(crate) fn check_open(&self) -> Result<(), WriteError> {
        match (self.state, self.stopped) {
            (SendState::Open, _) => Ok(()),
            (_, Some(code)) => Err(WriteError::Stopped(code)),
            (_, None) => Err(Misuse::SendingEnded { stream: self.stream }.into()),
        }
    }

    fn step(&mut self, event: SendEvent) -> bool {
        let next = self.state.after(event);
        self.state = next.unwrap_or(self.state);
        next.is_some()
    }

    /// Bytes that the application may write. The buffer grows to twice the bytes in flight, so that the next round
    /// trip's bytes are here before this one's are acknowledged. It also grows by the bytes that arrived behind a
    /// gap: while a slow path fills the gap, a fast one must not run dry.
    pub(super) fn room(&mut self) -> u64 {
        let (in_flight, behind_gaps) = match &self.messages {
            None => (self.buffer.in_flight(), self.buffer.behind_gaps()),
            Some(messages) => (messages.held().saturating_sub(messages.waiting()), 0),
        };
        let useful = in_flight.saturating_mul(2).saturating_add(behind_gaps).min(self.max_capacity);
        self.capacity = self.capacity.max(useful);
        self.most().saturating_sub(self.held())
    }

    /// So many more bytes were acknowledged in order. The buffer doubles when that is more than its size within a period of
    /// two round trips. A scheduler gives a long path only bytes beyond those that a short one delivers meanwhile, and twice
    /// what is in flight on the short one is fewer.
    fn on_acknowledged(&mut self, bytes: u64, now: Option<Epoch>) {
        if self.acknowledged.0 != now {
            self.acknowledged = (now, 0);
        }
        self.acknowledged.1 += bytes;
        if now.is_some() && self.acknowledged.1 > self.capacity {
            self.acknowledged.1 = 0;
            self.capacity = self.capacity.saturating_mul(2).min(self.max_capacity);
        }
    }

    fn held(&self) -> u64 {
        self.buffer.held() + self.messages_held()
    }

    /// Bytes written and not acknowledged, without those held only because of a gap before them.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.held() - self.buffer.behind_gaps()
    }

    /// The capacity of the buffer now.
    fn most(&self) -> u64 {
        self.capacity.min(self.share)
    }

    /// Limits the buffer to `share`, if that is less than its capacity.
    pub(crate) fn set_share(&mut self, share: u64) {
        self.share = share;
    }

    /// Whether the application waits for memory that other streams hold.
    pub(crate) fn waits_for_others(&self) -> bool {
        self.writer_waits.is_some() && self.share < self.capacity
    }

    /// The code and final size of a reset that is not yet acknowledged.
    pub(crate) fn resetting(&self) -> Option<(u64, u64)> {
        match self.state {
            SendState::Resetting { code } => {
                let is_bytes = self.messages.is_none();
                Some((code, if is_bytes { self.buffer.sent() } else { self.credit.used() }))
            }
            SendState::Open | SendState::Finishing | SendState::Finished | SendState::ResetDone => None,
        }
    }

    pub(crate) fn raise_credit(&mut self, limit: u64) {
        self.credit.raise(limit);
    }

    /// The least credit that the next new bytes need, if there are any.
    pub(crate) fn need(&self) -> Option<u64> {
        match &self.messages {
            None => (!self.buffer.beyond().is_empty()).then_some(1),
            Some(messages) => messages.next_cost().filter(|_| !messages.has_too_many_cut()),
        }
    }

    /// The limit to report in BLOCKED, if bytes wait for credit of the stream and it was not reported yet.
    pub(crate) fn blocked(&self) -> Option<u64> {
        let waits = self.need().is_some_and(|need| self.credit.left() < need);
        (waits && self.credit.is_unreported()).then(|| self.credit.limit())
    }

    /// Whether bytes wait for credit of the stream.
    pub(crate) fn waits_for_credit(&self) -> bool {
        let sends = matches!(self.state, SendState::Open | SendState::Finishing);
        sends && self.need().is_some_and(|need| self.credit.left() < need)
    }

    pub(crate) fn on_blocked_reported(&mut self) {
        self.credit.on_reported();
    }

    /// The BLOCKED was lost.
    pub(crate) fn on_blocked_lost(&mut self) {
        self.credit.on_report_lost();
    }

    pub(crate) fn ready(&self) -> Ready {
        match self.state {
            SendState::Open | SendState::Finishing => match &self.messages {
                None => {
                    let beyond = self.buffer.beyond();
                    let held = self.buffer.held();
                    Ready {
                        new: (beyond.end - beyond.start).min(self.credit.left()),
                        deferred: self.buffer.deferred_bytes(),
                        retransmissions: self.buffer.lost_bytes(),
                        partially_sent: 0,
                        fin_only: self.buffer.needs_fin_only(),
                        held,
                        unsettled: !self.buffer.is_settled(),
                        outstanding: self.buffer.sent() - self.buffer.base(),
                        credit: self.credit_while(held),
                    }
                }
                Some(messages) => self.messages_ready(messages),
            },
            SendState::Resetting { .. } => Ready { unsettled: true, ..Ready::default() },
            SendState::Finished | SendState::ResetDone => Ready::default(),
        }
    }

    /// The credit that is left, while the stream holds bytes.
    pub(super) fn credit_while(&self, held: u64) -> u64 {
        if held > 0 { self.credit.left().min(MOST_COUNTED) } else { 0 }
    }

    /// The ranks of new bytes and retransmissions: that of the stream, or those of its messages.
    #[inline]
    pub(crate) fn ranks(&self, urgency: Urgency) -> Ranks {
        let of_stream = Rank { urgency, deadline: None };
        let Some(messages) = self.messages.as_deref() else {
            return Ranks { new: of_stream, retransmissions: of_stream };
        };
        Ranks {
            new: messages.rank_of_new().unwrap_or(of_stream),
            retransmissions: messages.rank_of_partially_sent().unwrap_or(of_stream),
        }
    }

    /// Writes a block of bytes that are retransmitted or have their credit, or the FIN without data; `None` if it does
    /// not fit.
    pub(crate) fn write_retransmission(&mut self, w: &mut Writer<'_>) -> Option<SentContent> {
        if self.messages.is_some() {
            return self.write_partially_sent(w);
        }
        let next = self.buffer.sent();
        self.write_block(self.buffer.lost().unwrap_or(next..next), w)
    }

    /// Writes a block of new bytes that start `skip` bytes further on, or of the next message if nothing is to be
    /// deferred, for at most `credit` of the connection.
    pub(crate) fn write_new(&mut self, skip: u64, credit: u64, w: &mut Writer<'_>) -> NewData {
        let written = if self.messages.is_some() {
            self.write_message(skip, credit, w)
        } else {
            self.write_bytes(skip, credit, w)
        };
        if let NewData::Block(_, spent) = written {
            self.credit.spend(spent);
        }
        written
    }

    fn write_bytes(&mut self, skip: u64, credit: u64, w: &mut Writer<'_>) -> NewData {
        let before = self.buffer.sent();
        let range = self.unsent(skip, credit);
        if range.is_empty() {
            return NewData::Nothing;
        }
        let Some(content) = self.write_block(range, w) else { return NewData::Full };
        NewData::Block(content, self.buffer.sent() - before)
    }

    /// The first range of bytes that were never sent, `skip` of them further on, as far as the credit of the stream and
    /// `credit` of the connection permit.
    fn unsent(&self, skip: u64, credit: u64) -> Range<u64> {
        let sent = self.buffer.sent();
        let mut range = self.buffer.unsent(skip);
        if range.end > sent {
            range.end = range.end.min(sent.saturating_add(credit.min(self.credit.left())));
        }
        range
    }

    fn write_block(&mut self, range: Range<u64>, w: &mut Writer<'_>) -> Option<SentContent> {
        let content = self.encode_block(range, w)?;
        if let SentContent::Stream { offset, length, .. } = content {
            self.buffer.on_sent(offset..offset + u64::from(length));
        }
        Some(content)
    }

    /// Writes a block of bytes without recording it.
    fn encode_block(&self, range: Range<u64>, w: &mut Writer<'_>) -> Option<SentContent> {
        let offset = range.start;
        let overhead = stream_overhead(self.stream, offset);
        let room = w.remaining().min(LARGEST_BLOCK).checked_sub(overhead)? as u64;
        let wanted = range.end - offset;
        let count = wanted.min(room);
        if count < wanted && count < SMALLEST_CUT {
            return None;
        }
        let (size, length) = (usize::try_from(count).ok()?, u32::try_from(count).ok()?);
        let end = self.buffer.ends_at(offset + count);
        encode_stream_header(w, self.stream, offset, size, end);
        self.buffer.encode(offset..offset + count, w);
        encode_padding(w, overhead + size);
        Some(SentContent::Stream { stream: self.stream, offset, length, end })
    }

    /// A block arrived.
    pub(crate) fn on_delivered(&mut self, range: Range<u64>, end: bool, now: Option<Epoch>) -> Progress {
        let before = self.buffer.base();
        match self.state {
            // The offset of the FIN without data behind messages does not belong to the buffer.
            SendState::Open | SendState::Finishing if self.messages.is_some() => {
                self.buffer.on_delivered(0..0, end);
            }
            SendState::Open | SendState::Finishing => self.buffer.on_delivered(range, end),
            SendState::Resetting { .. } | SendState::Finished | SendState::ResetDone => {
                return Progress::None;
            }
        }
        self.on_acknowledged(self.buffer.base() - before, now);
        self.progress()
    }

    /// The effect of a processed acknowledgement for the application.
    pub(super) fn progress(&mut self) -> Progress {
        let settled = self.buffer.is_settled() && self.messages.as_deref().is_none_or(Outbox::is_settled);
        if self.state == SendState::Finishing && settled {
            self.step(SendEvent::AllAcked);
            return Progress::Finished;
        }
        // Writers that wait for memory of other streams are notified together.
        let tell = !self.waits_for_others() && self.take_writable();
        if tell { Progress::Writable } else { Progress::None }
    }

    /// Whether the application waits for space and there is enough: not that of a single packet, but a quarter of the
    /// buffer, and the size of its message. The call counts as the notification.
    pub(crate) fn take_writable(&mut self) -> bool {
        let Some(wanted) = self.writer_waits else { return false };
        let tell = self.held() == 0 || self.room() >= wanted.max(self.most() / 4);
        if tell {
            self.writer_waits = None;
        }
        tell
    }

    /// A block was lost, or its path is suspect.
    pub(crate) fn on_lost(&mut self, range: Range<u64>, end: bool) {
        match self.state {
            SendState::Open | SendState::Finishing if self.messages.is_some() => {
                self.buffer.on_lost(0..0, end);
            }
            SendState::Open | SendState::Finishing => self.buffer.on_lost(range, end),
            SendState::Resetting { .. } | SendState::Finished | SendState::ResetDone => {}
        }
    }

    pub(crate) fn on_reset_delivered(&mut self) {
        self.step(SendEvent::ResetAcked);
    }

    /// The code of the peer's STOP-SENDING.
    pub(crate) fn stopped(&self) -> Option<u64> {
        self.stopped
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state.is_over()
    }
}

#[cfg(test)]
mod tests {
    use manyway_wire::Side;

    use super::*;

    #[test]
    fn the_buffer_doubles_when_more_than_its_size_is_acknowledged_within_a_period() {
        let config = StreamConfig { send_buffer: 100, max_send_buffer: 350, ..StreamConfig::default() };
        let mut half = SendHalf::new(StreamId::new(Side::Client, 0), 0, &config);
        let mut sizes = Vec::new();
        for (bytes, period) in
            [(1000, None), (100, Some(0)), (1, Some(1)), (100, Some(1)), (200, Some(1)), (1, Some(1))]
        {
            half.on_acknowledged(bytes, period.map(Epoch));
            sizes.push(half.most());
        }
        assert_eq!(sizes, [100, 100, 100, 200, 200, 350]);
    }
}
