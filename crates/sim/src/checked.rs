//! The streams of an end beside the model of what its applications must see.

use bytes::Bytes;
use manyway_proto::{Class, Instant, MessageOptions, MessageOutcome, MessageToken, SendError, StreamId};

use crate::ids::HostId;
use crate::invariants::Law;
use crate::record::Series;
use crate::reference::Reference;
use crate::traffic::{Delivery, Read, Streams};

/// Streams of one end with the reference beside them: every call is checked against it.
pub(crate) struct Checked<'a> {
    now: Instant,
    streams: &'a mut dyn Streams,
    host: HostId,
    peer: HostId,
    reference: &'a mut Reference,
    received: &'a mut Series,
    messages: &'a mut Vec<Delivery>,
    /// The first violation.
    pub(crate) broken: Option<Law>,
    /// Whether any call had an effect.
    pub(crate) changed: bool,
}

impl<'a> Checked<'a> {
    /// The streams of `host`, whose other end is `peer`.
    pub(crate) fn new(
        (now, host, peer): (Instant, HostId, HostId),
        streams: &'a mut dyn Streams,
        reference: &'a mut Reference,
        received: &'a mut Series,
        messages: &'a mut Vec<Delivery>,
    ) -> Self {
        Self { now, streams, host, peer, reference, received, messages, broken: None, changed: false }
    }
}

impl Checked<'_> {
    fn check_end(&mut self, stream: StreamId) {
        let result = self.reference.on_end(self.peer, stream);
        self.check(result);
    }

    fn check(&mut self, result: Result<(), Law>) {
        if let Err(law) = result {
            self.broken.get_or_insert(law);
        }
    }
}

impl Streams for Checked<'_> {
    fn open(&mut self) -> Option<StreamId> {
        let opened = self.streams.open();
        self.changed |= opened.is_some();
        opened
    }

    fn accept(&mut self) -> Option<StreamId> {
        let accepted = self.streams.accept();
        self.changed |= accepted.is_some();
        accepted
    }

    fn write(&mut self, stream: StreamId, data: Bytes) -> usize {
        let accepted = self.streams.write(stream, data);
        self.changed |= accepted > 0;
        self.reference.on_write(self.host, stream, accepted);
        accepted
    }

    fn finish(&mut self, stream: StreamId) {
        self.reference.on_finish(self.host, stream);
        self.streams.finish(stream);
        self.changed = true;
    }

    fn read(&mut self, stream: StreamId, most: usize) -> Read {
        let read = self.streams.read(stream, most);
        self.changed |= read != Read::Blocked;
        let result = match &read {
            Read::Data(data) => {
                self.received.add(self.now, data.len());
                self.reference.on_read(self.peer, stream, data)
            }
            Read::Blocked => Ok(()),
            Read::End => self.reference.on_end(self.peer, stream),
            Read::Reset(_) => self.reference.on_reset_seen(self.peer, stream),
        };
        self.check(result);
        read
    }

    fn send_message(
        &mut self,
        now: Instant,
        stream: StreamId,
        data: Bytes,
        options: MessageOptions,
    ) -> Result<MessageToken, SendError> {
        let sent = self.streams.send_message(now, stream, data, options);
        self.changed |= sent.is_ok();
        sent
    }

    fn receive_message(&mut self, stream: StreamId) -> Option<MessageOutcome> {
        let outcome = self.streams.receive_message(stream);
        self.changed |= outcome.is_some();
        match &outcome {
            Some(MessageOutcome::Message(message)) => {
                self.messages.push(Delivery { at: self.now, stream, message: message.clone() });
            }
            // To the reference it is a stream without bytes.
            Some(MessageOutcome::End) => self.check_end(stream),
            Some(_) | None => {}
        }
        outcome
    }

    fn set_class(&mut self, stream: StreamId, class: Class) {
        self.streams.set_class(stream, class);
        self.changed = true;
    }
}
