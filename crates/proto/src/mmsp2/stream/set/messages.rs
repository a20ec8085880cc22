//! Messages among the streams: calls of the application, received blocks, and the fate of sent messages.

use std::collections::VecDeque;

use bytes::Bytes;
use manyway_wire::StreamId;
use manyway_wire::mmsp2::{MessageData, MessageId, Skip};

use super::input::{is_known, over_connection_credit};
use super::send_queue::NextItem;
use super::{Gaps, MessageTerms, Stream, StreamSet};
use crate::message::{
    Carries, MessageOptions, MessageOutcome, MessageStatistics, MessageToken, OVERHEAD, SendError,
};
use crate::mmsp2::message::cost;
use crate::mmsp2::stream::receive::Counted;
use crate::mmsp2::stream::send::NewMessage;
use crate::packet::content::SentContent;
use crate::scheduler::NextUp;
use crate::stream::event::StreamEvent;
use crate::stream::priority::{ClassFilter, Rank, Urgency};
use crate::{ByteCount, Instant, Misuse, Violation};

impl StreamSet {
    /// Takes the maximum message size from the peer's parameters, 0 for none. Called after [`Self::set_peer_limits`]
    /// with the same parameters.
    pub(crate) fn set_peer_message_limit(&mut self, most: u64) {
        let own = self.config.message_limit();
        let windows = self.peer_max_stream_data.min(self.send_credit.left_for(Urgency::default()));
        let most = most.min(windows.saturating_sub(OVERHEAD)).min(u64::from(u32::MAX));
        self.messages.most_sent = (own > 0 && most > 0).then_some(most);
    }

    /// The size of the largest message that may be sent, in bytes; `None` if none may.
    pub(crate) fn most_message(&self) -> Option<u64> {
        self.messages.most_sent
    }

    /// Takes a whole message.
    ///
    /// # Errors
    /// It is too large, the stream's buffer is full, the peer stopped the stream, or the stream carries bytes.
    pub(crate) fn send_message(
        &mut self,
        now: Instant,
        id: StreamId,
        data: Bytes,
        options: MessageOptions,
    ) -> Result<MessageToken, SendError> {
        let (most, buffer) = (self.messages.most_sent, self.config.message_buffer);
        self.grant_memory(id);
        let stream = self.stream_mut(id)?;
        let most = most.ok_or(SendError::NotAgreed)?;
        let size = data.len() as u64;
        if size > most {
            return Err(SendError::TooLarge { size, most });
        }
        let urgency = stream.urgency;
        stream.send.hold_messages(buffer);
        let token = stream.send.send_message(now, NewMessage { data, options }, urgency);
        self.after_change(id);
        token
    }

    /// Takes the next message to deliver. This gives the peer new credit.
    ///
    /// # Errors
    /// The end or the reset was delivered before, the half was stopped, it carries bytes, or there is no such stream.
    pub(crate) fn receive_message(&mut self, id: StreamId) -> Result<MessageOutcome, Misuse> {
        let epoch = self.epochs.now();
        let outcome = self.stream_mut(id)?.receive.receive_message()?;
        match &outcome {
            MessageOutcome::Message(message) => {
                let cost = cost(u32::try_from(message.data.len()).unwrap_or(u32::MAX));
                self.consume(id, cost, epoch);
            }
            MessageOutcome::Blocked => return Ok(outcome),
            MessageOutcome::End | MessageOutcome::Reset(_) => {}
        }
        self.after_change(id);
        Ok(outcome)
    }

    /// The size of the next message of a stream, if one waits.
    pub(crate) fn next_message(&self, id: StreamId) -> Option<usize> {
        self.streams.get(&id)?.receive.next_message()
    }

    /// The kind of data that the peer sends on a stream.
    ///
    /// # Errors
    /// There is no such stream.
    pub(crate) fn carries(&mut self, id: StreamId) -> Result<Carries, Misuse> {
        Ok(self.stream_mut(id)?.receive.carries())
    }

    /// Handles a piece of a message.
    ///
    /// # Errors
    /// The peer exceeds its credit or its number of streams, contradicts itself, or leaves too much incomplete.
    pub(crate) fn on_message(&mut self, block: &MessageData<'_>) -> Result<(), Violation> {
        self.check_agreed(MessageData::KIND)?;
        self.open_up_to(block.stream)?;
        let most = self.config.message_limit();
        let Some(stream) = self.streams.get_mut(&block.stream) else { return Ok(()) };
        let Some(credit_cost) = stream.receive.check_message(block, most)? else { return Ok(()) };
        let gaps = stream.gaps();
        let new = stream.receive.uncounted(credit_cost);
        if new > self.receive_credit.left() {
            return Err(over_connection_credit(&self.receive_credit, new));
        }
        let (counted, is_whole) = stream.receive.on_message(block, credit_cost);
        self.messages.statistics.received += u64::from(is_whole);
        self.after_messages(block.stream, gaps, counted)
    }

