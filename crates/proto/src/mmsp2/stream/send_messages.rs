//! The sending half of a stream that carries messages.

use std::ops::Range;

use bytes::Bytes;
use manyway_wire::Writer;
use manyway_wire::frame::encode_padding;
use manyway_wire::mmsp2::{MessageId, encode_stream_header, stream_overhead};

use super::{NewData, Progress, Ready, SendHalf};
use crate::message::{Carries, MessageOptions, MessageStatistics, MessageToken, SendError};
use crate::mmsp2::message::cost;
use crate::mmsp2::message::outbox::Outbox;
use crate::mmsp2::stream::state::SendState;
use crate::packet::content::{Contents, SentContent};
use crate::stream::priority::Urgency;
use crate::{Instant, Misuse};

/// A message with its attributes, from the application.
#[derive(Debug)]
pub(crate) struct NewMessage {
    pub(crate) data: Bytes,
    pub(crate) options: MessageOptions,
}

impl SendHalf {
    /// Takes a message of a size that the peer accepts.
    pub(crate) fn send_message(
        &mut self,
        now: Instant,
        message: NewMessage,
        urgency: Urgency,
    ) -> Result<MessageToken, SendError> {
        self.check_open()?;
        if self.carries() == Carries::Bytes {
            return Err(Misuse::CarriesBytes { stream: self.stream }.into());
        }
        let needed = cost(u32::try_from(message.data.len()).unwrap_or(u32::MAX));
        let holds_some = self.messages.as_deref().is_some_and(|messages| messages.held() > 0);
        // An empty stream accepts any message, because one may be larger than the buffer.
        if holds_some && self.room() < needed {
            self.writer_waits = Some(needed);
            return Err(SendError::Full);
        }
        let messages = self.messages.get_or_insert_with(|| Box::new(Outbox::new(self.stream)));
        Ok(messages.push(now, message.data, message.options, urgency))
    }

    /// Lets a stream of messages hold at least this much: what finds no room there may be lost.
    pub(crate) fn hold_messages(&mut self, buffer: u64) {
        if self.carries() != Carries::Bytes {
            self.capacity = self.capacity.max(buffer.min(self.max_capacity));
        }
    }

    /// The kind of data that the application wrote.
    pub(crate) fn carries(&self) -> Carries {
        match &self.messages {
            Some(_) => Carries::Messages,
            None if self.buffer.sent() > 0 || self.buffer.held() > 0 => Carries::Bytes,
            None => Carries::Nothing,
        }
    }

    pub(super) fn messages_ready(&self, messages: &Outbox) -> Ready {
        let fits = self.need().is_some_and(|need| need <= self.credit.left());
        let held = messages.held();
        Ready {
            new: if fits { messages.waiting().min(self.credit.left()) } else { 0 },
            deferred: 0,
            retransmissions: messages.retransmissions(),
            partially_sent: messages.unsent(),
            fin_only: self.buffer.needs_fin_only() && messages.is_sent(),
            held,
            unsettled: !self.buffer.is_settled() || !messages.is_settled(),
            outstanding: held.saturating_sub(messages.waiting()),
            credit: self.credit_while(held),
        }
    }

    /// Starts the next message behind `skip` bytes of others, if there is credit for all of it.
    pub(super) fn write_message(&mut self, skip: u64, credit: u64, w: &mut Writer<'_>) -> NewData {
        let credit = credit.min(self.credit.left());
        let Some(messages) = self.messages.as_deref_mut().filter(|it| !it.has_too_many_cut()) else {
            return NewData::Nothing;
        };
        match messages.cost_after(skip) {
            Some(cost) if cost <= credit => {
                let written = messages.write_next(skip, w);
                written.map_or(NewData::Full, |(content, spent)| NewData::Block(content, spent))
            }
            Some(_) | None => NewData::Nothing,
        }
    }

    /// Whether what is next may be left out for now: bytes, and messages without an order.
    pub(crate) fn can_be_left_out(&self) -> bool {
        self.messages.as_ref().is_none_or(|messages| messages.can_be_left_out())
    }

