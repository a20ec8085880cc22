//! The carriers of traffic: each provides lanes, and everything else is the same for all.

mod child;
mod datagrams;
mod external;
mod multipath;
mod namespace;
mod places;
mod sockets;
mod streams;
mod tcp;

use std::time::Duration;

use manyway::ConnectionConfig;
use tokio::time::{Instant, sleep};

use super::document::{Assignment, CarrierSpec};
use super::lane::Lane;
use crate::outcome::Control;

/// The connection of a contender, at one end.
pub(super) enum Carrier {
    Streams(Box<streams::Streams>),
    Tcp(tcp::Tcp),
    Sockets(sockets::Sockets),
    External(external::External),
    Datagrams(datagrams::Datagrams),
}

impl Carrier {
    /// Takes the first steps, which do not need the other end; returns the listening port, or 0.
    pub(super) fn listen(assignment: &Assignment, config: &ConnectionConfig) -> Result<(Self, u16), String> {
        Ok(match &assignment.carrier {
            CarrierSpec::Manyway(spec) => {
                let (streams, port) = streams::Streams::listen(assignment, spec, config)?;
                (Self::Streams(Box::new(streams)), port)
            }
            CarrierSpec::Tcp(spec) => {
                let (tcp, port) = tcp::Tcp::listen(assignment.end, spec)?;
                (Self::Tcp(tcp), port)
            }
            CarrierSpec::Sockets(spec) => {
                let sockets = sockets::Sockets::listen(assignment, spec)?;
                (Self::Sockets(sockets), 0)
            }
            CarrierSpec::External(spec) => (Self::External(external::External::listen(assignment, spec)?), 0),
            CarrierSpec::Udp { remote, segment } => {
                let (datagrams, port) = datagrams::Datagrams::listen(assignment.end, *remote, *segment)?;
                (Self::Datagrams(datagrams), port)
            }
        })
    }

    /// Waits, for a limited time, until it accepts connections.
    pub(super) async fn listening(&mut self, assignment: &Assignment) -> Result<(), String> {
        match self {
            Self::Streams(_) | Self::Tcp(_) | Self::Sockets(_) | Self::Datagrams(_) => Ok(()),
            Self::External(external) => external.listening(assignment).await,
        }
    }

    /// Connects to the other end, which listens on `port`; returns the lanes of each exchange.
    pub(super) async fn connect(
        &mut self,
        assignment: &Assignment,
        port: u16,
    ) -> Result<Vec<Vec<Lane>>, String> {
        match self {
            Self::Streams(streams) => streams.connect(assignment, port).await,
            Self::Tcp(tcp) => tcp.connect(assignment, port).await,
            Self::Sockets(sockets) => sockets.connect(assignment).await,
            Self::External(external) => external.connect(assignment).await,
            Self::Datagrams(datagrams) => Ok(datagrams.connect(port)),
        }
    }

    /// Waits, for a limited time, until all routes are in use; returns remarks for the reader of the figures.
    pub(super) async fn settle(&mut self) -> Vec<String> {
        match self {
            Self::Streams(streams) => streams.settle().await,
            Self::Tcp(tcp) => tcp.settle().await,
            Self::Sockets(_) => {
                // Whatever carries them brings up its further paths.
                sleep(SETTLE).await;
                Vec::new()
            }
            Self::External(_) | Self::Datagrams(_) => Vec::new(),
        }
    }

    /// Whether a connection without a working path was given up, as the lab expects it.
    pub(super) async fn has_given_up(&self) -> bool {
        match self {
            Self::Streams(streams) => streams.has_given_up().await,
            Self::Tcp(_) | Self::Sockets(_) | Self::External(_) | Self::Datagrams(_) => false,
        }
    }

    /// What it has done to hold target rates since a time.
    pub(super) fn control(&self, begin: Instant) -> Vec<Control> {
        match self {
            Self::Streams(streams) => streams.control(begin),
            Self::Tcp(_) | Self::Sockets(_) | Self::External(_) | Self::Datagrams(_) => Vec::new(),
        }
    }

    /// Ends what must end before the report; returns the failure of a program.
    pub(super) async fn end(&mut self) -> Option<String> {
        match self {
            Self::Streams(_) | Self::Tcp(_) | Self::Sockets(_) | Self::Datagrams(_) => None,
            Self::External(external) => external.end().await,
        }
    }

    /// Ends it, once the other end has everything.
    pub(super) async fn close(self) {
        if let Self::Streams(streams) = self {
            streams.close().await;
        }
    }
}

/// Time for the paths of a verb to come up.
const SETTLE: Duration = Duration::from_millis(500);
