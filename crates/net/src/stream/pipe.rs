//! Between an application's stream handle and the driver: a bounded queue of chunks in each direction.
//!
//! A lock is taken for a chunk of up to 64 KiB, never for a packet, and the driver is woken only when a queue that it
//! had emptied (or found full) changes.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use manyway_proto::StreamId;

use crate::error::{ReadError, WriteError};

/// Bytes that wait between a writer and the driver.
const SEND_LIMIT: usize = 512 * 1024;
/// Bytes that wait between the driver and a reader.
pub(crate) const RECEIVE_LIMIT: usize = 1024 * 1024;

/// Both directions of one stream.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stream: StreamId,
    send: Mutex<SendPipe>,
    receive: Mutex<ReceivePipe>,
}

/// What the application wrote and the driver did not take yet.
#[derive(Debug, Default)]
pub(crate) struct SendPipe {
    chunks: VecDeque<Bytes>,
    bytes: usize,
    ending: Ending,
    failure: Option<WriteError>,
    writer: Option<Waker>,
    /// The driver knows that there is something to take.
    pub(crate) scheduled: bool,
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
    /// The peer has everything.
    Delivered,
    /// The application gave up with this code.
    Resetting(u64),
    Reset,
}

/// What the driver read and the application did not take yet.
#[derive(Debug, Default)]
pub(crate) struct ReceivePipe {
    chunks: VecDeque<Bytes>,
    bytes: usize,
    end: Option<Result<(), ReadError>>,
    stopped: bool,
    reader: Option<Waker>,
    /// The driver stopped because the queue was full and wants to be told.
    pub(crate) full: bool,
}

impl Pipes {
    pub(crate) fn new(stream: StreamId) -> Self {
        Self { stream, send: Mutex::default(), receive: Mutex::default() }
    }

    // No code panics while it holds one of these locks; if it did, the state would still be consistent.
    pub(crate) fn send(&self) -> MutexGuard<'_, SendPipe> {
        self.send.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn receive(&self) -> MutexGuard<'_, ReceivePipe> {
        self.receive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection ended: both halves fail, after what was read before.
    pub(crate) fn fail(&self, write: &WriteError, read: &ReadError) {
        self.send().fail(write.clone());
        self.receive().end(Err(read.clone()));
    }
}

impl SendPipe {
    /// Waits for room.
    pub(crate) fn poll_room(&mut self, context: &Context<'_>) -> Poll<Result<usize, WriteError>> {
        if let Some(failure) = &self.failure {
            return Poll::Ready(Err(failure.clone()));
        }
        if self.ending != Ending::Open {
            return Poll::Ready(Err(WriteError::Finished));
        }
        if self.bytes >= SEND_LIMIT {
            self.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(SEND_LIMIT - self.bytes))
    }

    /// Queues a chunk; true if the driver has to be woken.
    pub(crate) fn push(&mut self, chunk: Bytes) -> bool {
        self.bytes += chunk.len();
        self.chunks.push_back(chunk);
        !std::mem::replace(&mut self.scheduled, true)
    }

    /// Ends the half; true if the driver has to be woken.
    pub(crate) fn finish(&mut self, ending: Ending) -> bool {
        if self.ending != Ending::Open && !matches!(ending, Ending::Resetting(_)) {
            return false;
        }
        if matches!(self.ending, Ending::Delivered | Ending::Reset) || self.failure.is_some() {
            return false;
        }
        self.ending = ending;
        !std::mem::replace(&mut self.scheduled, true)
    }

    pub(crate) fn ending(&self) -> Ending {
        self.ending
    }

    pub(crate) fn set_ending(&mut self, ending: Ending) {
        self.ending = ending;
        self.wake();
    }

    /// Waits until the peer has everything.
    pub(crate) fn poll_delivered(&mut self, context: &Context<'_>) -> Poll<Result<(), WriteError>> {
        if self.ending == Ending::Delivered {
            return Poll::Ready(Ok(()));
        }
        if let Some(failure) = &self.failure {
            return Poll::Ready(Err(failure.clone()));
        }
        self.writer = Some(context.waker().clone());
        Poll::Pending
    }

    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let chunk = self.chunks.pop_front()?;
        self.bytes -= chunk.len();
        Some(chunk)
    }

    pub(crate) fn unpop(&mut self, chunk: Bytes) {
        self.bytes += chunk.len();
        self.chunks.push_front(chunk);
    }

    /// Wakes the writer once there is room worth waking for.
    pub(crate) fn wake_if_roomy(&mut self) {
        if self.bytes <= SEND_LIMIT / 2 {
            self.wake();
        }
    }

    pub(crate) fn fail(&mut self, failure: WriteError) {
        if self.failure.is_none() && self.ending != Ending::Delivered {
            self.failure = Some(failure);
            self.chunks.clear();
            self.bytes = 0;
        }
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}

impl ReceivePipe {
    pub(crate) fn room(&self) -> usize {
        if self.stopped { 0 } else { RECEIVE_LIMIT.saturating_sub(self.bytes) }
    }

    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.bytes += chunk.len();
        self.chunks.push_back(chunk);
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

    /// Takes the next chunk, of at most `max` bytes; `None` at the end. The flag says that the driver waits for room.
    pub(crate) fn poll_chunk(
        &mut self,
        context: &Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<(Bytes, bool)>, ReadError>> {
        if let Some(chunk) = self.chunks.front_mut() {
            let taken = if chunk.len() > max { chunk.split_to(max) } else { std::mem::take(chunk) };
            if chunk.is_empty() {
                self.chunks.pop_front();
            }
            self.bytes -= taken.len();
            let wake = self.full && self.bytes <= RECEIVE_LIMIT / 2;
            self.full &= !wake;
            return Poll::Ready(Ok(Some((taken, wake))));
        }
        match &self.end {
            Some(Ok(())) => Poll::Ready(Ok(None)),
            Some(Err(error)) => Poll::Ready(Err(error.clone())),
            None => {
                self.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The application wants no more; true if the peer has to be told.
    pub(crate) fn stop(&mut self) -> bool {
        let first = !self.stopped && self.end.is_none();
        self.stopped = true;
        self.chunks.clear();
        self.bytes = 0;
        first
    }
}
