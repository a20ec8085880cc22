//! The sending half of a stream.

use std::ops::Range;

use bytes::Bytes;
use manyway_wire::{StreamId, Writer, encode_padding, encode_stream_header, stream_overhead};

use super::event::WriteError;
use super::flow_control::SendCredit;
use super::send_buffer::SendBuffer;
use super::state::{SendEvent, SendState};
use crate::packet::content::SentContent;
use crate::{Misuse, StreamConfig};

/// What this end sends on a stream.
#[derive(Debug)]
pub(crate) struct SendHalf {
    stream: StreamId,
    state: SendState,
    buffer: SendBuffer,
    credit: SendCredit,
    capacity: u64,
    max_capacity: u64,
    /// A write was cut short and the application not told since that there is room.
    writer_waits: bool,
    /// The peer's reason to want no more.
    stopped: Option<u64>,
}

/// What a sending half has to send, as far as its own credit allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ready {
    /// Bytes to be sent for the first time, beyond all that was sent.
    pub(crate) fresh: u64,
    /// Bytes to be sent for the first time that others were sent beyond; they need no credit.
    pub(crate) skipped: u64,
    /// Bytes to be sent again; they need no credit.
    pub(crate) repeat: u64,
    /// A block without bytes is needed to mark the end.
    pub(crate) bare_end: bool,
    /// Something is not sent or not acknowledged.
    pub(crate) unsettled: bool,
    /// Bytes from the first that is not acknowledged to the highest that was sent.
    pub(crate) outstanding: u64,
}

impl Ready {
    /// Bytes to be sent for the first time.
    pub(crate) fn unsent(&self) -> u64 {
        self.fresh + self.skipped
    }

    /// Whether something is there that needs no credit and was sent before, or carries no bytes.
    pub(crate) fn has_repeats(&self) -> bool {
        self.repeat > 0 || self.bare_end
    }
}

/// What came of an attempt to write new bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fresh {
    /// A block, and how much of the connection's credit it took.
    Block(SentContent, u64),
    /// The packet has no room for it.
    Full,
    /// There are no such bytes, or no credit for them.
    Nothing,
}

/// What an acknowledgement changed for the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing that it must hear of.
    None,
    /// It may write again.
    Writable,
    /// Everything reached the peer.
    Finished,
}

/// Bytes are not cut into smaller pieces than this at the end of a packet.
const SMALLEST_CUT: u64 = 32;
/// The length field of a block counts up to this.
const LARGEST_BLOCK: usize = 0xffff;

impl SendHalf {
    pub(crate) fn new(stream: StreamId, credit: u64, config: &StreamConfig) -> Self {
        Self {
            stream,
            state: SendState::Open,
            buffer: SendBuffer::default(),
            credit: SendCredit::new(credit),
            capacity: config.send_buffer,
            max_capacity: config.max_send_buffer.max(config.send_buffer),
            writer_waits: false,
            stopped: None,
        }
    }

    /// Takes as much of `data` as there is room for; tells how much that was.
    pub(crate) fn write(&mut self, mut data: Bytes) -> Result<usize, WriteError> {
        self.check_open()?;
        let room = usize::try_from(self.room()).unwrap_or(usize::MAX);
        if data.len() > room {
            self.writer_waits = true;
            data.truncate(room);
        }
        let accepted = data.len();
        self.buffer.write(data);
        Ok(accepted)
    }

    /// The application has written all.
    pub(crate) fn finish(&mut self) -> Result<(), WriteError> {
        self.check_open()?;
        self.step(SendEvent::Finish);
        self.buffer.finish();
        self.writer_waits = false;
        Ok(())
    }

    /// The application wants no more of it.
    pub(crate) fn reset(&mut self, code: u64) -> Result<(), Misuse> {
        if self.abandon(code) { Ok(()) } else { Err(Misuse::SendingEnded { stream: self.stream }) }
    }

