//! Blocks of the peer.

use manyway_wire::mmsp2::{
    Block, Blocked, BlockedBy, MaxData, MaxStreamData, MaxStreams, ResetStream, StopSending, StreamData,
};
use manyway_wire::{Side, StreamId};

use super::StreamSet;
use super::entry::ControlBlocks;
use crate::Violation;
use crate::mmsp2::stream::receive::Claim;
use crate::stream::event::StreamEvent;

impl StreamSet {
    /// Handles a block that belongs to streams; others change nothing.
    ///
    /// # Errors
    /// The violation of the peer.
    pub(crate) fn on_block(&mut self, block: &Block<'_>) -> Result<(), Violation> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "other blocks have other handlers")]
        match block {
            Block::Stream(block) => self.on_stream(block),
            Block::Message(block) => self.on_message(block),
            Block::Skip(block) => self.on_skip(block),
            Block::MaxData(block) => {
                self.on_max_data(block);
                Ok(())
            }
            Block::MaxStreamData(block) => self.on_max_stream_data(block),
            Block::MaxStreams(block) => {
                self.on_max_streams(block);
                Ok(())
            }
            Block::ResetStream(block) => self.on_reset_stream(block),
            Block::StopSending(block) => self.on_stop_sending(block),
            Block::Blocked(block) => self.on_blocked(block),
            _ => Ok(()),
        }
    }

    /// Handles bytes of a stream.
    ///
    /// # Errors
    /// The peer exceeds its credit or its number of streams, contradicts the final size, or leaves too many gaps.
    pub(crate) fn on_stream(&mut self, block: &StreamData<'_>) -> Result<(), Violation> {
        self.open_up_to(block.stream)?;
        let Some(stream) = self.streams.get_mut(&block.stream) else {
            self.tally.duplicate_bytes_received += block.data.len() as u64;
            return Ok(());
        };
        stream.receive.check_carries_bytes(!block.data.is_empty())?;
        let reach = block.offset.saturating_add(block.data.len() as u64);
        let claim = Claim { reach, is_end: block.end };
        let new = stream.receive.check(claim)?;
        if new > self.receive_credit.left() {
            return Err(over_connection_credit(&self.receive_credit, new));
        }
        let gaps = stream.gaps();
        let counted = stream.receive.on_data(block.offset, block.data, claim);
        let gaps = (gaps, stream.gaps());
        self.tally.duplicate_bytes_received += counted.duplicate;
        let known = is_known(self.side, self.theirs.accepted, block.stream);
        if known && stream.receive.take_readable() {
            self.events.push_back(StreamEvent::Readable(block.stream));
        }
        let over = stream.is_over();
        self.count_gaps(gaps.0, gaps.1);
        if self.has_too_many_gaps() {
            return Err(Violation::TooManyGaps { stream: Some(block.stream) });
        }
        self.count(counted);
        if over {
            self.after_change(block.stream);
        }
        Ok(())
    }

    /// Handles the reset of a stream that the peer abandons.
    ///
    /// # Errors
    /// As for [`Self::on_stream`]: the final size counts on the credit.
    pub(crate) fn on_reset_stream(&mut self, block: &ResetStream) -> Result<(), Violation> {
        self.open_up_to(block.stream)?;
        let Some(stream) = self.streams.get_mut(&block.stream) else { return Ok(()) };
        let claim = Claim { reach: block.final_size, is_end: true };
        let new = stream.receive.check(claim)?;
        if new > self.receive_credit.left() {
            return Err(over_connection_credit(&self.receive_credit, new));
        }
        let gaps = stream.gaps();
        let (counted, tell) = stream.receive.on_reset(block.code, claim);
        let gaps = (gaps, stream.gaps());
        if tell && is_known(self.side, self.theirs.accepted, block.stream) {
            self.events.push_back(StreamEvent::Reset(block.stream, block.code));
            if stream.receive.take_readable() {
                self.events.push_back(StreamEvent::Readable(block.stream));
            }
        }
        self.count_gaps(gaps.0, gaps.1);
        self.count(counted);
        self.after_change(block.stream);
        Ok(())
    }

