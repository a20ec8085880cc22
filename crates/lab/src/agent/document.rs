//! What agents and the lab tell each other: one JSON document a line.
//!
//! | the lab says | the agent answers |
//! |---|---|
//! | [`Assignment`] | [`Word::Listening`] |
//! | [`Order::Connect`], once both listen | [`Word::Ready`] |
//! | [`Order::Begin`], once both are ready | [`Word::Report`], at the end of its traffic |
//! | [`Order::Finish`], once both have reported; earlier, it cuts the traffic short | nothing, and ends |
//!
//! [`Word::Failed`] may come in the place of any answer. An agent whose input ends, ends at once.

use std::net::IpAddr;
use std::time::Duration;

use manyway_sim::pair::Side;
use serde::{Deserialize, Serialize};

use crate::outcome::Arrivals;

/// What an agent is there for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// Which end it is.
    pub(crate) end: End,
    /// What carries the traffic.
    pub(crate) carrier: CarrierSpec,
    /// What is sent, in the order of the scenario.
    pub(crate) exchanges: Vec<Exchange>,
    /// How long traffic lasts that has no end of its own.
    pub(crate) duration: Duration,
    /// When, since the begin, everything is over, also what is still on its way.
    pub(crate) end_at: Duration,
    /// Makes the keys of the run.
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
    /// Another program.
    External(ExternalSpec),
    /// Datagrams as fast as they go, without any protocol.
    Udp {
        /// The server's address.
        remote: IpAddr,
        /// Payload of each in bytes.
        segment: u16,
    },
}

/// How Manyway runs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ManywaySpec {
    pub(crate) scheduler: Option<String>,
    pub(crate) congestion: Option<String>,
    /// Which pairs of addresses the client uses.
    pub(crate) pairs: Option<String>,
    /// Rules for the interfaces that the client uses, such as `wwan0` or `wwan0,cost=1`; empty: all.
    pub(crate) interfaces: Vec<String>,
    /// Addresses of the server that the client knows.
    pub(crate) remotes: Vec<IpAddr>,
    /// Whether the server tells the client of its other addresses.
    pub(crate) discover: bool,
    /// How many paths there will be.
    pub(crate) paths: usize,
}

/// How kernel TCP runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TcpSpec {
    pub(crate) congestion: String,
    /// A connection each, side by side, for bulk; the first for messages.
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

/// What multipath TCP has to know at this end. The agent must be alone in its network namespace.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Multipath {
    /// Addresses of this end with the names of their interfaces.
    pub(crate) locals: Vec<(IpAddr, String)>,
    /// Whether the server has several addresses.
    pub(crate) is_meshed: bool,
    /// How many subflows a connection will have.
    pub(crate) subflows: usize,
}

/// How another program runs: commands with `{local}` and the like.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ExternalSpec {
    pub(crate) sender: String,
    pub(crate) receiver: String,
    pub(crate) routes: Vec<Pair>,
}

/// What the two ends send each other at the same time.
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

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Load {
    /// As fast as it goes.
    Bulk {
        /// Bytes; `None` for the duration.
        size: Option<u64>,
        /// Most bits a second on average.
        rate: Option<u64>,
        /// Bytes of one write.
        chunk: Option<u64>,
    },
    /// At regular times.
    Messages {
        /// Bytes of each.
        size: usize,
        /// Time between two.
        interval: Duration,
        /// For how long one is of use, if not for ever.
        lifetime: Option<Duration>,
    },
}

/// What the lab tells an agent after the assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub(crate) enum Order {
    /// The other end listens.
    Connect {
        /// Where.
        port: u16,
    },
    /// Start the traffic.
    Begin {
        /// Time 0, in nanoseconds of `CLOCK_MONOTONIC`.
        at: u64,
    },
    /// Report, if that has not happened, and end.
    Finish,
}

/// What an agent tells the lab.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "kebab-case")]
pub(crate) enum Word {
    /// The other end may connect.
    Listening {
        /// To which port.
        port: u16,
    },
    /// Connected.
    Ready {
        /// What a reader of the figures must know.
        remarks: Vec<String>,
    },
    /// What came of it.
    Report(Report),
    /// It can not go on.
    Failed {
        /// Why.
        text: String,
    },
}

/// What an agent has done and seen.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// What it received of each exchange; `None` of those that it only sends.
    pub(crate) received: Vec<Option<Received>>,
    /// How much it sent of each exchange: bytes handed over, with those of a piece that the end has cut, or messages
    /// that were due.
    pub(crate) sent: Vec<Option<u64>>,
    /// Processor time since the begin, user and system. That of another program is counted from its start, and without
    /// what its own programs did that it has not waited for.
    pub(crate) cpu: Duration,
    /// What went wrong first.
    pub(crate) failure: Option<String>,
}

/// What arrived of an exchange.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Received {
    pub(crate) arrivals: Arrivals,
    /// Nanoseconds that each message took, in order of arrival.
    pub(crate) latencies: Vec<u64>,
}
