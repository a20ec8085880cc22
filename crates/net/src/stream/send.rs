//! The sending half of a stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use manyway_proto::scheduler::Binding;
use manyway_proto::{Class, ConnectionError, MessageOptions, MessageToken, StreamId};
use tokio::io::AsyncWrite;

use super::pipe::{Ending, Kind};
use crate::error::WriteError;
use crate::link::{Command, SendHalf};
use crate::wire::Wire;

/// Most bytes that one call of `poll_write` copies: a chunk that fits a processor's cache.
const CHUNK: usize = 64 * 1024;

/// Payload protocols that MMSP/1 keeps for itself (spec 3.37).
const RESERVED: std::ops::RangeInclusive<u32> = 0x4d57_0000..=0x4d57_ffff;

/// The sending half of a stream.
///
/// Written data is sent in order and as soon as the paths allow; [`finish`](Self::finish) marks the end. A half that is
/// dropped unfinished is reset with code 0, so that a reader never takes a truncated stream for a complete one.
///
/// A write waits while 512 KiB are queued for the driver (a 24th of
/// [`max_send_buffer`](manyway_proto::StreamConfig::max_send_buffer), if that is less; with more than 32 streams a
/// smaller part, 64 KiB at least; half of the first send buffer, until the driver takes half of that within 20 ms). The
/// driver takes as much as the [send
/// buffer](manyway_proto::StreamConfig::send_buffer) of the stream holds. A single chunk or message may be of any
/// length beyond that. All methods may be cancelled by dropping their futures: a chunk is then taken whole or not at
/// all.
#[derive(Debug)]
pub struct SendStream {
    half: SendHalf,
}

impl SendStream {
    pub(crate) fn new(half: SendHalf) -> Self {
        Self { half }
    }

    /// The ID of the stream.
    pub fn id(&self) -> StreamId {
        self.half.pipes.stream
    }

    /// Writes a chunk of any length without copying it; waits for room.
    ///
    /// # Errors
    /// If the peer stopped the stream, the half was finished or reset, or the connection was closed.
    pub async fn write_chunk(&mut self, chunk: Bytes) -> Result<(), WriteError> {
        poll_fn(|context| self.half.pipes.send().poll_room(context, Kind::Bytes)).await?;
        let wake = self.half.pipes.send().push(chunk);
        self.half.wake_driver(wake);
        Ok(())
    }

    /// Sends a message: the peer gets it as a whole with [`receive_message`](crate::ReceiveStream::receive_message) or,
    /// if `options` allow it, not at all. Waits for room. The first message decides that this half carries messages and
    /// never bytes. If the message is abandoned, [`Event::MessageAbandoned`](crate::Event::MessageAbandoned) has the
    /// token that is returned here.
    ///
    /// ```
    /// # use manyway::{Class, MessageOptions, Order, SendStream, WriteError};
    /// # use std::time::Duration;
    /// /// Tells where we are; what is older than 200 ms is of no use.
    /// async fn report(stream: &mut SendStream, position: String) -> Result<(), WriteError> {
    ///     let options = MessageOptions::default()
    ///         .order(Order::Unordered)
    ///         .class(Class::Deadline)
    ///         .lifetime(Duration::from_millis(200));
    ///     stream.send_message(position.into(), options).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// If it is larger than [`Connection::max_message`](crate::Connection::max_message), this half carries bytes, the
    /// peer stopped the stream, the half was finished or reset, or the connection was closed. Over MMSP/1, also if it is
    /// empty, or has a payload protocol from 0x4D570000 to 0x4D57FFFF.
    pub async fn send_message(
        &mut self,
        data: Bytes,
        options: MessageOptions,
    ) -> Result<MessageToken, WriteError> {
        self.check_message(&data, options)?;
        poll_fn(|context| self.half.pipes.send().poll_room(context, Kind::Messages)).await?;
        Ok(self.push_message(data, options))
    }

