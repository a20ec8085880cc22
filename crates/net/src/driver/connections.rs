//! The connections as their applications see them: streams, waiting calls, events.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use manyway_proto::{
    ConnectionError, ConnectionHandle, Endpoint, Event, Initiator, Instant, Misuse, ReadOutcome, StreamId,
};
use tokio::sync::{mpsc, oneshot};

use super::Command;
use crate::connection::{Connection, Link, LinkDriver};
use crate::error::{ConnectError, ReadError, WriteError};
use crate::stream::pipe::{Ending, Pipes};
use crate::stream::{ReceiveStream, SendStream, halves};

type StreamReply = oneshot::Sender<(SendStream, ReceiveStream)>;
type ConnectReply = oneshot::Sender<Result<Connection, ConnectError>>;

/// One connection.
struct Entry {
    driver: LinkDriver,
    streams: BTreeMap<StreamId, Arc<Pipes>>,
    openers: VecDeque<(Arc<Link>, StreamReply)>,
}

/// A client whose set-up is not complete.
struct Attempt {
    remotes: Vec<SocketAddr>,
    reply: ConnectReply,
}

pub(super) struct Connections {
    entries: BTreeMap<ConnectionHandle, Entry>,
    attempts: BTreeMap<ConnectionHandle, Attempt>,
    /// Addresses of the peers of client connections.
    remotes: BTreeMap<ConnectionHandle, Vec<SocketAddr>>,
    commands: mpsc::WeakUnboundedSender<Command>,
    /// `None` once no more clients are taken.
    incoming: Option<mpsc::UnboundedSender<Connection>>,
}

impl Connections {
    pub(super) fn new(
        commands: mpsc::WeakUnboundedSender<Command>,
        incoming: mpsc::UnboundedSender<Connection>,
    ) -> Self {
        Self {
            entries: BTreeMap::new(),
            attempts: BTreeMap::new(),
            remotes: BTreeMap::new(),
            commands,
            incoming: Some(incoming),
        }
    }

    pub(super) fn add_client(
        &mut self,
        handle: ConnectionHandle,
        remotes: Vec<SocketAddr>,
        reply: ConnectReply,
    ) {
        self.attempts.insert(handle, Attempt { remotes, reply });
    }

    /// Client connections, those in set-up included.
    pub(super) fn clients(&self) -> Vec<ConnectionHandle> {
        self.attempts.keys().chain(self.remotes.keys()).copied().collect()
    }

    pub(super) fn servers(&self) -> Vec<ConnectionHandle> {
        self.entries.keys().filter(|handle| !self.remotes.contains_key(handle)).copied().collect()
    }

    pub(super) fn handles(&self) -> Vec<ConnectionHandle> {
        self.entries.keys().copied().collect()
    }

    pub(super) fn remotes(&self, handle: ConnectionHandle) -> Option<Vec<SocketAddr>> {
        let attempt = self.attempts.get(&handle).map(|attempt| &attempt.remotes);
        attempt.or_else(|| self.remotes.get(&handle)).cloned()
    }

    pub(super) fn refuse_more(&mut self) {
        self.incoming = None;
    }

    pub(super) fn all_ended(&self) -> bool {
        self.entries.is_empty() && self.attempts.is_empty()
    }

    /// Passes on what the protocol machine has to tell.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the protocol's list is open")]
    pub(super) fn tell_events(&mut self, endpoint: &mut Endpoint, now: Instant) {
        while let Some((handle, event)) = endpoint.poll_event() {
            match event {
                Event::Connected => self.connected(endpoint, handle, now),
                Event::StreamOpened => self.accept_streams(endpoint, handle),
                Event::StreamsAvailable => self.serve_openers(endpoint, handle),
                Event::StreamReadable(stream) => self.read(endpoint, handle, stream),
                Event::StreamWritable(stream) => self.write(endpoint, handle, stream),
                Event::StreamFinished(stream) => self.delivered(handle, stream),
                Event::StreamStopped { stream, code } => self.stopped(handle, stream, code),
                Event::Closed(error) => self.closed(endpoint, handle, error),
                other @ (Event::Path(_) | Event::AddressObserved { .. }) => {
                    if let Some(entry) = self.entries.get(&handle) {
                        // Nobody may be listening.
                        let _ = entry.driver.events.send(other);
                    }
                }
                _ => {}
            }
        }
    }