    /// Handles the peer's request to stop a stream.
    ///
    /// # Errors
    /// There can be no such stream.
    pub(crate) fn on_stop_sending(&mut self, block: &StopSending) -> Result<(), Violation> {
        self.open_up_to(block.stream)?;
        let Some(stream) = self.streams.get_mut(&block.stream) else { return Ok(()) };
        if stream.send.on_stop(block.code) {
            stream.entry.control.insert(ControlBlocks::RESET_STREAM);
            if is_known(self.side, self.theirs.accepted, block.stream) {
                self.events.push_back(StreamEvent::Stopped(block.stream, block.code));
            }
            self.after_change(block.stream);
        }
        Ok(())
    }

    /// Takes connection credit.
    pub(crate) fn on_max_data(&mut self, block: &MaxData) {
        self.send_credit.raise(block.credit);
    }

    /// Takes credit of a stream.
    ///
    /// # Errors
    /// There can be no such stream.
    pub(crate) fn on_max_stream_data(&mut self, block: &MaxStreamData) -> Result<(), Violation> {
        self.open_up_to(block.stream)?;
        if let Some(stream) = self.streams.get_mut(&block.stream) {
            stream.send.raise_credit(block.credit);
            self.queue.update(stream);
        }
        Ok(())
    }

    /// Takes the number of streams that this end may open.
    pub(crate) fn on_max_streams(&mut self, block: &MaxStreams) {
        self.raise_stream_limit(block.count);
    }

    /// A limit blocks the peer: all due credit goes out at once.
    ///
    /// # Errors
    /// There can be no such stream.
    pub(crate) fn on_blocked(&mut self, block: &Blocked) -> Result<(), Violation> {
        match block.by {
            BlockedBy::Connection { .. } => self.pending.max_data |= self.receive_credit.due() > 0,
            BlockedBy::Streams { .. } => {
                self.pending.max_streams |=
                    self.theirs.retired + self.config.peer_streams > self.theirs.advertised;
            }
            BlockedBy::Stream { stream, .. } => {
                self.open_up_to(stream)?;
                if let Some(stream) = self.streams.get_mut(&stream) {
                    if stream.receive.open_credit().is_some_and(|credit| credit.due() > 0) {
                        stream.entry.control.insert(ControlBlocks::MAX_STREAM_DATA);
                    }
                    self.queue.update(stream);
                }
            }
        }
        Ok(())
    }

    /// Opens a stream of the peer at its first block, and with it all lower-numbered ones (RFC 9000, section 3.2).
    pub(super) fn open_up_to(&mut self, stream: StreamId) -> Result<(), Violation> {
        if stream.initiator() == self.side {
            let exists = stream.index() < self.ours.opened;
            return if exists { Ok(()) } else { Err(Violation::StreamState { stream }) };
        }
        if stream.index() < self.theirs.opened {
            return Ok(());
        }
        if stream.index() >= self.theirs.advertised {
            return Err(Violation::StreamLimit { stream, allowed: self.theirs.advertised });
        }
        // The application accepts all streams at once, so one event suffices until then.
        if self.theirs.accepted == self.theirs.opened {
            self.events.push_back(StreamEvent::Opened);
        }
        while self.theirs.opened <= stream.index() {
            self.add_stream(StreamId::new(self.theirs_side(), self.theirs.opened));
            self.theirs.opened += 1;
        }
        Ok(())
    }

    pub(super) fn theirs_side(&self) -> Side {
        self.side.other()
    }
}

/// Whether the application knows the stream: it opened or accepted it.
pub(super) fn is_known(side: Side, accepted: u64, stream: StreamId) -> bool {
    stream.initiator() == side || stream.index() < accepted
}

pub(super) fn over_connection_credit(
    credit: &crate::stream::receive_credit::ReceiveCredit,
    new: u64,
) -> Violation {
    let offset = credit.received().saturating_add(new);
    Violation::FlowControl { stream: None, credit: credit.limit(), offset }
}