    /// As [`send_message`](Self::send_message), but does not wait: `None` if the queue for the driver is full. For data
    /// that is better lost than late.
    ///
    /// ```
    /// # use manyway::{SendStream, WriteError};
    /// use manyway::{MessageOptions, Order};
    ///
    /// fn pass_on(stream: &mut SendStream, datagram: Vec<u8>) -> Result<bool, WriteError> {
    ///     let options = MessageOptions::default().order(Order::Unordered);
    ///     Ok(stream.try_send_message(datagram.into(), options)?.is_some())
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`send_message`](Self::send_message).
    pub fn try_send_message(
        &mut self,
        data: Bytes,
        options: MessageOptions,
    ) -> Result<Option<MessageToken>, WriteError> {
        self.check_message(&data, options)?;
        let idle = Context::from_waker(Waker::noop());
        match self.half.pipes.send().poll_room(&idle, Kind::Messages) {
            Poll::Ready(room) => drop(room?),
            Poll::Pending => return Ok(None),
        }
        Ok(Some(self.push_message(data, options)))
    }

    fn check_message(&self, data: &Bytes, options: MessageOptions) -> Result<(), WriteError> {
        let size = data.len() as u64;
        if self.half.link.wire() == Wire::Mmsp1 {
            // spec 3.35, 3.37
            if size == 0 {
                return Err(WriteError::EmptyMessage);
            }
            if RESERVED.contains(&options.protocol) {
                return Err(WriteError::ReservedProtocol(options.protocol));
            }
        }
        match self.half.link.max_message() {
            None => Err(WriteError::NoMessages),
            Some(most) if size > most => Err(WriteError::TooLarge { size, most }),
            Some(_) => Ok(()),
        }
    }

    fn push_message(&self, data: Bytes, options: MessageOptions) -> MessageToken {
        let (token, wake) = self.half.pipes.send().push_message(data, options);
        self.half.wake_driver(wake);
        token
    }

    /// Marks the end of the stream; does not wait.
    ///
    /// # Errors
    /// If it was finished or reset before or stopped by the peer, or the connection was closed.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        let wake = self.half.pipes.send().finish()?;
        self.half.wake_driver(wake);
        Ok(())
    }

    /// Waits until the peer has acknowledged every byte and the end of the stream. Finish it before: until then this
    /// waits for the peer to stop the stream or for the connection to end.
    ///
    /// # Errors
    /// If the peer stopped the stream, this end reset it, or the connection ended before.
    pub async fn delivered(&mut self) -> Result<(), WriteError> {
        poll_fn(|context| self.half.pipes.send().poll_delivered(context)).await
    }

    /// Resets the stream: unsent data is dropped, the reader learns `code`. Has no effect once everything is delivered.
    pub fn reset(&mut self, code: u64) {
        self.half.reset(code);
    }

    /// Sets the priority: higher goes first, equal ones share. Default 0.
    pub fn set_priority(&mut self, priority: i8) {
        let link = &self.half.link;
        link.send(Command::Priority { handle: link.handle(), stream: self.id(), priority });
    }

    /// Sets the class of the stream: among equal priorities the more urgent class goes first, and data of the classes
    /// interactive and deadline goes by the path on which it arrives first. On a stream of messages it applies to later
    /// ones without a class of their own. Default [`Class::Bulk`].
    pub fn set_class(&mut self, class: Class) {
        let link = &self.half.link;
        link.send(Command::Class { handle: link.handle(), stream: self.id(), class });
    }

    /// Binds what is sent on the stream to a path or to the paths of an interface, or with `None` leaves the choice to
    /// the scheduler again. While that place carries no data the stream uses another path. Interactive data and data
    /// with a deadline go where they arrive first in any case.
    ///
    /// Returns false, and changes nothing, if the scheduler of this end binds no streams (`stream-bound` does), there
    /// is no such path, or the stream has ended.
    ///
    /// ```
    /// use manyway::scheduler::Binding;
    /// use manyway::{Connection, SendStream};
    ///
    /// /// Sends a stream over the interface with this index, as long as one of its paths works.
    /// async fn over(connection: &Connection, interface: u32) -> Result<SendStream, Box<dyn std::error::Error>> {
    ///     let (mut stream, _) = connection.open().await?;
    ///     if !stream.bind(Some(Binding::Interface(interface))).await? {
    ///         return Err("set the scheduler stream-bound".into());
    ///     }
    ///     Ok(stream)
    /// }
    /// ```
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn bind(&mut self, to: Option<Binding>) -> Result<bool, ConnectionError> {
        let link = &self.half.link;
        let (handle, stream) = (link.handle(), self.id());
        link.ask(|reply| Command::BindStream { handle, stream, to, reply }).await
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let room = ready!(self.half.pipes.send().poll_room(context, Kind::Bytes))?;
        let (now, _) = data.split_at(data.len().min(room).min(CHUNK));
        // Copied without the lock: meanwhile the room can only grow.
        let chunk = Bytes::copy_from_slice(now);
        let wake = self.half.pipes.send().push(chunk);
        self.half.wake_driver(wake);
        Poll::Ready(Ok(now.len()))
    }

    /// Nothing is held back here: always ready.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Finishes the stream and waits until the peer has all of it.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.half.pipes.send().ending() == Ending::Open {
            self.finish()?;
        }
        self.half.pipes.send().poll_delivered(context).map_err(io::Error::from)
    }
}