    fn connected(&mut self, endpoint: &mut Endpoint, handle: ConnectionHandle, now: Instant) {
        let Some(commands) = self.commands.upgrade() else { return };
        let Some(connection) = endpoint.connection(handle) else { return };
        let (link, driver) = Link::new(handle, commands);
        link.set_peer_key(connection.peer_public_key());
        let entry = Entry { driver, streams: BTreeMap::new(), openers: VecDeque::new() };
        self.entries.insert(handle, entry);
        let application = Connection::new(link);
        // If nobody takes the connection, dropping it closes it.
        match connection.side() {
            Initiator::Client => {
                if let Some(attempt) = self.attempts.remove(&handle) {
                    self.remotes.insert(handle, attempt.remotes);
                    let _ = attempt.reply.send(Ok(application));
                }
            }
            Initiator::Server => match &self.incoming {
                Some(incoming) => {
                    let _ = incoming.send(application);
                }
                None => connection.close(now, 0, "the server is closing"),
            },
        }
    }

    pub(super) fn open_stream(&mut self, endpoint: &mut Endpoint, link: &Arc<Link>, reply: StreamReply) {
        if let Some(entry) = self.entries.get_mut(&link.handle()) {
            entry.openers.push_back((Arc::clone(link), reply));
            self.serve_openers(endpoint, link.handle());
        }
    }

    fn serve_openers(&mut self, endpoint: &mut Endpoint, handle: ConnectionHandle) {
        let Some(entry) = self.entries.get_mut(&handle) else { return };
        let Some(connection) = endpoint.connection(handle) else { return };
        while !entry.openers.is_empty() {
            match connection.open_stream() {
                Ok(stream) => {
                    let Some((link, reply)) = entry.openers.pop_front() else { return };
                    let pipes = Arc::new(Pipes::new(stream));
                    entry.streams.insert(stream, Arc::clone(&pipes));
                    // If the caller has gone, its half is dropped and reset.
                    let _ = reply.send(halves(&link, &pipes));
                }
                Err(Misuse::NoStreamCredit { .. }) => return,
                // Dropping the replies tells the callers to look for the connection's end.
                Err(_) => entry.openers.clear(),
            }
        }
    }

    fn accept_streams(&mut self, endpoint: &mut Endpoint, handle: ConnectionHandle) {
        let mut accepted = Vec::new();
        let Some(entry) = self.entries.get_mut(&handle) else { return };
        let Some(connection) = endpoint.connection(handle) else { return };
        while let Some(stream) = connection.accept_stream() {
            let pipes = Arc::new(Pipes::new(stream));
            entry.streams.insert(stream, Arc::clone(&pipes));
            // A connection that nobody holds any more is closing.
            let _ = entry.driver.accepted.send(pipes);
            accepted.push(stream);
        }
        for stream in accepted {
            self.read(endpoint, handle, stream);
        }
    }

    /// Moves bytes from the protocol machine to the reader's queue, while there is room.
    pub(super) fn read(&mut self, endpoint: &mut Endpoint, handle: ConnectionHandle, stream: StreamId) {
        let Some(pipes) = self.entries.get(&handle).and_then(|entry| entry.streams.get(&stream)) else {
            return;
        };
        let Some(connection) = endpoint.connection(handle) else { return };
        let mut pipe = pipes.receive();
        while !pipe.has_ended() {
            let room = pipe.room();
            if room == 0 {
                pipe.full = true;
                break;
            }
            match connection.read(stream, room) {
                Ok(ReadOutcome::Data(chunk)) => pipe.push(chunk),
                Ok(ReadOutcome::End) => pipe.end(Ok(())),
                Ok(ReadOutcome::Reset(code)) => pipe.end(Err(ReadError::Reset(code))),
                Ok(_) | Err(_) => break,
            }
        }
        pipe.wake();
        drop(pipe);
        self.forget_if_over(handle, stream);
    }

