//! What the application is told.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::{PathId, StreamId};

use crate::path::{PathReason, PathState, PingToken, Role};
use crate::{ConnectionError, FourTuple, MessageToken};

/// Something that the application may want to know of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The set-up is complete: streams may be opened, and the peer is who it should be.
    Connected,
    /// The peer opened a stream; [`accept`](crate::Connection::accept_stream) gives it.
    StreamOpened,
    /// More streams may be opened.
    StreamsAvailable,
    /// Bytes, a message, the end or a reset wait on a stream.
    StreamReadable(StreamId),
    /// A stream whose buffer was full takes bytes or messages again.
    StreamWritable(StreamId),
    /// The peer has all bytes of a finished stream.
    StreamFinished(StreamId),
    /// The peer wants no more bytes on a stream.
    StreamStopped {
        /// The stream.
        stream: StreamId,
        /// The application's reason.
        code: u64,
    },
    /// A message was given up before the peer had it as a whole, as its [`MessageOptions`](crate::MessageOptions) say.
    MessageAbandoned {
        /// The stream.
        stream: StreamId,
        /// Which of its messages.
        message: MessageToken,
    },
    /// A path came into another state.
    Path(PathEvent),
    /// A [`ping`](crate::Connection::ping) was answered.
    Pong {
        /// The path that was asked, and on which the answer came.
        path: PathId,
        /// Which question.
        token: PingToken,
        /// From the question to its answer.
        rtt: Duration,
    },
    /// The peer sees this address as ours: behind a NAT it differs from our own.
    AddressObserved {
        /// The path it was seen on.
        path: PathId,
        /// Our address as the peer sees it.
        address: SocketAddr,
    },
    /// The peer named or took back addresses of its own, or rendezvous servers; perhaps other interfaces lead there.
    PeerAddresses,
    /// New data goes on this path from now on, by the scheduler `primary`.
    PrimaryPath(PathId),
    /// Data waits because only this path works and it costs more than the last primary that needed no leave:
    /// [`allow_costly`](crate::Connection::allow_costly) lets it go on. Told once, by the scheduler `primary`.
    CostlyPathNeeded(PathId),
    /// This server refused the client's key or its proof of it in the set-up, which ends the connection.
    ClientRefused {
        /// The client's address.
        remote: SocketAddr,
    },
    /// The connection ended; nothing follows.
    Closed(ConnectionError),
}

/// A path that came into another state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathEvent {
    /// The path.
    pub path: PathId,
    /// Its addresses.
    pub tuple: FourTuple,
    /// Its role.
    pub role: Role,
    /// Where it stands now.
    pub state: PathState,
    /// Why.
    pub reason: PathReason,
}