    /// The peer wants no more of it: that is answered with a reset (RFC 9000, section 3.5). False if the stream
    /// was over before.
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
            self.writer_waits = false;
        }
        abandoned
    }

    fn check_open(&self) -> Result<(), WriteError> {
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

    /// Bytes that the application may write. The buffer grows to twice what is in flight, so that the next
    /// round trip's bytes are here before this one's are acknowledged.
    fn room(&mut self) -> u64 {
        let useful = self.buffer.in_flight().saturating_mul(2).min(self.max_capacity);
        self.capacity = self.capacity.max(useful);
        self.capacity.saturating_sub(self.buffer.held())
    }

    /// The code and final size of a reset that the peer does not know of for certain.
    pub(crate) fn resetting(&self) -> Option<(u64, u64)> {
        match self.state {
            SendState::Resetting { code } => Some((code, self.buffer.sent())),
            SendState::Open | SendState::Finishing | SendState::Finished | SendState::ResetDone => None,
        }
    }

    pub(crate) fn raise_credit(&mut self, limit: u64) {
        self.credit.raise(limit);
    }

    /// The limit to name in BLOCKED, if bytes wait for credit of the stream and the peer was not told.
    pub(crate) fn blocked(&self) -> Option<u64> {
        let waits = !self.buffer.beyond().is_empty() && self.credit.should_report();
        waits.then(|| self.credit.limit())
    }

    /// Whether bytes wait for credit of the stream.
    pub(crate) fn waits_for_credit(&self) -> bool {
        let sends = matches!(self.state, SendState::Open | SendState::Finishing);
        sends && self.credit.left() == 0 && !self.buffer.beyond().is_empty()
    }

    pub(crate) fn on_blocked_reported(&mut self) {
        self.credit.on_reported();
    }

    /// The peer was not told after all.
    pub(crate) fn on_blocked_lost(&mut self) {
        self.credit.on_report_lost();
    }

    pub(crate) fn ready(&self) -> Ready {
        match self.state {
            SendState::Open | SendState::Finishing => {
                let beyond = self.buffer.beyond();
                Ready {
                    fresh: (beyond.end - beyond.start).min(self.credit.left()),
                    skipped: self.buffer.skipped_bytes(),
                    repeat: self.buffer.lost_bytes(),
                    bare_end: self.buffer.needs_bare_end(),
                    unsettled: !self.buffer.is_settled(),
                    outstanding: self.buffer.sent() - self.buffer.base(),
                }
            }
            SendState::Resetting { .. } => Ready { unsettled: true, ..Ready::default() },
            SendState::Finished | SendState::ResetDone => Ready::default(),
        }
    }

    /// Writes a block of bytes to be sent again, or the bare end; `None` if it does not fit.
    pub(crate) fn write_repeat(&mut self, w: &mut Writer<'_>) -> Option<SentContent> {
        let next = self.buffer.sent();
        self.write_block(self.buffer.lost().unwrap_or(next..next), w)
    }

    /// Writes a block of new bytes that has `skip` others before it, for at most `credit` of the connection.
    pub(crate) fn write_fresh(&mut self, skip: u64, credit: u64, w: &mut Writer<'_>) -> Fresh {
        let before = self.buffer.sent();
        let mut range = self.buffer.unsent(skip);
        if range.end > before {
            range.end = range.end.min(before.saturating_add(credit.min(self.credit.left())));
        }
        if range.is_empty() {
            return Fresh::Nothing;
        }
        let Some(content) = self.write_block(range, w) else { return Fresh::Full };
        let spent = self.buffer.sent() - before;
        self.credit.spend(spent);
        Fresh::Block(content, spent)
    }

    /// Writes once more what of `range` has not arrived, from its start; tells how far it came, and `None` in place of
    /// a block if all of that has arrived. `None` if it does not fit.
    pub(crate) fn write_copy(
        &mut self,
        range: Range<u64>,
        w: &mut Writer<'_>,
    ) -> Option<(u64, Option<SentContent>)> {
        let range = range.start.max(self.buffer.base())..range.end;
        if range.is_empty() || !self.needs_copy(&range) {
            return Some((range.end, None));
        }
        let content = self.write_block(range.clone(), w)?;
        let SentContent::Stream { length, .. } = content else { return Some((range.end, None)) };
        Some((range.start + u64::from(length), Some(content)))
    }

    /// Whether some of these bytes have not arrived, and are still to be sent.
    pub(crate) fn needs_copy(&self, range: &Range<u64>) -> bool {
        let sends = matches!(self.state, SendState::Open | SendState::Finishing);
        sends && self.buffer.arrived(range) < range.end - range.start
    }

    /// How many bytes of `range` have arrived.
    pub(crate) fn arrived(&self, range: &Range<u64>) -> u64 {
        match self.state {
            SendState::Open | SendState::Finishing => self.buffer.arrived(range),
            SendState::Resetting { .. } | SendState::Finished | SendState::ResetDone => 0,
        }
    }

    /// How many bytes have arrived without a gap.
    pub(crate) fn arrived_in_order(&self) -> u64 {
        self.buffer.base()
    }

    /// Whether a block of these bytes is what the peer's application waits for, and no repeat of it waits here.
    pub(crate) fn is_held_up_by(&self, range: &Range<u64>) -> bool {
        let base = self.buffer.base();
        let sends = matches!(self.state, SendState::Open | SendState::Finishing);
        sends
            && range.start <= base
            && (base < range.end || range.is_empty())
            && self.buffer.lost().is_none_or(|lost| lost.start > base)
    }

    /// Credit of the stream that is left, and the same counted from the first byte that is not acknowledged.
    pub(crate) fn credit_left(&self) -> (u64, u64) {
        let left = self.credit.left();
        (left, left + self.buffer.sent() - self.buffer.base())
    }

    /// Bytes that were never sent, whether there is credit for them or not.
    pub(crate) fn unsent_bytes(&self) -> u64 {
        let beyond = self.buffer.beyond();
        self.buffer.skipped_bytes() + beyond.end - beyond.start
    }

    fn write_block(&mut self, range: Range<u64>, w: &mut Writer<'_>) -> Option<SentContent> {
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
        self.buffer.send(offset..offset + count, w);
        encode_padding(w, overhead + size);
        Some(SentContent::Stream { stream: self.stream, offset, length, end })
    }

    /// A block arrived.
    pub(crate) fn on_delivered(&mut self, range: Range<u64>, end: bool) -> Progress {
        match self.state {
            SendState::Open | SendState::Finishing => self.buffer.on_delivered(range, end),
            SendState::Resetting { .. } | SendState::Finished | SendState::ResetDone => {
                return Progress::None;
            }
        }
        if self.state == SendState::Finishing && self.buffer.is_settled() {
            self.step(SendEvent::AllAcked);
            return Progress::Finished;
        }
        if self.take_writable() { Progress::Writable } else { Progress::None }
    }

    /// Whether the application waits for room and there is enough: not each packet's worth, but a quarter of the
    /// buffer at a time. Asking counts as telling.
    pub(crate) fn take_writable(&mut self) -> bool {
        let tell = self.writer_waits && self.room() >= self.capacity / 4;
        if tell {
            self.writer_waits = false;
        }
        tell
    }

    /// A block got lost, or its path is suspect.
    pub(crate) fn on_lost(&mut self, range: Range<u64>, end: bool) {
        match self.state {
            SendState::Open | SendState::Finishing => self.buffer.on_lost(range, end),
            SendState::Resetting { .. } | SendState::Finished | SendState::ResetDone => {}
        }
    }

    pub(crate) fn on_reset_delivered(&mut self) {
        self.step(SendEvent::ResetAcked);
    }

    /// The peer's reason to want no more.
    pub(crate) fn stopped(&self) -> Option<u64> {
        self.stopped
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state.is_over()
    }
}
