//! The streams as their applications see them: moves bytes between the protocol machine and the pipes.

use std::sync::{Arc, Weak};

use manyway_proto::{
    Carries, Connection, ConnectionHandle, Endpoint, Instant, MessageOutcome, Misuse, ReadOutcome, SendError,
    StreamId,
};

use super::connections::Connections;
use crate::error::{ReadError, WriteError};
use crate::link::{Link, StreamReply, halves};
use crate::stream::pipe::{Arrived, Chunk, Ending, Pipes, ReceivePipe};

impl Connections {
    pub(super) fn open_stream(&mut self, endpoint: &mut Endpoint, link: Weak<Link>, reply: StreamReply) {
        let Some(handle) = link.upgrade().map(|link| link.handle()) else { return };
        if let Some(entry) = self.entries.get_mut(&handle) {
            // Callers that gave up would accumulate.
            entry.openers.retain(|(_, reply)| !reply.is_closed());
            entry.openers.push_back((link, reply));
            self.serve_openers(endpoint, handle);
        }
    }

    pub(super) fn serve_openers(&mut self, endpoint: &mut Endpoint, handle: ConnectionHandle) {
        let Some(entry) = self.entries.get_mut(&handle) else { return };
        let Some(connection) = endpoint.connection(handle) else { return };
        while let Some((link, reply)) = entry.openers.pop_front() {
            if reply.is_closed() {
                continue;
            }
            let Some(link) = link.upgrade() else { continue };
            match connection.open_stream() {
                Ok(stream) => {
                    let pipes = Arc::new(Pipes::new(stream, &entry.budget));
                    entry.streams.insert(stream, Arc::clone(&pipes));
                    // If the caller has gone, its halves are dropped, which resets and stops the stream.
                    let _ = reply.send(halves(&link, &pipes));
                }
                Err(Misuse::NoStreamCredit { .. }) => {
                    entry.openers.push_front((Arc::downgrade(&link), reply));
                    return;
                }
                // Dropping the replies makes the callers check for the end of the connection.
                Err(_) => entry.openers.clear(),
            }
        }
    }

    /// Passes streams of the peer on to the application, as far as it takes them.
    pub(super) fn accept_streams(
        &mut self,
        endpoint: &mut Endpoint,
        handle: ConnectionHandle,
        has_ended: bool,
    ) {
        let mut accepted = Vec::new();
        let Some(entry) = self.entries.get_mut(&handle) else { return };
        let Some(connection) = endpoint.connection(handle) else { return };
        while entry.driver.takes_stream(has_ended)
            && let Some(stream) = connection.accept_stream()
        {
            let pipes = Arc::new(Pipes::new(stream, &entry.budget));
            entry.streams.insert(stream, Arc::clone(&pipes));
            // A connection without any handle is closing.
            let _ = entry.driver.accepted.try_send(pipes);
            accepted.push(stream);
        }
        for stream in accepted {
            self.read(endpoint, handle, stream);
        }
    }

    fn pipes(&self, handle: ConnectionHandle, stream: StreamId) -> Option<&Arc<Pipes>> {
        self.entries.get(&handle)?.streams.get(&stream)
    }

    /// Moves bytes from the protocol machine to the reader's queue, as far as it has room.
    pub(super) fn read(&mut self, endpoint: &mut Endpoint, handle: ConnectionHandle, stream: StreamId) {
        let Some(pipes) = self.pipes(handle, stream) else { return };
        let Some(connection) = endpoint.connection(handle) else { return };
        let mut pipe = pipes.receive();
        while !pipe.has_ended() {
            let room = pipe.room();
            if room == 0 {
                break;
            }
            if !take(connection, stream, room, &mut pipe) {
                break;
            }
        }
        pipe.wake();
        drop(pipe);
        self.forget_if_over(handle, stream);
    }

    /// Moves bytes and the end from the writer's queue to the protocol machine, as far as it accepts them.
    pub(super) fn write(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        handle: ConnectionHandle,
        stream: StreamId,
    ) {
        let Some(pipes) = self.pipes(handle, stream) else { return };
        let Some(connection) = endpoint.connection(handle) else { return };
        let mut pipe = pipes.send();
        let queued = pipe.queued();
        while let Some(chunk) = pipe.pop() {
            match give(connection, now, stream, chunk) {
                Given::Taken => {}
                Given::Left(chunk) => {
                    // StreamWritable follows: the writer need not wake the driver before.
                    pipe.unpop(chunk);
                    pipe.wake_if_roomy(queued);
                    return;
                }
                Given::Failed(error) => pipe.fail(error),
            }
        }
        pipe.set_drained();
        match pipe.ending() {
            Ending::Finishing => match connection.finish(stream) {
                Ok(()) => pipe.set_ending(Ending::Finished),
                Err(error) => pipe.fail(write_error(error)),
            },
            Ending::Resetting(code) => {
                // The stream may have ended meanwhile.
                let _ = connection.reset(stream, code);
                pipe.set_ending(Ending::Reset);
            }
            Ending::Open | Ending::Finished | Ending::Delivered | Ending::Reset => {}
        }
        pipe.wake_if_roomy(queued);
        drop(pipe);
        self.forget_if_over(handle, stream);
        self.note_handed_over(endpoint, now, handle, stream);
    }

