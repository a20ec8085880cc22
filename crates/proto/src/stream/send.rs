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
    /// Bytes to be sent for the first time.
    pub(crate) fresh: u64,
    /// Bytes to be sent again; they need no credit.
    pub(crate) repeat: u64,
    /// A block without bytes is needed to mark the end.
    pub(crate) bare_end: bool,
    /// Something is not sent or not acknowledged.
    pub(crate) unsettled: bool,
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
    /// round trip's bytes are here before this one's are acknowledged, and by what arrived behind a gap: while a
    /// slow path fills that, a fast one must not run dry.
    fn room(&mut self) -> u64 {
        let needed = self.buffer.in_flight().saturating_mul(2).saturating_add(self.buffer.behind_gaps());
        let useful = needed.min(self.max_capacity);
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
        let waits = !self.buffer.fresh().is_empty() && self.credit.should_report();
        waits.then(|| self.credit.limit())
    }

    /// Whether bytes wait for credit of the stream.
    pub(crate) fn waits_for_credit(&self) -> bool {
        let sends = matches!(self.state, SendState::Open | SendState::Finishing);
        sends && self.credit.left() == 0 && !self.buffer.fresh().is_empty()
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
                let fresh = self.buffer.fresh();
                Ready {
                    fresh: (fresh.end - fresh.start).min(self.credit.left()),
                    repeat: self.buffer.lost_bytes(),
                    bare_end: self.buffer.needs_bare_end(),
                    unsettled: !self.buffer.is_settled(),
                }
            }
            SendState::Resetting { .. } => Ready { unsettled: true, ..Ready::default() },
            SendState::Finished | SendState::ResetDone => Ready::default(),
        }
    }

    /// Writes a block of bytes to be sent again, or the bare end; `None` if it does not fit.
    pub(crate) fn write_repeat(&mut self, w: &mut Writer<'_>) -> Option<SentContent> {
        let fresh = self.buffer.fresh().start;
        self.write_block(self.buffer.lost().unwrap_or(fresh..fresh), w)
    }

    /// Writes a block of up to `most` new bytes; `None` if it does not fit.
    pub(crate) fn write_fresh(&mut self, most: u64, w: &mut Writer<'_>) -> Option<SentContent> {
        let fresh = self.buffer.fresh();
        let sent = self.write_block(fresh.start..fresh.end.min(fresh.start.saturating_add(most)), w)?;
        self.credit.spend(self.buffer.sent() - fresh.start);
        Some(sent)
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