    /// Handles the report that messages will not be completed.
    ///
    /// # Errors
    /// As for [`Self::on_message`].
    pub(crate) fn on_skip(&mut self, block: &Skip<'_>) -> Result<(), Violation> {
        self.check_agreed(Skip::KIND)?;
        self.open_up_to(block.stream)?;
        for skipped in block.messages {
            let id = MessageId { number: skipped.number, unordered: block.unordered };
            let Some(stream) = self.streams.get_mut(&block.stream) else { return Ok(()) };
            let Some(credit_cost) = stream.receive.check_skip(id, skipped.reach)? else { return Ok(()) };
            let new = stream.receive.uncounted(credit_cost);
            if new > self.receive_credit.left() {
                return Err(over_connection_credit(&self.receive_credit, new));
            }
            let gaps = stream.gaps();
            let counted = stream.receive.on_skip(id, credit_cost);
            stream.note_window();
            self.after_messages(block.stream, gaps, counted)?;
        }
        Ok(())
    }

    fn check_agreed(&self, kind: u8) -> Result<(), Violation> {
        // spec 2.12
        if self.messages.most_sent.is_some() { Ok(()) } else { Err(Violation::UnexpectedBlock { kind }) }
    }

    fn after_messages(&mut self, id: StreamId, gaps: Gaps, counted: Counted) -> Result<(), Violation> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let after = stream.gaps();
        let known = is_known(self.side, self.theirs.accepted, id);
        if known && stream.receive.take_readable() {
            self.events.push_back(StreamEvent::Readable(id));
        }
        self.count_gaps(gaps, after);
        if self.has_too_many_gaps() {
            return Err(Violation::TooManyGaps { stream: Some(id) });
        }
        self.count(counted);
        self.after_change(id);
        Ok(())
    }

    /// A piece of a message, or a skip, arrived.
    pub(super) fn on_message_delivered(&mut self, id: StreamId, message: MessageId, content: &SentContent) {
        let now = self.messages.now;
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let before = stream.send.messages_held();
        let progress = match content.units() {
            Some(units) => stream.send.on_message_delivered(now, message, units),
            None => stream.send.on_skip_delivered(message),
        };
        self.tally.arrived_in_order += before - stream.send.messages_held();
        self.after_change(id);
        self.tell_progress(id, progress);
    }

    /// A piece of a message, or a skip, was lost.
    pub(super) fn on_message_lost(&mut self, id: StreamId, message: MessageId, content: &SentContent) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        match content.units() {
            Some(units) => stream.send.on_message_lost(message, units),
            None => stream.send.on_skip_lost(message),
        }
        self.after_change(id);
    }

    /// Sets the time.
    pub(crate) fn on_time(&mut self, now: Instant) {
        self.messages.now = now;
    }

    /// Gives up the messages that expire before `arrival`, the earliest time at which data sent now can arrive.
    pub(crate) fn expire_messages(&mut self, arrival: Instant) {
        while let Some((at, id)) = self.queue.expiries.first().copied().filter(|(at, _)| *at <= arrival) {
            let Some(stream) = self.streams.get_mut(&id) else {
                self.queue.expiries.remove(&(at, id));
                continue;
            };
            let progress = stream.send.expire_messages(arrival);
            self.after_change(id);
            self.tell_progress(id, progress);
        }
    }

    /// When the next message that is unsent, or retransmitted, expires.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.queue.expiries.first().map(|(at, _)| *at)
    }

    /// Statistics of all messages so far.
    pub(crate) fn message_statistics(&self) -> MessageStatistics {
        self.messages.statistics
    }

    /// Number of bytes that the first of the urgent streams could send now.
    pub(crate) fn urgent_backlog(&self) -> Option<u64> {
        let (NextItem::Retransmission(id) | NextItem::New(id)) = self.next_turn(ClassFilter::Urgent)?;
        let ready = self.streams.get(&id)?.entry.counted;
        Some(ready.unsent() + ready.retransmissions + ready.partially_sent)
    }
}

impl StreamSet {
    /// The next new bytes that `filter` takes, for schedulers.
    pub(crate) fn next_up(&self, filter: ClassFilter) -> Option<NextUp> {
        let (_, id) = self.queue.new.first(filter)?;
        let stream = self.streams.get(&id)?;
        let Rank { urgency, deadline } = stream.send.ranks(stream.urgency).new;
        let left = ByteCount(stream.send.next_left());
        Some(NextUp { stream: id, class: urgency.class, left, deadline })
    }
}

impl Default for MessageTerms {
    fn default() -> Self {
        let (most_sent, statistics) = (None, MessageStatistics::default());
        Self { most_sent, statistics, now: Instant::from_nanos(0) }
    }
}

impl MessageTerms {
    /// Counts the message events of a stream, and reports messages that were given up.
    pub(super) fn note(&mut self, stream: &mut Stream, events: &mut VecDeque<StreamEvent>) {
        let Some(news) = stream.send.take_message_statistics() else { return };
        let sum = &mut self.statistics;
        sum.sent += news.sent;
        sum.delivered += news.delivered;
        sum.late += news.late;
        sum.abandoned += news.abandoned;
        sum.dropped += news.dropped;
        while let Some(token) = stream.send.take_abandoned() {
            events.push_back(StreamEvent::Abandoned(stream.id, token));
        }
    }
}