    /// Writes a piece of a partially sent message, or else the FIN behind all of them (spec 8.33).
    pub(super) fn write_partially_sent(&mut self, w: &mut Writer<'_>) -> Option<SentContent> {
        let messages = self.messages.as_deref_mut()?;
        if messages.retransmissions() > 0 || messages.unsent() > 0 {
            return messages.write_partially_sent(w);
        }
        let (stream, offset) = (self.stream, self.credit.used());
        let overhead = stream_overhead(stream, offset);
        if w.remaining() < overhead {
            return None;
        }
        encode_stream_header(w, stream, offset, 0, true);
        self.buffer.on_sent(0..0);
        encode_padding(w, overhead);
        Some(SentContent::Stream { stream, offset, length: 0, end: true })
    }

    /// Size of the messages that wait, or that the peer has not fully received.
    pub(crate) fn messages_held(&self) -> u64 {
        self.messages.as_deref().map_or(0, Outbox::held)
    }

    /// A piece of a message arrived.
    pub(crate) fn on_message_delivered(
        &mut self,
        now: Instant,
        message: MessageId,
        units: Range<u64>,
    ) -> Progress {
        match &mut self.messages {
            Some(messages) => messages.on_delivered(now, message, units),
            None => return Progress::None,
        }
        self.progress()
    }

    /// A piece of a message was lost, or its path is suspect.
    pub(crate) fn on_message_lost(&mut self, message: MessageId, units: Range<u64>) {
        if let Some(messages) = &mut self.messages {
            messages.on_lost(message, units);
        }
    }

    /// The peer knows that a message was given up.
    pub(crate) fn on_skip_delivered(&mut self, message: MessageId) -> Progress {
        match &mut self.messages {
            Some(messages) => messages.on_skip_delivered(message),
            None => return Progress::None,
        }
        self.progress()
    }

    /// The peer may not know that a message was given up.
    pub(crate) fn on_skip_lost(&mut self, message: MessageId) {
        if let Some(messages) = &mut self.messages {
            messages.on_skip_lost(message);
        }
    }

    /// Gives up messages that cannot arrive before they expire.
    pub(crate) fn expire_messages(&mut self, arrival: Instant) -> Progress {
        match &mut self.messages {
            Some(messages) => messages.expire(arrival),
            None => return Progress::None,
        }
        self.progress()
    }

    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.messages.as_deref().and_then(Outbox::next_expiry)
    }

    pub(crate) fn wants_skip(&self) -> bool {
        let sends = matches!(self.state, SendState::Open | SendState::Finishing);
        sends && self.messages.as_deref().is_some_and(Outbox::wants_skip)
    }

    /// Writes skips for the messages that were given up; true if all fit.
    pub(crate) fn write_skips(&mut self, w: &mut Writer<'_>, contents: &mut Contents) -> bool {
        self.messages.as_deref_mut().is_none_or(|messages| messages.write_skips(w, contents))
    }

    /// Connection credit that was reserved for messages and not used; returns it once.
    pub(crate) fn take_refund(&mut self) -> u64 {
        let refund = self.messages.as_deref_mut().map_or(0, Outbox::take_refund);
        self.credit.refund(refund);
        refund
    }

    /// The next message that was given up; returns it once.
    pub(crate) fn take_abandoned(&mut self) -> Option<MessageToken> {
        self.messages.as_deref_mut()?.take_abandoned()
    }

    /// Message statistics since the last call.
    pub(crate) fn take_message_statistics(&mut self) -> Option<MessageStatistics> {
        self.messages.as_deref_mut().map(Outbox::take_statistics)
    }

    /// Unsent bytes of the next item, with or without credit: all of the stream, or those of one message.
    pub(crate) fn next_left(&self) -> u64 {
        match &self.messages {
            None => {
                let beyond = self.buffer.beyond();
                self.buffer.deferred_bytes() + beyond.end - beyond.start
            }
            Some(messages) => messages.next_left(),
        }
    }
}
