//! The writing half of a stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use manyway_proto::StreamId;
use tokio::io::AsyncWrite;

use super::pipe::{Ending, Pipes};
use crate::connection::Link;
use crate::driver::Command;
use crate::error::WriteError;

/// The writing half of a stream.
///
/// What is written is sent in order and as soon as the paths allow; [`finish`](Self::finish) marks the end. A half that
/// is dropped unfinished is reset, so that a reader never takes a cut stream for a whole one.
#[derive(Debug)]
pub struct SendStream {
    link: Arc<Link>,
    pipes: Arc<Pipes>,
}

impl SendStream {
    pub(crate) fn new(link: Arc<Link>, pipes: Arc<Pipes>) -> Self {
        Self { link, pipes }
    }

    /// The number of the stream.
    pub fn id(&self) -> StreamId {
        self.pipes.stream
    }

    /// Writes a chunk without copying it; waits for room.
    ///
    /// # Errors
    /// If the peer stopped the stream, the half was finished, or the connection ended.
    pub async fn write_chunk(&mut self, chunk: Bytes) -> Result<(), WriteError> {
        poll_fn(|context| self.pipes.send().poll_room(context)).await?;
        let wake = self.pipes.send().push(chunk);
        self.wake_driver(wake);
        Ok(())
    }

    /// Marks the end of the stream; does not wait.
    ///
    /// # Errors
    /// If it was finished before, stopped by the peer, or the connection ended.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        let mut pipe = self.pipes.send();
        if pipe.ending() != Ending::Open {
            return Err(WriteError::Finished);
        }
        let wake = pipe.finish(Ending::Finishing);
        drop(pipe);
        self.wake_driver(wake);
        Ok(())
    }

    /// Waits until the peer has every byte and the end of a finished stream.
    ///
    /// # Errors
    /// If the peer stopped the stream or the connection ended before.
    pub async fn delivered(&mut self) -> Result<(), WriteError> {
        poll_fn(|context| self.pipes.send().poll_delivered(context)).await
    }

    /// Gives the stream up: what was not sent is dropped, the reader learns `code`.
    pub fn reset(&mut self, code: u64) {
        let wake = self.pipes.send().finish(Ending::Resetting(code));
        self.wake_driver(wake);
    }

    /// Sets the priority: higher goes first, equal ones share. Default 0.
    pub fn set_priority(&mut self, priority: i8) {
        self.link.send(Command::Priority { handle: self.link.handle(), stream: self.id(), priority });
    }

    fn wake_driver(&self, wake: bool) {
        if wake {
            self.link.send(Command::Written { handle: self.link.handle(), stream: self.id() });
        }
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut pipe = self.pipes.send();
        let room = ready!(pipe.poll_room(context))?;
        let (now, _) = data.split_at(data.len().min(room));
        let wake = pipe.push(Bytes::copy_from_slice(now));
        drop(pipe);
        self.wake_driver(wake);
        Poll::Ready(Ok(now.len()))
    }

    /// Nothing waits here longer than it must: always ready.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Finishes the stream and waits until the peer has all of it.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.pipes.send().ending() == Ending::Open {
            self.finish()?;
        }
        self.pipes.send().poll_delivered(context).map_err(io::Error::from)
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        if self.pipes.send().ending() == Ending::Open {
            self.reset(0);
        }
    }
}
