//! A bounded queue of chunks in each direction, between an application's stream handle and the driver.
//!
//! A lock is taken for each chunk of up to 64 KiB, never for a packet. The driver is woken only when a queue that it
//! had emptied (or found full) changes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use manyway_proto::{Carries, Message, MessageOptions, MessageToken, StreamId};
use tokio::time::Instant;

use super::budget::{Budget, Share};
use crate::error::{ReadError, WriteError};

/// Both directions of one stream.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stream: StreamId,
    send: Mutex<SendPipe>,
    receive: Mutex<ReceivePipe>,
}

/// One write of the application.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Chunk {
    Bytes(Bytes),
    /// A message; its lifetime counts from the given instant.
    Message(Bytes, MessageOptions, Instant),
}

/// One unit of received data.
#[derive(Debug, PartialEq)]
pub(crate) enum Arrived {
    Bytes(Bytes),
    Message(Message),
}

/// What a half carries, once that is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bytes,
    Messages,
}

/// Overhead of a message beside its bytes.
const MESSAGE_OVERHEAD: usize = 128;

/// Data that the application wrote and the driver has not taken yet.
#[derive(Debug)]
pub(crate) struct SendPipe {
    /// Limits the bytes between a writer and the driver.
    budget: Arc<Budget>,
    share: Share,
    chunks: VecDeque<Chunk>,
    kind: Option<Kind>,
    messages: u64,
    bytes: usize,
    ending: Ending,
    failure: Option<WriteError>,
    /// The connection is closing: queued data is still sent, new data is refused.
    refusal: Option<WriteError>,
    writer: Option<Waker>,
    /// The driver knows that there is data to take.
    scheduled: bool,
}

/// How the writing half ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Ending {
    #[default]
    Open,
    /// The application finished.
    Finishing,
    /// The driver passed the end on.
    Finished,
    /// The peer has acknowledged everything.
    Delivered,
    /// The application reset the half with this code.
    Resetting(u64),
    Reset,
}

/// Data that the driver read and the application has not taken yet.
#[derive(Debug)]
pub(crate) struct ReceivePipe {
    chunks: VecDeque<Arrived>,
    bytes: usize,
    budget: Arc<Budget>,
    share: Share,
    end: Option<Result<(), ReadError>>,
    stopped: bool,
    reader: Option<Waker>,
    /// The driver stopped because the queue was full; it is woken when this many bytes are left.
    full_until: Option<usize>,
}

impl Pipes {
    pub(crate) fn new(stream: StreamId, budget: &Arc<Budget>) -> Self {
        let receive = ReceivePipe {
            chunks: VecDeque::new(),
            bytes: 0,
            budget: Arc::clone(budget),
            share: budget.reader(),
            end: None,
            stopped: false,
            reader: None,
            full_until: None,
        };
        let send = SendPipe {
            budget: Arc::clone(budget),
            share: budget.writer(),
            chunks: VecDeque::new(),
            kind: None,
            messages: 0,
            bytes: 0,
            ending: Ending::Open,
            failure: None,
            refusal: None,
            writer: None,
            scheduled: false,
        };
        budget.join();
        Self { stream, send: Mutex::new(send), receive: Mutex::new(receive) }
    }

    // No code panics while it holds one of these locks; if it did, the state would still be consistent.
    pub(crate) fn send(&self) -> MutexGuard<'_, SendPipe> {
        self.send.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn receive(&self) -> MutexGuard<'_, ReceivePipe> {
        self.receive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection ended: both halves fail, after the data read before.
    pub(crate) fn fail(&self, write: &WriteError, read: &ReadError) {
        self.send().fail(write.clone());
        self.receive().end(Err(read.clone()));
    }

    /// Nothing can pass in either direction any more.
    pub(crate) fn is_over(&self) -> bool {
        self.send().is_over() && self.receive().has_ended()
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        self.send.get_mut().unwrap_or_else(PoisonError::into_inner).budget.leave();
    }
}

impl SendPipe {
    /// Waits for room.
    pub(crate) fn poll_room(&mut self, context: &Context<'_>, kind: Kind) -> Poll<Result<usize, WriteError>> {
        if let Some(error) = self.closed().or_else(|| self.mismatch(kind)) {
            return Poll::Ready(Err(error));
        }
        let room = self.limit(kind).saturating_sub(self.bytes);
        if room == 0 {
            self.share.on_full();
            register(&mut self.writer, context);
            return Poll::Pending;
        }
        Poll::Ready(Ok(room))
    }

    /// How many bytes may wait for the driver. Messages may be lost where they find no room.
    fn limit(&self, kind: Kind) -> usize {
        match kind {
            Kind::Bytes => self.budget.send_limit().min(self.share.bytes()),
            Kind::Messages => self.budget.send_limit(),
        }
    }

    /// Checks that the half carries the same kind as before.
    fn mismatch(&self, kind: Kind) -> Option<WriteError> {
        match self.kind? {
            carried if carried == kind => None,
            Kind::Bytes => Some(WriteError::CarriesBytes),
            Kind::Messages => Some(WriteError::CarriesMessages),
        }
    }

