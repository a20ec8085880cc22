//! Calls of the application.

use bytes::Bytes;
use manyway_wire::StreamId;

use super::{Stream, Streams};
use crate::message::MessageStatistics;
use crate::mmsp1::outbox::Waiting;
use crate::mmsp1::window::Freed;
use crate::stream::priority::Urgency;
use crate::{
    Carries, Class, Instant, MessageOptions, MessageOutcome, MessageToken, Misuse, ReadOutcome, SendError,
    StreamEvent, WriteError,
};

/// Payload protocols that mean something to MMSP/1 itself (spec 3.37).
const RESERVED: std::ops::RangeInclusive<u32> = 0x4d57_0000..=0x4d57_ffff;

impl Streams {
    /// Opens a stream; the peer sees it with its first message.
    ///
    /// # Errors
    /// `NoStreamCredit` if all numbers are in use; [`StreamEvent::Available`] follows when one is free.
    pub(crate) fn open(&mut self) -> Result<StreamId, Misuse> {
        let number = self.unused_number().or_else(|| self.ours.free.pop_front());
        let Some(number) = number else {
            self.ours.was_refused = true;
            return Err(Misuse::NoStreamCredit { allowed: self.ours.opened });
        };
        self.ours.opened += 1;
        Ok(self.add_stream(number, true))
    }

    /// The next of this end's numbers that neither end has used.
    fn unused_number(&mut self) -> Option<u16> {
        loop {
            let number =
                u16::try_from(self.ours.unused).ok().filter(|number| *number < self.numbers.outgoing)?;
            self.ours.unused += 2;
            if !self.slots.contains_key(&number) {
                return Some(number);
            }
        }
    }

