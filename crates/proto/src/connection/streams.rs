//! Streams and messages.

use bytes::Bytes;
use manyway_wire::StreamId;

use super::Connection;
use crate::message::{Carries, MessageOptions, MessageOutcome, MessageToken, SendError};
use crate::scheduler::{Binding, Event};
use crate::stream::{ReadOutcome, WriteError};
use crate::wire::for_connection_wire;
use crate::{ByteCount, Class, Instant, Misuse, TargetRate};

impl Connection {
    /// Opens a stream.
    ///
    /// # Errors
    /// [`Misuse::NoStreamCredit`] if the peer allows no more now, [`Misuse::ConnectionClosed`] at the end.
    pub fn open_stream(&mut self) -> Result<StreamId, Misuse> {
        self.check_usable()?;
        for_connection_wire!(&mut self.wire, wire => wire.streams.open())
    }

    /// Takes the next stream that the peer opened.
    pub fn accept_stream(&mut self) -> Option<StreamId> {
        for_connection_wire!(&mut self.wire, wire => wire.streams.accept())
    }

    /// Writes bytes to a stream without copying them; returns how many were taken. If not all,
    /// [`Event::StreamWritable`](crate::Event::StreamWritable) follows.
    ///
    /// # Errors
    /// If nothing more can be written to the stream, or the peer stopped it.
    pub fn write(&mut self, stream: StreamId, data: Bytes) -> Result<usize, WriteError> {
        self.check_usable()?;
        for_connection_wire!(&mut self.wire, wire => wire.streams.write(stream, data))
    }

    /// Marks the end of the data of a stream; [`Event::StreamFinished`](crate::Event::StreamFinished) follows when the
    /// peer has all of it.
    ///
    /// # Errors
    /// If the stream's sending half has ended, or the peer stopped it.
    pub fn finish(&mut self, stream: StreamId) -> Result<(), WriteError> {
        self.check_usable()?;
        for_connection_wire!(&mut self.wire, wire => wire.streams.finish(stream))
    }

    /// Abandons the sending half of a stream; the peer gets `code`.
    ///
    /// # Errors
    /// If the stream's sending half has ended.
    pub fn reset(&mut self, stream: StreamId, code: u64) -> Result<(), Misuse> {
        self.check_usable()?;
        for_connection_wire!(&mut self.wire, wire => wire.streams.reset(stream, code))
    }

    /// Asks the peer to send no more on a stream.
    ///
    /// # Errors
    /// If the stream's receiving half has ended.
    pub fn stop(&mut self, stream: StreamId, code: u64) -> Result<(), Misuse> {
        self.check_usable()?;
        for_connection_wire!(&mut self.wire, wire => wire.streams.stop(stream, code))
    }

    /// Sets a stream's priority: higher goes first, equal ones share. Default 0.
    ///
    /// # Errors
    /// If there is no such stream.
    pub fn set_priority(&mut self, stream: StreamId, priority: i8) -> Result<(), Misuse> {
        for_connection_wire!(&mut self.wire, wire => wire.streams.set_priority(stream, priority))
    }

    /// Holds the rate at which a stream arrives ([`TargetRate`]), until it has ended or `None` is set. Targets of several
    /// streams are held together, as their sum, with the other settings of the newest; windows of paths over TCP are set
    /// by the driver ([`carrier_windows`](Self::carrier_windows)). [`Event::TargetRate`](crate::Event::TargetRate) follows
    /// once in each interval. Without effect over MMSP/1, whose peer has one window for all paths.
    ///
    /// # Errors
    /// If the stream's receiving half has ended. The target has to be valid ([`TargetRate::validate`]).
    pub fn set_target_rate(
        &mut self,
        now: Instant,
        stream: StreamId,
        target: Option<TargetRate>,
    ) -> Result<(), Misuse> {
        self.check_usable()?;
        match self.parts() {
            Some((engine, mmsp2)) => mmsp2.target_holder(engine).set(now, stream, target),
            None => Ok(()),
        }
    }

    /// Takes at most `max` bytes from a stream, in order.
    ///
    /// # Errors
    /// If the stream's receiving half has ended.
    pub fn read(&mut self, stream: StreamId, max: usize) -> Result<ReadOutcome, Misuse> {
        for_connection_wire!(&mut self.wire, wire => wire.streams.read(stream, max))
    }

