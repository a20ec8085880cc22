//! The receiving half of a stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use manyway_proto::{Carries, ConfigError, Message, StreamId, TargetRate};
use tokio::io::{AsyncRead, ReadBuf};

use super::pipe::ReceivePipe;
use crate::error::ReadError;
use crate::link::{Command, ReceiveHalf};

/// The receiving half of a stream. Dropping it before the end sends the peer a stop with code 0.
///
/// A reader that does not read stops the writer: three eighths of the [stream's first
/// window](manyway_proto::StreamConfig::stream_receive_window) is read ahead, up to 1 MiB for a reader that takes half of
/// what waits within 20 ms, 64 KiB if many streams have data, and less if
/// [`max_window`](manyway_proto::StreamConfig::max_window) is below 4 MiB; beyond that the window fills up. All methods may be cancelled by dropping their
/// futures; nothing is lost.
#[derive(Debug)]
pub struct ReceiveStream {
    half: ReceiveHalf,
}

impl ReceiveStream {
    pub(crate) fn new(half: ReceiveHalf) -> Self {
        Self { half }
    }

    /// The ID of the stream.
    pub fn id(&self) -> StreamId {
        self.half.pipes.stream
    }

    /// Reads the next bytes, at least one and at most `max`, without copying them; `None` at the end of the stream.
    /// A `max` of 0 counts as 1.
    ///
    /// # Errors
    /// If the peer reset the stream, this end stopped it, or the connection ended before the end of the stream.
    pub async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, ReadError> {
        poll_fn(|context| self.poll_chunk(context, max.max(1))).await
    }

    /// Takes the next message that the peer sent; `None` at the end of the stream.
    ///
    /// ```
    /// # use manyway::{ReadError, ReceiveStream};
    /// async fn print_all(stream: &mut ReceiveStream) -> Result<(), ReadError> {
    ///     while let Some(message) = stream.receive_message().await? {
    ///         println!("{} bytes about {}", message.data.len(), message.protocol);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// If the peer sent bytes or reset the stream, this end stopped it, or the connection ended before the end of the
    /// stream.
    pub async fn receive_message(&mut self) -> Result<Option<Message>, ReadError> {
        let taken = poll_fn(|context| self.ask(|pipe| pipe.poll_message(context))).await?;
        Ok(taken.map(|(message, wake)| {
            self.tell_drained(wake);
            message
        }))
    }

    /// Waits for the first data that was not read yet, and tells what it is: [`Carries::Nothing`] at the end of the
    /// stream. It takes nothing.
    ///
    /// ```
    /// # use manyway::{ReadError, ReceiveStream};
    /// use manyway::Carries;
    ///
    /// async fn read(stream: &mut ReceiveStream) -> Result<(), ReadError> {
    ///     match stream.carries().await? {
    ///         Carries::Messages => drop(stream.receive_message().await?),
    ///         _ => drop(stream.read_chunk(1024).await?),
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// If the peer reset the stream, this end stopped it, or the connection ended before the end of the stream.
    pub async fn carries(&mut self) -> Result<Carries, ReadError> {
        poll_fn(|context| self.ask(|pipe| pipe.poll_carries(context))).await
    }

    /// Polls the pipe; if it is empty, the driver delivers what it held back.
    fn ask<T>(&self, ask: impl FnOnce(&mut ReceivePipe) -> Poll<T>) -> Poll<T> {
        let mut pipe = self.half.pipes.receive();
        let answer = ask(&mut pipe);
        let wake = answer.is_pending() && pipe.was_full();
        drop(pipe);
        self.tell_drained(wake);
        answer
    }

    fn tell_drained(&self, wake: bool) {
        if wake {
            let link = &self.half.link;
            link.send(Command::Drained { handle: link.handle(), stream: self.id() });
        }
    }

    fn poll_chunk(&self, context: &Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, ReadError>> {
        let taken = ready!(self.ask(|pipe| pipe.poll_chunk(context, max)))?;
        let Some((chunk, wake)) = taken else { return Poll::Ready(Ok(None)) };
        self.tell_drained(wake);
        Poll::Ready(Ok(Some(chunk)))
    }

    /// Holds the rate at which the stream arrives ([`TargetRate`]), or with `None` no longer. The targets of several streams
    /// of a connection are held together, as their sum. [`Event::TargetRate`](manyway_proto::Event::TargetRate) tells once in
    /// each interval what was measured and done. Without effect over MMSP/1; on paths over TCP only where the system lets a
    /// program set the receive window (Linux).
    ///
    /// ```
    /// # use manyway::{ConfigError, ReceiveStream};
    /// use manyway::{Rate, RateAlgorithm, TargetRate};
    ///
    /// fn play(stream: &mut ReceiveStream) -> Result<(), ConfigError> {
    ///     let mut target = TargetRate::new(Rate::from_bits_per_second(4_000_000));
    ///     target.algorithm = RateAlgorithm::Advanced;
    ///     stream.set_target_rate(Some(target))
    /// }
    /// ```
    ///
    /// # Errors
    /// If a setting is out of its range; nothing is changed then.
    pub fn set_target_rate(&mut self, target: Option<TargetRate>) -> Result<(), ConfigError> {
        target.as_ref().map_or(Ok(()), TargetRate::validate)?;
        let link = &self.half.link;
        link.send(Command::TargetRate { handle: link.handle(), stream: self.id(), target });
        Ok(())
    }

    /// Tells the peer to stop sending on the stream, with a code. Data that has arrived is dropped; reading fails from
    /// now on.
    pub fn stop(&mut self, code: u64) {
        self.half.stop(code);
    }
}

impl AsyncRead for ReceiveStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if let Some(chunk) = ready!(self.poll_chunk(context, buffer.remaining()))? {
            buffer.put_slice(&chunk);
        }
        Poll::Ready(Ok(()))
    }
}