    /// Takes the next stream that the peer opened. Its earlier events are delivered now.
    pub(crate) fn accept(&mut self) -> Option<StreamId> {
        let id = self.unaccepted.pop_front()?;
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.is_known = true;
            stream.note_readable(&mut self.events);
        }
        Some(id)
    }

    fn stream_mut(&mut self, id: StreamId) -> Result<&mut Stream, Misuse> {
        let stream = self.streams.get_mut(&id).map(Box::as_mut);
        stream.filter(|stream| stream.is_known).ok_or(Misuse::UnknownStream { stream: id })
    }

    /// Takes as many of the bytes as there is space for, and returns how many; if not all, [`StreamEvent::Writable`]
    /// follows.
    ///
    /// # Errors
    /// The sending half has ended or carries messages, or there is no such stream.
    pub(crate) fn write(&mut self, id: StreamId, data: Bytes) -> Result<usize, WriteError> {
        let room = self.room(id);
        let stream = self.stream_mut(id)?;
        stream.check_open()?;
        if stream.out.carries() == Carries::Messages {
            return Err(Misuse::CarriesMessages { stream: id }.into());
        }
        let size = data.len();
        let accepted = stream.out.write(data, room);
        self.after_change(id);
        if accepted < size {
            self.waiting_writers.insert(id);
        }
        Ok(accepted)
    }

    /// Marks the end of the data; [`StreamEvent::Finished`] follows when all has arrived.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub(crate) fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
        let stream = self.stream_mut(id)?;
        stream.check_open()?;
        stream.out.finish();
        self.waiting_writers.remove(&id);
        self.after_change(id);
        Ok(())
    }

    /// Abandons the sending half: what has no TSEQ yet is dropped.
    ///
    /// # Errors
    /// The sending half was reset before, or there is no such stream.
    pub(crate) fn reset(&mut self, id: StreamId, code: u64) -> Result<(), Misuse> {
        let stream = self.stream_mut(id)?;
        if stream.is_reset {
            return Err(Misuse::SendingEnded { stream: id });
        }
        stream.is_reset = !stream.out.has_given_end();
        stream.out.reset(code);
        self.waiting_writers.remove(&id);
        self.after_change(id);
        Ok(())
    }

    /// Stops the receiving half: received and future data is dropped. The peer is not told, because MMSP/1 has no block
    /// for it.
    ///
    /// # Errors
    /// The receiving half was read to its end or stopped before, or there is no such stream.
    pub(crate) fn stop(&mut self, id: StreamId, _code: u64) -> Result<(), Misuse> {
        let freed = self.stream_mut(id)?.incoming.stop(id)?;
        self.arrivals.discard(freed);
        self.after_change(id);
        Ok(())
    }

    /// Sets the priority of a stream: a higher number goes first, 0 is the default. For messages it applies to future
    /// ones.
    ///
    /// # Errors
    /// There is no such stream.
    pub(crate) fn set_priority(&mut self, id: StreamId, priority: i8) -> Result<(), Misuse> {
        let urgency = self.stream_mut(id)?.urgency;
        self.set_urgency(id, Urgency { priority, ..urgency })
    }

    /// Sets the class of a stream: among equal priorities the more urgent class goes first, bulk is the default. For
    /// messages it applies to future ones.
    ///
    /// # Errors
    /// There is no such stream.
    pub(crate) fn set_class(&mut self, id: StreamId, class: Class) -> Result<(), Misuse> {
        let urgency = self.stream_mut(id)?.urgency;
        self.set_urgency(id, Urgency { class, ..urgency })
    }

    fn set_urgency(&mut self, id: StreamId, urgency: Urgency) -> Result<(), Misuse> {
        self.stream_mut(id)?.urgency = urgency;
        self.after_change(id);
        Ok(())
    }

    /// Takes a whole message.
    ///
    /// # Errors
    /// It is empty or too large or has a reserved payload protocol, the stream's buffer is full, or the stream carries
    /// bytes.
    pub(crate) fn send_message(
        &mut self,
        now: Instant,
        id: StreamId,
        data: Bytes,
        options: MessageOptions,
    ) -> Result<MessageToken, SendError> {
        let (most, room) = (self.most_message, self.room(id));
        let stream = self.stream_mut(id)?;
        stream.check_open()?;
        if stream.out.carries() == Carries::Bytes {
            return Err(Misuse::CarriesBytes { stream: id }.into());
        }
        if data.is_empty() {
            return Err(Misuse::EmptyMessage { stream: id }.into());
        }
        if RESERVED.contains(&options.protocol) {
            return Err(Misuse::ReservedProtocol { protocol: options.protocol }.into());
        }
        let size = data.len() as u64;
        if size > most {
            return Err(SendError::TooLarge { size, most });
        }
        if room == 0 {
            self.waiting_writers.insert(id);
            return Err(SendError::Full);
        }
        let urgency = Urgency {
            priority: options.priority.unwrap_or(stream.urgency.priority),
            class: options.class.unwrap_or(stream.urgency.class),
        };
        let deadline = options.lifetime.map(|lifetime| now + lifetime);
        let (protocol, order) = (options.protocol, options.order);
        let token = stream.out.push(Waiting { data, protocol, order, urgency, deadline });
        self.after_change(id);
        Ok(token)
    }

    /// Reads the next bytes in order, at most `max`, without a copy. Reading gives the peer new credit.
    ///
    /// # Errors
    /// The end or the reset was read before, the half was stopped or carries messages, or there is no such stream.
    pub(crate) fn read(&mut self, id: StreamId, max: usize) -> Result<ReadOutcome, Misuse> {
        let (outcome, freed) = self.stream_mut(id)?.incoming.read(id, max)?;
        self.consume(id, freed);
        Ok(outcome)
    }

    /// Takes the next message to deliver. This gives the peer new credit.
    ///
    /// # Errors
    /// As for [`Self::read`], of a half that carries bytes.
    pub(crate) fn receive_message(&mut self, id: StreamId) -> Result<MessageOutcome, Misuse> {
        let (outcome, freed) = self.stream_mut(id)?.incoming.receive(id)?;
        self.consume(id, freed);
        Ok(outcome)
    }

    fn consume(&mut self, id: StreamId, freed: Freed) {
        let epoch = self.epoch();
        self.arrivals.ready -= freed.memory;
        self.arrivals.window.consume(freed, epoch);
        self.note_end(id);
    }

    /// The size of the next message of a stream, if one waits.
    pub(crate) fn next_message(&self, id: StreamId) -> Option<usize> {
        self.streams.get(&id)?.incoming.next_message()
    }

    /// The kind of data that the peer sends on a stream.
    ///
    /// # Errors
    /// There is no such stream.
    pub(crate) fn carries(&mut self, id: StreamId) -> Result<Carries, Misuse> {
        Ok(self.stream_mut(id)?.incoming.carries())
    }

    /// The size of the largest message that may be sent, in bytes; `None` before the peer has told.
    pub(crate) fn most_message(&self) -> Option<u64> {
        (self.most_message > 0).then_some(self.most_message)
    }

    /// Statistics of all messages so far.
    pub(crate) fn message_statistics(&self) -> MessageStatistics {
        self.statistics
    }

    /// Gives up the messages that expire before `arrival` and were not cut.
    pub(crate) fn expire_messages(&mut self, arrival: Instant) {
        while let Some((at, id)) = self.expiries.first().copied().filter(|(at, _)| *at <= arrival) {
            let Some(stream) = self.streams.get_mut(&id) else {
                self.expiries.remove(&(at, id));
                continue;
            };
            for token in stream.out.expire(arrival) {
                self.statistics.abandoned += 1;
                self.statistics.dropped += 1;
                self.events.push_back(StreamEvent::Abandoned(id, token));
            }
            self.after_change(id);
        }
    }

    /// When the next of the messages that were not cut expires.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.expiries.first().map(|(at, _)| *at)
    }

    /// The next event for the application.
    pub(crate) fn poll_event(&mut self) -> Option<StreamEvent> {
        if std::mem::take(&mut self.memory_freed) {
            let waiting = std::mem::take(&mut self.waiting_writers);
            let (free, full) = waiting.into_iter().partition(|id| self.room(*id) > 0);
            self.waiting_writers = full;
            let free: std::collections::BTreeSet<StreamId> = free;
            self.events.extend(free.into_iter().map(StreamEvent::Writable));
        }
        self.events.pop_front()
    }

    /// Bytes that a stream may take from the application: its buffer, twice what is in flight, within the memory for
    /// all; and a guaranteed minimum.
    fn room(&self, id: StreamId) -> usize {
        let Some(stream) = self.streams.get(&id) else { return 0 };
        let held = stream.out.held();
        let buffer = self.config.send_buffer.max(stream.out.outstanding().saturating_mul(2));
        let own = buffer.min(self.config.max_send_buffer).saturating_sub(held);
        let shared = self.config.send_memory.saturating_sub(self.totals.held);
        let least = self.config.least_send_buffer().saturating_sub(held);
        usize::try_from(own.min(shared.max(least))).unwrap_or(usize::MAX)
    }
}

impl Stream {
    fn check_open(&self) -> Result<(), Misuse> {
        if self.out.is_open() { Ok(()) } else { Err(Misuse::SendingEnded { stream: self.id }) }
    }
}
