//! The protocol between agents and the lab: one JSON document a line.
//!
//! | the lab sends | the agent answers |
//! |---|---|
//! | [`Assignment`] | [`Word::Listening`] |
//! | [`Order::Connect`], once both listen | [`Word::Ready`] |
//! | [`Order::Begin`], once both are ready | [`Word::Report`], at the end of its traffic |
//! | [`Order::Finish`], once both have reported; earlier, it cuts the traffic short | nothing, and ends |
//!
//! [`Word::Failed`] may come in the place of any answer. An agent whose input ends, ends at once.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use manyway_sim::pair::Side;
use serde::{Deserialize, Serialize};

use crate::contender::{Carrier, PathDetection, Target, Wire};
use crate::dealing::Dealing;
use crate::outcome::{Arrivals, Control};

/// The task of an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// Its end.
    pub(crate) end: End,
    /// What carries the traffic.
    pub(crate) carrier: CarrierSpec,
    /// The exchanges, in the order of the scenario.
    pub(crate) exchanges: Vec<Exchange>,
    /// How the first exchange is dealt out to its lanes in chunks, if it is.
    pub(crate) dealing: Option<Dealing>,
    /// Duration of traffic without an end of its own.
    pub(crate) duration: Duration,
    /// When everything ends, relative to the start, including data in flight.
    pub(crate) end_at: Duration,
    /// Seed of the keys of the run.
    pub(crate) seed: u64,
}

/// Which end an agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum End {
    /// The end that connects.
    Client,
    /// The end that listens.
    Server,
}

impl End {
    /// Whether this end connects.
    pub(crate) fn is_client(self) -> bool {
        self == Self::Client
    }
}

impl From<Side> for End {
    fn from(side: Side) -> Self {
        match side {
            Side::Client => Self::Client,
            Side::Server => Self::Server,
        }
    }
}

/// What carries the traffic.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum CarrierSpec {
    /// Streams of a Manyway connection.
    Manyway(ManywaySpec),
    /// Kernel TCP connections, independent or multipath.
    Tcp(TcpSpec),
    /// Sockets as any program has them: what carries their data is not known here.
    Sockets(SocketsSpec),
    /// Another program.
    External(ExternalSpec),
    /// Datagrams at full speed, without any protocol.
    Udp {
        /// The server's address.
        remote: IpAddr,
        /// Payload of each in bytes.
        segment: u16,
    },
}

/// Settings of Manyway.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ManywaySpec {
    pub(crate) wire: Wire,
    /// Over MMSP/1.
    pub(crate) detection: PathDetection,
    /// The connection is expected to end after no path has worked for so long.
    pub(crate) no_path: Option<Duration>,
    pub(crate) carrier: Carrier,
    /// TCP connections on each interface.
    pub(crate) connections: Option<u8>,
    /// The rate at which the receiver wants bulk.
    pub(crate) target: Option<Target>,
    pub(crate) scheduler: Option<String>,
    /// Over TCP that of the system.
    pub(crate) congestion: Option<String>,
    /// The address pairs that the client uses.
    pub(crate) pairs: Option<String>,
    /// Rules for the interfaces that the client uses, such as `wwan0` or `wwan0,cost=1`; empty: all.
    pub(crate) interfaces: Vec<String>,
    /// Addresses of the server that the client knows.
    pub(crate) remotes: Vec<IpAddr>,
    /// Whether the server advertises its other addresses.
    pub(crate) discover: bool,
    /// Number of expected paths.
    pub(crate) paths: usize,
    /// The addresses of the path that is to be the primary one; on its own a client takes the one that answers first.
    pub(crate) primary: Option<Pair>,
}

/// Settings of kernel TCP.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TcpSpec {
    pub(crate) congestion: String,
    /// For bulk one parallel connection each; the first for messages.
    pub(crate) pairs: Vec<Pair>,
    pub(crate) multipath: Option<Multipath>,
}

/// The two ends of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pair {
    /// At the client.
    pub(crate) client: IpAddr,
    /// At the server.
    pub(crate) server: IpAddr,
}