    pub(super) fn delivered(&mut self, handle: ConnectionHandle, stream: StreamId) {
        if let Some(pipes) = self.pipes(handle, stream) {
            pipes.send().set_ending(Ending::Delivered);
        }
        self.forget_if_over(handle, stream);
    }

    pub(super) fn stopped(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        (handle, stream): (ConnectionHandle, StreamId),
        code: u64,
    ) {
        if let Some(pipes) = self.pipes(handle, stream) {
            pipes.send().fail(WriteError::Stopped(code));
        }
        self.forget_if_over(handle, stream);
        self.note_handed_over(endpoint, now, handle, stream);
    }

    /// Handles a stream that the application has stopped reading.
    pub(super) fn forget_receiver(&mut self, handle: ConnectionHandle, stream: StreamId) {
        if let Some(pipes) = self.pipes(handle, stream) {
            pipes.receive().end(Err(ReadError::Stopped));
        }
        self.forget_if_over(handle, stream);
    }

    /// Moves everything that arrived to the readers' queues: the connection has ended, and credit bounds the amount.
    pub(super) fn drain(&self, endpoint: &mut Endpoint, handle: ConnectionHandle) {
        let Some(entry) = self.entries.get(&handle) else { return };
        let Some(connection) = endpoint.connection(handle) else { return };
        for (stream, pipes) in &entry.streams {
            let mut pipe = pipes.receive();
            while !pipe.has_ended() && take(connection, *stream, usize::MAX, &mut pipe) {}
        }
    }

    fn forget_if_over(&mut self, handle: ConnectionHandle, stream: StreamId) {
        if self.pipes(handle, stream).is_some_and(|pipes| pipes.is_over())
            && let Some(entry) = self.entries.get_mut(&handle)
        {
            entry.streams.remove(&stream);
        }
    }
}

/// Moves the next bytes, at most `room`, or the next message to the reader's queue; returns false if there is none now.
fn take(connection: &mut Connection, stream: StreamId, room: usize, pipe: &mut ReceivePipe) -> bool {
    if connection.carries(stream) == Ok(Carries::Messages) {
        if connection.next_message(stream).is_some_and(|size| pipe.holds_back(size, room)) {
            return false;
        }
        match connection.receive_message(stream) {
            Ok(MessageOutcome::Message(message)) => pipe.push(Arrived::Message(message)),
            Ok(MessageOutcome::End) => pipe.end(Ok(())),
            Ok(MessageOutcome::Reset(code)) => pipe.end(Err(ReadError::Reset(code))),
            Ok(_) | Err(_) => return false,
        }
        return true;
    }
    match connection.read(stream, room) {
        Ok(ReadOutcome::Data(chunk)) => pipe.push(Arrived::Bytes(chunk)),
        Ok(ReadOutcome::End) => pipe.end(Ok(())),
        Ok(ReadOutcome::Reset(code)) => pipe.end(Err(ReadError::Reset(code))),
        Ok(_) | Err(_) => return false,
    }
    true
}

/// The outcome of handing over a chunk.
enum Given {
    Taken,
    /// The send buffer is full; this is what is left of the chunk.
    Left(Chunk),
    Failed(WriteError),
}

/// Hands a chunk to the protocol machine.
fn give(connection: &mut Connection, now: Instant, stream: StreamId, chunk: Chunk) -> Given {
    match chunk {
        Chunk::Bytes(mut bytes) => match connection.write(stream, bytes.clone()) {
            Ok(taken) if taken >= bytes.len() => Given::Taken,
            Ok(taken) => Given::Left(Chunk::Bytes(bytes.split_off(taken))),
            // The end of the connection is about to be reported.
            Err(manyway_proto::WriteError::Misuse(Misuse::ConnectionClosed)) => {
                Given::Left(Chunk::Bytes(bytes))
            }
            Err(error) => Given::Failed(write_error(error)),
        },
        Chunk::Message(data, options, since) => {
            let mut rest = options;
            rest.lifetime = options.lifetime.map(|lifetime| lifetime.saturating_sub(since.elapsed()));
            match connection.send_message(now, stream, data.clone(), rest) {
                Ok(_) => Given::Taken,
                Err(SendError::Full | SendError::Misuse(Misuse::ConnectionClosed)) => {
                    Given::Left(Chunk::Message(data, options, since))
                }
                Err(error) => Given::Failed(send_error(error)),
            }
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the protocol's list is open")]
fn send_error(error: SendError) -> WriteError {
    match error {
        SendError::Stopped(code) => WriteError::Stopped(code),
        SendError::TooLarge { size, most } => WriteError::TooLarge { size, most },
        SendError::NotAgreed => WriteError::NoMessages,
        _ => WriteError::Finished,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the protocol's list is open")]
fn write_error(error: manyway_proto::WriteError) -> WriteError {
    match error {
        manyway_proto::WriteError::Stopped(code) => WriteError::Stopped(code),
        _ => WriteError::Finished,
    }
}
