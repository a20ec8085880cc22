//! The receiving half of a stream.

use manyway_wire::StreamId;

use super::byte_reassembly::ByteReassembly;
use super::state::{ReceiveEvent, ReceiveState};
use crate::mmsp2::message::inbox::Inbox;
use crate::stream::event::ReadOutcome;
use crate::stream::receive_credit::{Epoch, ReceiveCredit};
use crate::{Misuse, StreamConfig, Violation};

#[path = "receive_messages.rs"]
mod receive_messages;

/// The receiving half of one stream.
#[derive(Debug)]
pub(crate) struct ReceiveHalf {
    stream: StreamId,
    state: ReceiveState,
    bytes: ByteReassembly,
    /// Exists once the peer has sent a message; then there are no bytes.
    messages: Option<Box<Inbox>>,
    credit: ReceiveCredit,
    /// Known once the end or a reset arrived; it outlives the states, because late blocks are checked against it.
    final_size: Option<u64>,
    /// Whether the application is due a `Readable` event: its last read found nothing, or it has not read yet.
    reader_waits: bool,
}

/// Bytes that change the connection's credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counted {
    /// Bytes whose offset was reached for the first time.
    pub(crate) received: u64,
    /// Bytes, of these and earlier ones, that the application will not read.
    pub(crate) discarded: u64,
    /// Duplicate bytes, and bytes that the application no longer wants.
    pub(crate) duplicate: u64,
}

/// The extent of the peer's bytes, as claimed by a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    /// The highest offset that the block reaches.
    pub(crate) reach: u64,
    /// Whether the stream ends there.
    pub(crate) is_end: bool,
}

impl ReceiveHalf {
    pub(crate) fn new(stream: StreamId, config: &StreamConfig) -> Self {
        Self {
            stream,
            state: ReceiveState::Receiving,
            bytes: ByteReassembly::default(),
            messages: None,
            credit: ReceiveCredit::new(config.stream_receive_window, config.max_window / 4 * 3),
            final_size: None,
            reader_waits: true,
        }
    }

    /// Checks a block against the final size and the stream's credit, and returns how many bytes it reaches for the
    /// first time. Changes nothing.
    pub(crate) fn check(&self, claim: Claim) -> Result<u64, Violation> {
        let highest = self.credit.received();
        let wrong = match self.final_size {
            Some(known) if claim.reach > known || (claim.is_end && claim.reach != known) => Some(known),
            None if claim.is_end && claim.reach < highest => Some(highest),
            Some(_) | None => None,
        };
        if let Some(known) = wrong {
            return Err(Violation::FinalSize { stream: self.stream, known, claimed: claim.reach });
        }
        let new = claim.reach.saturating_sub(highest);
        if new > self.credit.left() {
            let credit = self.credit.limit();
            return Err(Violation::FlowControl { stream: Some(self.stream), credit, offset: claim.reach });
        }
        Ok(new)
    }

    /// Takes a block that passed [`Self::check`].
    pub(crate) fn on_data(&mut self, offset: u64, data: &[u8], claim: Claim) -> Counted {
        let received = self.count(claim);
        match self.state {
            ReceiveState::Receiving | ReceiveState::Ending => {}
            ReceiveState::Stopped { .. } => {
                if claim.is_end {
                    self.step(ReceiveEvent::SizeKnown);
                }
                let duplicate = data.len() as u64;
                return Counted { duplicate, ..self.discard(received) };
            }
            ReceiveState::Complete
            | ReceiveState::Read
            | ReceiveState::Reset { .. }
            | ReceiveState::ResetTold
            | ReceiveState::Discarded => {
                return Counted { received, discarded: 0, duplicate: data.len() as u64 };
            }
        }
        let duplicate = data.len() as u64 - self.bytes.insert(offset, data);
        self.note_arrival();
        Counted { received, discarded: 0, duplicate }
    }

    /// Bytes that wait ahead of a gap.
    pub(crate) fn ahead(&self) -> u64 {
        self.bytes.ahead()
    }

    /// Bytes that arrived, each counted once; of messages, the bytes up to the furthest piece of each. `None` once
    /// everything has arrived, or nothing more is wanted.
    pub(crate) fn payload(&self) -> Option<u64> {
        let arrived = match self.messages {
            Some(_) => self.credit.received(),
            None => self.bytes.arrived() + self.bytes.ahead(),
        };
        self.state.expects_more().then_some(arrived)
    }

    /// Advances the state if the end is known, or all bytes before it have arrived.
    fn note_arrival(&mut self) {
        let arrived = self.messages.as_deref().map_or_else(|| self.bytes.arrived(), Inbox::finished);
        if self.final_size == Some(arrived) {
            self.step(ReceiveEvent::AllArrived);
        } else if self.final_size.is_some() && self.state == ReceiveState::Receiving {
            self.step(ReceiveEvent::SizeKnown);
        }
    }

    /// Cost of the bytes ahead of gaps beyond their number, in bytes of memory.
    pub(crate) fn overhead(&self) -> u64 {
        self.messages.as_deref().map_or_else(|| self.bytes.overhead(), Inbox::overhead)
    }