    /// Sends a message on a stream: completely or, if `options` permit it, not at all. The first message decides that
    /// this direction of the stream carries messages, and never bytes.
    ///
    /// # Errors
    /// [`SendError::TooLarge`] above [`Self::max_message`], [`SendError::Full`] if too much data waits already, and
    /// if nothing can be sent on the stream; nothing was taken then.
    pub fn send_message(
        &mut self,
        now: Instant,
        stream: StreamId,
        data: Bytes,
        options: MessageOptions,
    ) -> Result<MessageToken, SendError> {
        self.check_usable()?;
        for_connection_wire!(&mut self.wire, wire => wire.streams.send_message(now, stream, data, options))
    }

    /// Takes the next message of a stream: ordered ones in their order, others on arrival.
    ///
    /// # Errors
    /// If the stream's receiving half has ended, or carries bytes.
    pub fn receive_message(&mut self, stream: StreamId) -> Result<MessageOutcome, Misuse> {
        for_connection_wire!(&mut self.wire, wire => wire.streams.receive_message(stream))
    }

    /// The size in bytes of the message that [`Self::receive_message`] would take next; `None` if none waits, or
    /// there is no such stream.
    pub fn next_message(&self, stream: StreamId) -> Option<usize> {
        for_connection_wire!(&self.wire, wire => wire.streams.next_message(stream))
    }

    /// The size of the largest message that may be sent, in bytes; `None` if one of the ends accepts none.
    pub fn max_message(&self) -> Option<u64> {
        for_connection_wire!(&self.wire, wire => wire.streams.most_message())
    }

    /// The kind of data that the peer sends on a stream, once any has arrived.
    ///
    /// # Errors
    /// If there is no such stream.
    pub fn carries(&mut self, stream: StreamId) -> Result<Carries, Misuse> {
        for_connection_wire!(&mut self.wire, wire => wire.streams.carries(stream))
    }

    /// Sets the class of a stream: among equal priorities the more urgent class goes first, and interactive data and
    /// data with a deadline use the path on which they arrive first. Default [`Class::Bulk`]. For messages it applies
    /// to future ones without a class of their own.
    ///
    /// # Errors
    /// If there is no such stream.
    pub fn set_class(&mut self, stream: StreamId, class: Class) -> Result<(), Misuse> {
        for_connection_wire!(&mut self.wire, wire => wire.streams.set_class(stream, class))
    }

    /// Binds what this end sends on a stream to a path or to the paths of an interface, or with `None` leaves the
    /// choice to the scheduler again (Goff-Phatak IV). While the place carries no data, because it does not work or
    /// is a backup that is not needed, the stream uses another path. The binding holds for bulk data and its
    /// retransmissions: interactive data and data with a deadline go where they arrive first, whatever the scheduler.
    /// The last 1024 streams that had data to send or were bound are remembered.
    ///
    /// ```
    /// use manyway_proto::scheduler::Binding;
    /// use manyway_proto::{Connection, Misuse, PathId, StreamId};
    ///
    /// /// Sends two streams on two paths.
    /// fn separate(connection: &mut Connection, streams: [StreamId; 2], paths: [PathId; 2]) -> Result<(), Misuse> {
    ///     for (stream, path) in streams.into_iter().zip(paths) {
    ///         connection.bind_stream(stream, Some(Binding::Path(path)))?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// If there is no such stream or path, the connection is not established, or the scheduler of this end binds no
    /// streams: `stream-bound` does.
    pub fn bind_stream(&mut self, stream: StreamId, to: Option<Binding>) -> Result<(), Misuse> {
        self.carries(stream)?;
        self.check_path(match to {
            Some(Binding::Path(path)) => Some(path),
            Some(Binding::Interface(_)) | None => None,
        })?;
        let scheduler = &mut self.engine.sending.scheduler;
        if !scheduler.binds_streams() {
            return Err(Misuse::SchedulerBindsNoStreams);
        }
        scheduler.on_event(&Event::StreamBound { stream, to });
        Ok(())
    }

    /// Stream bytes that the application has written and the peer has not acknowledged: sent, to be sent, or waiting
    /// for flow-control credit. Costs O(streams).
    pub fn unacknowledged(&self) -> ByteCount {
        for_connection_wire!(&self.wire, wire => wire.streams.unacknowledged())
    }
}