    /// Why no data is accepted any more.
    fn closed(&self) -> Option<WriteError> {
        if let Some(error) = self.failure.as_ref().or(self.refusal.as_ref()) {
            return Some(error.clone());
        }
        match self.ending {
            Ending::Open => None,
            Ending::Finishing | Ending::Finished | Ending::Delivered => Some(WriteError::Finished),
            Ending::Resetting(_) | Ending::Reset => Some(WriteError::Reset),
        }
    }

    /// Queues a chunk; returns true if the driver has to be woken.
    pub(crate) fn push(&mut self, chunk: Bytes) -> bool {
        // The half may have failed since there was room.
        if self.failure.is_some() {
            return false;
        }
        self.kind = Some(Kind::Bytes);
        self.add(Chunk::Bytes(chunk))
    }

    /// Queues a message; returns its token, and whether the driver has to be woken.
    pub(crate) fn push_message(&mut self, data: Bytes, options: MessageOptions) -> (MessageToken, bool) {
        let token = MessageToken(self.messages);
        if self.failure.is_some() {
            return (token, false);
        }
        self.kind = Some(Kind::Messages);
        self.messages += 1;
        (token, self.add(Chunk::Message(data, options, Instant::now())))
    }

    fn add(&mut self, chunk: Chunk) -> bool {
        self.bytes += chunk.size();
        self.chunks.push_back(chunk);
        !std::mem::replace(&mut self.scheduled, true)
    }

    /// Marks the end; returns true if the driver has to be woken.
    ///
    /// # Errors
    /// If the half has ended already.
    pub(crate) fn finish(&mut self) -> Result<bool, WriteError> {
        match self.closed() {
            Some(error) => Err(error),
            None => {
                self.ending = Ending::Finishing;
                Ok(!std::mem::replace(&mut self.scheduled, true))
            }
        }
    }

    /// Resets and drops the queue; returns true if the driver has to be told. It is told even if it waits for the
    /// protocol machine to take more: that may need credit that never comes.
    pub(crate) fn reset(&mut self, code: u64) -> bool {
        let too_late = matches!(self.ending, Ending::Delivered | Ending::Resetting(_) | Ending::Reset);
        if too_late || self.failure.is_some() {
            return false;
        }
        self.ending = Ending::Resetting(code);
        self.clear();
        true
    }

    pub(crate) fn ending(&self) -> Ending {
        self.ending
    }

    pub(crate) fn set_ending(&mut self, ending: Ending) {
        self.ending = ending;
        self.wake();
    }