    /// Drops all received bytes.
    fn clear(&mut self) {
        self.bytes.clear();
        self.messages = None;
    }

    /// Takes a reset that passed [`Self::check`]. Returns true if the application has to be notified.
    pub(crate) fn on_reset(&mut self, code: u64, claim: Claim) -> (Counted, bool) {
        let received = self.count(claim);
        let was_read = self.state.accepts_reads();
        // A reset of a completely received stream changes nothing (RFC 9000, section 3.2).
        if !self.step(ReceiveEvent::Reset { code }) {
            return (Counted { received, ..Counted::default() }, false);
        }
        self.clear();
        (self.discard(received), was_read)
    }

    fn count(&mut self, claim: Claim) -> u64 {
        let new = claim.reach.saturating_sub(self.credit.received());
        self.credit.receive(new);
        if claim.is_end {
            self.final_size = Some(claim.reach);
        }
        new
    }

    /// Counts everything received as read.
    fn discard(&mut self, received: u64) -> Counted {
        let discarded = self.credit.received() - self.credit.consumed();
        self.credit.discard(discarded);
        Counted { received, discarded, duplicate: 0 }
    }

    /// Reads up to `max` bytes in order.
    pub(crate) fn read(&mut self, max: usize) -> Result<ReadOutcome, Misuse> {
        if let ReceiveState::Reset { code } = self.state {
            self.step(ReceiveEvent::Told);
            return Ok(ReadOutcome::Reset(code));
        }
        if !self.state.accepts_reads() {
            return Err(Misuse::ReceivingEnded { stream: self.stream });
        }
        if self.messages.is_some() {
            return Err(Misuse::CarriesMessages { stream: self.stream });
        }
        if let Some(bytes) = self.bytes.read(max) {
            return Ok(ReadOutcome::Data(bytes));
        }
        if self.state == ReceiveState::Complete && !self.bytes.has_ready() {
            self.step(ReceiveEvent::ReadToEnd);
            self.clear();
            return Ok(ReadOutcome::End);
        }
        self.reader_waits = true;
        Ok(ReadOutcome::Blocked)
    }

    /// The application read `bytes`: returns true if the window grew.
    pub(crate) fn consume(&mut self, bytes: u64, epoch: Option<Epoch>) -> bool {
        self.credit.consume(bytes, epoch)
    }

    /// The application wants no more data.
    pub(crate) fn stop(&mut self, code: u64) -> Result<Counted, Misuse> {
        if !self.step(ReceiveEvent::Stop { code }) {
            return Err(Misuse::ReceivingEnded { stream: self.stream });
        }
        self.clear();
        Ok(self.discard(0))
    }

    /// The code of STOP-SENDING, while the peer may still send.
    pub(crate) fn stopping(&self) -> Option<u64> {
        match self.state {
            ReceiveState::Stopped { code } => Some(code),
            ReceiveState::Receiving
            | ReceiveState::Ending
            | ReceiveState::Complete
            | ReceiveState::Read
            | ReceiveState::Reset { .. }
            | ReceiveState::ResetTold
            | ReceiveState::Discarded => None,
        }
    }

    /// The peer's reset code, until the application has read it.
    pub(crate) fn reset_code(&self) -> Option<u64> {
        match self.state {
            ReceiveState::Reset { code } => Some(code),
            ReceiveState::Receiving
            | ReceiveState::Ending
            | ReceiveState::Complete
            | ReceiveState::Read
            | ReceiveState::Stopped { .. }
            | ReceiveState::ResetTold
            | ReceiveState::Discarded => None,
        }
    }

    /// The credit of the stream, if the peer can still use more.
    pub(crate) fn open_credit(&mut self) -> Option<&mut ReceiveCredit> {
        (self.state == ReceiveState::Receiving).then_some(&mut self.credit)
    }

    pub(crate) fn window(&self) -> u64 {
        self.credit.window()
    }

    /// Whether a read would find something and the application waits for it. The call counts as the notification.
    pub(crate) fn take_readable(&mut self) -> bool {
        let something = match self.state {
            ReceiveState::Receiving | ReceiveState::Ending => {
                self.bytes.has_ready() || self.messages.as_deref().is_some_and(Inbox::has_ready)
            }
            ReceiveState::Complete | ReceiveState::Reset { .. } => true,
            ReceiveState::Read
            | ReceiveState::ResetTold
            | ReceiveState::Stopped { .. }
            | ReceiveState::Discarded => false,
        };
        let tell = something && self.reader_waits;
        if tell {
            self.reader_waits = false;
        }
        tell
    }

    fn step(&mut self, event: ReceiveEvent) -> bool {
        let next = self.state.after(event);
        self.state = next.unwrap_or(self.state);
        next.is_some()
    }

    /// Whether a part of the stream arrived, but not all.
    pub(crate) fn expects_more(&self) -> bool {
        self.credit.received() > 0 && self.state.expects_more()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state.is_over()
    }
}