    /// Moves bytes and the end from the writer's queue to the protocol machine, as far as it takes them.
    pub(super) fn write(&mut self, endpoint: &mut Endpoint, handle: ConnectionHandle, stream: StreamId) {
        let Some(pipes) = self.entries.get(&handle).and_then(|entry| entry.streams.get(&stream)) else {
            return;
        };
        let Some(connection) = endpoint.connection(handle) else { return };
        let mut pipe = pipes.send();
        if let Ending::Resetting(code) = pipe.ending() {
            // The stream may have ended by itself meanwhile.
            let _ = connection.reset(stream, code);
            pipe.set_ending(Ending::Reset);
        }
        while let Some(mut chunk) = pipe.pop() {
            match connection.write(stream, chunk.clone()) {
                Ok(taken) if taken >= chunk.len() => {}
                Ok(taken) => {
                    // StreamWritable follows: the writer need not wake the driver until then.
                    pipe.unpop(chunk.split_off(taken));
                    pipe.wake_if_roomy();
                    return;
                }
                Err(error) => pipe.fail(write_error(error)),
            }
        }
        pipe.scheduled = false;
        if pipe.ending() == Ending::Finishing {
            match connection.finish(stream) {
                Ok(()) => pipe.set_ending(Ending::Finished),
                Err(error) => pipe.fail(write_error(error)),
            }
        }
        pipe.wake_if_roomy();
        drop(pipe);
        self.forget_if_over(handle, stream);
    }

    /// Passes on what every writer of a connection queued before its close.
    pub(super) fn write_all(&mut self, endpoint: &mut Endpoint, handle: ConnectionHandle) {
        let streams: Vec<_> = self
            .entries
            .get(&handle)
            .map(|entry| entry.streams.keys().copied().collect())
            .unwrap_or_default();
        for stream in streams {
            self.write(endpoint, handle, stream);
        }
    }

    fn delivered(&mut self, handle: ConnectionHandle, stream: StreamId) {
        if let Some(pipes) = self.entries.get(&handle).and_then(|entry| entry.streams.get(&stream)) {
            pipes.send().set_ending(Ending::Delivered);
        }
        self.forget_if_over(handle, stream);
    }

    fn stopped(&self, handle: ConnectionHandle, stream: StreamId, code: u64) {
        if let Some(pipes) = self.entries.get(&handle).and_then(|entry| entry.streams.get(&stream)) {
            pipes.send().fail(WriteError::Stopped(code));
        }
    }

    /// The application wants no more of a stream.
    pub(super) fn forget_receiver(&mut self, handle: ConnectionHandle, stream: StreamId) {
        if let Some(pipes) = self.entries.get(&handle).and_then(|entry| entry.streams.get(&stream)) {
            pipes.receive().end(Err(ReadError::Reset(0)));
        }
        self.forget_if_over(handle, stream);
    }

    fn forget_if_over(&mut self, handle: ConnectionHandle, stream: StreamId) {
        let Some(entry) = self.entries.get_mut(&handle) else { return };
        let over = entry.streams.get(&stream).is_some_and(|pipes| {
            let sent = matches!(pipes.send().ending(), Ending::Delivered | Ending::Reset);
            sent && pipes.receive().has_ended()
        });
        if over {
            entry.streams.remove(&stream);
        }
    }

    fn closed(&mut self, endpoint: &mut Endpoint, handle: ConnectionHandle, error: ConnectionError) {
        if let Some(attempt) = self.attempts.remove(&handle) {
            let _ = attempt.reply.send(Err(ConnectError::Failed(error)));
            return;
        }
        self.remotes.remove(&handle);
        let Some(entry) = self.entries.remove(&handle) else { return };
        for (stream, pipes) in &entry.streams {
            // What arrived before the end may still be read.
            drain(endpoint, handle, *stream, pipes);
            pipes.fail(&WriteError::Connection(error.clone()), &ReadError::Connection(error.clone()));
        }
        let _ = entry.driver.events.send(Event::Closed(error.clone()));
        entry.driver.closed.send_replace(Some(error));
    }
}

fn drain(endpoint: &mut Endpoint, handle: ConnectionHandle, stream: StreamId, pipes: &Pipes) {
    let Some(connection) = endpoint.connection(handle) else { return };
    let mut pipe = pipes.receive();
    while !pipe.has_ended() {
        match connection.read(stream, usize::MAX) {
            Ok(ReadOutcome::Data(chunk)) => pipe.push(chunk),
            Ok(ReadOutcome::End) => pipe.end(Ok(())),
            Ok(ReadOutcome::Reset(code)) => pipe.end(Err(ReadError::Reset(code))),
            Ok(_) | Err(_) => return,
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the protocol's list is open")]
fn write_error(error: manyway_proto::WriteError) -> WriteError {
    match error {
        manyway_proto::WriteError::Stopped(code) => WriteError::Stopped(code),
        _ => WriteError::Finished,
    }
}