    /// Waits until the peer has acknowledged everything.
    pub(crate) fn poll_delivered(&mut self, context: &Context<'_>) -> Poll<Result<(), WriteError>> {
        match (self.ending, &self.failure) {
            (Ending::Delivered, _) => Poll::Ready(Ok(())),
            (_, Some(failure)) => Poll::Ready(Err(failure.clone())),
            (Ending::Resetting(_) | Ending::Reset, None) => Poll::Ready(Err(WriteError::Reset)),
            (Ending::Open | Ending::Finishing | Ending::Finished, None) => {
                register(&mut self.writer, context);
                Poll::Pending
            }
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        self.bytes -= chunk.size();
        Some(chunk)
    }

    pub(crate) fn unpop(&mut self, chunk: Chunk) {
        self.bytes += chunk.size();
        self.chunks.push_front(chunk);
    }

    /// Bytes that the driver has not taken yet.
    pub(crate) fn queued(&self) -> usize {
        self.bytes
    }

    /// The driver took everything and has to be woken for more.
    pub(crate) fn set_drained(&mut self) {
        self.scheduled = false;
    }

    /// The driver has nothing to take now.
    pub(crate) fn is_drained(&self) -> bool {
        !self.scheduled
    }

    /// The driver took some of the bytes that were queued before: wakes the writer once there is enough room.
    pub(crate) fn wake_if_roomy(&mut self, queued_before: usize) {
        self.share.on_taken(queued_before.saturating_sub(self.bytes));
        if self.bytes <= self.limit(self.kind.unwrap_or(Kind::Bytes)) / 2 {
            self.share.on_half_taken();
            self.wake();
        }
    }

    /// Refuses new data; queued data is still sent.
    pub(crate) fn refuse(&mut self, refusal: WriteError) {
        self.refusal.get_or_insert(refusal);
        // A writer that waits for room learns of it; one that waits for delivery keeps waiting.
        self.wake();
    }

    pub(crate) fn fail(&mut self, failure: WriteError) {
        if self.failure.is_none() && self.ending != Ending::Delivered {
            self.failure = Some(failure);
        }
        self.clear();
        self.scheduled = false;
        self.wake();
    }

    /// The driver has nothing left to do for it.
    fn is_over(&self) -> bool {
        self.failure.is_some() || matches!(self.ending, Ending::Delivered | Ending::Reset)
    }

    fn clear(&mut self) {
        self.chunks.clear();
        self.bytes = 0;
    }

    fn wake(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}

impl ReceivePipe {
    /// How many bytes the driver may add; if 0, it is woken when there is room again.
    pub(crate) fn room(&mut self) -> usize {
        if self.stopped {
            return 0;
        }
        let allowance = self.budget.allowance(self.bytes).min(self.share.bytes());
        let room = allowance.saturating_sub(self.bytes);
        if room == 0 {
            self.share.on_full();
            self.full_until = Some(allowance / 2);
        }
        room
    }

    /// Whether a message has to wait because it needs more room than this. A waiting reader with an empty queue gets a
    /// message of any size; the driver is woken when that is so, or when there is room.
    pub(crate) fn holds_back(&mut self, message: usize, room: usize) -> bool {
        let size = message + MESSAGE_OVERHEAD;
        if size <= room || (self.chunks.is_empty() && self.reader.is_some()) {
            return false;
        }
        self.full_until = Some((self.bytes + room).saturating_sub(size));
        true
    }

    /// Whether the driver stopped for lack of room and was not woken since. The call counts as waking it.
    pub(crate) fn was_full(&mut self) -> bool {
        self.full_until.take().is_some()
    }

    pub(crate) fn push(&mut self, chunk: Arrived) {
        if !self.stopped {
            self.bytes += chunk.size();
            self.budget.take(chunk.size());
            self.chunks.push_back(chunk);
        }
    }

    pub(crate) fn end(&mut self, end: Result<(), ReadError>) {
        if self.end.is_none() {
            self.end = Some(end);
        }
        self.wake();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    pub(crate) fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// Takes the next chunk, of at most `max` bytes; `None` at the end. The flag is true if the driver waits for room.
    pub(crate) fn poll_chunk(
        &mut self,
        context: &Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<(Bytes, bool)>, ReadError>> {
        if let Some(first) = self.chunks.front_mut() {
            let Arrived::Bytes(chunk) = first else { return Poll::Ready(Err(ReadError::CarriesMessages)) };
            let taken = if chunk.len() > max { chunk.split_to(max) } else { std::mem::take(chunk) };
            if chunk.is_empty() {
                self.chunks.pop_front();
            }
            let wake = self.give_back(taken.len());
            return Poll::Ready(Ok(Some((taken, wake))));
        }
        self.poll_end(context)
    }

    /// Waits for the first data, or the end, and tells what it is.
    pub(crate) fn poll_carries(&mut self, context: &Context<'_>) -> Poll<Result<Carries, ReadError>> {
        match self.chunks.front() {
            Some(Arrived::Bytes(_)) => Poll::Ready(Ok(Carries::Bytes)),
            Some(Arrived::Message(_)) => Poll::Ready(Ok(Carries::Messages)),
            None => self.poll_end::<Carries>(context).map_ok(|end| end.unwrap_or(Carries::Nothing)),
        }
    }

    /// Takes the next message; `None` at the end. The flag is true if the driver waits for room.
    pub(crate) fn poll_message(
        &mut self,
        context: &Context<'_>,
    ) -> Poll<Result<Option<(Message, bool)>, ReadError>> {
        match self.chunks.pop_front() {
            Some(Arrived::Message(message)) => {
                let wake = self.give_back(message.data.len() + MESSAGE_OVERHEAD);
                Poll::Ready(Ok(Some((message, wake))))
            }
            Some(bytes @ Arrived::Bytes(_)) => {
                self.chunks.push_front(bytes);
                Poll::Ready(Err(ReadError::CarriesBytes))
            }
            None => self.poll_end(context),
        }
    }

    /// The application took this many bytes; returns whether the driver waits for their room.
    fn give_back(&mut self, taken: usize) -> bool {
        self.bytes -= taken;
        self.share.on_taken(taken);
        self.budget.give_back(taken);
        let wake = self.full_until.is_some_and(|bytes| self.bytes <= bytes);
        if wake {
            self.full_until = None;
            self.share.on_half_taken();
        }
        wake
    }

    /// The result for a reader of an empty queue.
    fn poll_end<T>(&mut self, context: &Context<'_>) -> Poll<Result<Option<T>, ReadError>> {
        match &self.end {
            // Bytes before the end may have been dropped.
            _ if self.stopped => Poll::Ready(Err(ReadError::Stopped)),
            Some(Ok(())) => Poll::Ready(Ok(None)),
            Some(Err(error)) => Poll::Ready(Err(error.clone())),
            None => {
                register(&mut self.reader, context);
                Poll::Pending
            }
        }
    }

    /// The application stops reading; returns true if the peer has to be told.
    pub(crate) fn stop(&mut self) -> bool {
        let first = !self.stopped && self.end.is_none();
        self.stopped = true;
        self.chunks.clear();
        self.budget.give_back(std::mem::take(&mut self.bytes));
        self.wake();
        first
    }
}

impl Chunk {
    fn size(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Message(data, _, _) => data.len() + MESSAGE_OVERHEAD,
        }
    }
}

impl Arrived {
    fn size(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Message(message) => message.data.len() + MESSAGE_OVERHEAD,
        }
    }
}

fn register(waker: &mut Option<Waker>, context: &Context<'_>) {
    match waker {
        Some(waker) => waker.clone_from(context.waker()),
        None => *waker = Some(context.waker().clone()),
    }
}

#[cfg(test)]
#[path = "pipe/tests.rs"]
mod tests;