/// The parameters of multipath TCP at this end. The agent must be alone in its network namespace.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Multipath {
    /// Addresses of this end with the names of their interfaces.
    pub(crate) locals: Vec<(IpAddr, String)>,
    /// Whether the server has several addresses.
    pub(crate) is_meshed: bool,
    /// Number of expected subflows of a connection.
    pub(crate) subflows: usize,
}

/// Sockets of a program: TCP connections, and UDP for messages with a lifetime, those of exchange N at the port N above
/// that of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SocketsSpec {
    /// Where the server listens.
    pub(crate) listen: SocketAddr,
    /// Where the client connects to.
    pub(crate) connect: SocketAddr,
    /// The SOCKS5 proxy that the client asks to connect.
    pub(crate) proxy: Option<SocketAddr>,
    /// Parallel connections for bulk.
    pub(crate) flows: u8,
}

/// An external program: commands with `{local}` and the like.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ExternalSpec {
    pub(crate) sender: String,
    pub(crate) receiver: String,
    pub(crate) routes: Vec<Pair>,
}

/// Traffic between the two ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Exchange {
    /// From client to server.
    pub(crate) up: bool,
    /// From server to client.
    pub(crate) down: bool,
    pub(crate) load: Load,
}

impl Exchange {
    /// Whether an end sends.
    pub(crate) fn sends(&self, end: End) -> bool {
        match end {
            End::Client => self.up,
            End::Server => self.down,
        }
    }

    /// Whether an end receives.
    pub(crate) fn receives(&self, end: End) -> bool {
        match end {
            End::Client => self.down,
            End::Server => self.up,
        }
    }
}

/// The traffic of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Load {
    /// At full speed.
    Bulk {
        /// Bytes; `None` for the duration.
        size: Option<u64>,
        /// Most bits a second on average.
        rate: Option<u64>,
        /// Bytes of one write.
        chunk: Option<u64>,
    },
    /// At regular intervals.
    Messages {
        /// Bytes of each.
        size: usize,
        /// Interval.
        interval: Duration,
        /// Lifetime, if limited.
        lifetime: Option<Duration>,
    },
}

/// An order of the lab after the assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub(crate) enum Order {
    /// The other end listens.
    Connect {
        /// Its port.
        port: u16,
    },
    /// Starts the traffic.
    Begin {
        /// Time 0, in nanoseconds of `CLOCK_MONOTONIC`.
        at: u64,
    },
    /// Requests the report, if it was not sent, and ends.
    Finish,
}

/// An answer of an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "kebab-case")]
pub(crate) enum Word {
    /// The other end may connect.
    Listening {
        /// Its port.
        port: u16,
    },
    /// Connected.
    Ready {
        /// Remarks for the reader of the figures.
        remarks: Vec<String>,
        /// How long that took.
        took: Duration,
    },
    /// The results.
    Report(Report),
    /// It cannot continue.
    Failed {
        /// Why.
        text: String,
    },
}

/// The results of an agent.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Data received of each exchange; `None` for those that it only sends.
    pub(crate) received: Vec<Option<Received>>,
    /// Data sent of each exchange: bytes written, including those of a piece cut by the end, or messages that were due.
    pub(crate) sent: Vec<Option<u64>>,
    /// Processor time since the start, user and system. That of an external program counts from its start, without the
    /// children that it has not waited for.
    pub(crate) cpu: Duration,
    /// When it gave the connection up, from the start of the traffic, if that was expected.
    pub(crate) ended: Option<Duration>,
    /// What it did to hold target rates.
    pub(crate) control: Vec<Control>,
    /// The first failure.
    pub(crate) failure: Option<String>,
}

/// Data received of an exchange.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Received {
    pub(crate) arrivals: Arrivals,
    /// Latency of each message in nanoseconds, in order of arrival.
    pub(crate) latencies: Vec<u64>,
    /// Messages that arrived after a later one.
    pub(crate) overtaken: u64,
    /// The most bytes that a program held which puts them into order itself.
    pub(crate) most_held: Option<u64>,
}
