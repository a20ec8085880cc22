//! Events for the application.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::{PathId, StreamId};

use crate::path::{PathReason, PathState, PingToken, Role};
use crate::target::report::TargetReport;
use crate::{ConnectionError, FourTuple, MessageToken};

/// An event of a connection for the application.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is complete: streams may be opened, and the peer is authenticated.
    Connected,
    /// The peer opened a stream; [`accept`](crate::Connection::accept_stream) gives it.
    StreamOpened,
    /// More streams may be opened.
    StreamsAvailable,
    /// Bytes, a message, the end or a reset wait on a stream.
    StreamReadable(StreamId),
    /// A stream with a full buffer accepts bytes or messages again.
    StreamWritable(StreamId),
    /// The peer has all bytes of a finished stream.
    StreamFinished(StreamId),
    /// The peer stopped a stream.
    StreamStopped {
        /// The stream.
        stream: StreamId,
        /// The application's code.
        code: u64,
    },
    /// A message was given up before the peer had received it completely, according to its
    /// [`MessageOptions`](crate::MessageOptions).
    MessageAbandoned {
        /// The stream.
        stream: StreamId,
        /// Its token.
        message: MessageToken,
    },
    /// A path changed its state.
    Path(PathEvent),
    /// A [`ping`](crate::Connection::ping) was answered.
    Pong {
        /// The path of the ping and its response.
        path: PathId,
        /// Its token.
        token: PingToken,
        /// The RTT.
        rtt: Duration,
    },
    /// The address of this end as the peer sees it over a datagram carrier: behind a NAT it differs from the local one.
    AddressObserved {
        /// The path of the observation.
        path: PathId,
        /// The address that the peer sees.
        address: SocketAddr,
    },
    /// The peer advertised or withdrew addresses, or rendezvous servers; other interfaces may lead there.
    PeerAddresses,
    /// New data goes on this path from now on, by the scheduler `primary`.
    PrimaryPath(PathId),
    /// Data waits because only this path works and it costs more than the last primary that needed no permission:
    /// [`allow_costly`](crate::Connection::allow_costly) permits it. Reported once, by the scheduler `primary`.
    CostlyPathNeeded(PathId),
    /// A receiver with a target rate has measured and adjusted; once in each interval.
    TargetRate(TargetReport),
    /// The server wants another number of TCP connections ([`wanted_connections`](crate::Connection::wanted_connections)).
    TcpConnections,
    /// This server refused the client's key, or its proof of it, in the handshake, which ends the connection.
    ClientRefused {
        /// The client's address.
        remote: SocketAddr,
    },
    /// The connection ended; nothing follows.
    Closed(ConnectionError),
}

/// A path changed its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathEvent {
    /// The path.
    pub path: PathId,
    /// Its addresses.
    pub tuple: FourTuple,
    /// Its role.
    pub role: Role,
    /// Its present state.
    pub state: PathState,
    /// The reason of the change.
    pub reason: PathReason,
}
