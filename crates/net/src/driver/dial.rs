//! The TCP of a driver: its connections, who decides about them, and the attempts to connect.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use manyway_proto::{Instant, LocalAddress};
use tokio::sync::mpsc;
use tokio::time::Instant as TokioInstant;

use super::dialling::{Dialler, Target, TcpSlotId};
use super::peer::ClientId;
use super::tcp::TcpStreams;
use crate::carriers::CarrierOptions;
use crate::options::EndpointOptions;
use crate::tcp::{RecordStream, Settings, connect};

/// A server that does not answer is given up after this time.
const CONNECT: Duration = Duration::from_secs(3);

/// What TCP carries, and who decides what it is to carry.
pub(super) struct Tcp {
    pub(super) streams: TcpStreams,
    pub(super) dialler: Dialler,
    /// TCP connections on each interface that uses TCP, if no target rate wants another number.
    connections: usize,
    dialled: mpsc::UnboundedReceiver<Dialled>,
    /// Where attempts report.
    results: mpsc::UnboundedSender<Dialled>,
}

/// Why a TCP connection is set up.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// For a slot.
    Slot(TcpSlotId),
    /// For the race between all pairs of addresses.
    Race,
}

/// The result of an attempt to connect.
pub(super) struct Dialled {
    pub(super) client: ClientId,
    pub(super) purpose: Purpose,
    pub(super) took: Duration,
    pub(super) local: LocalAddress,
    pub(super) remote: SocketAddr,
    pub(super) result: io::Result<RecordStream>,
}

impl Tcp {
    pub(super) fn new(options: &EndpointOptions) -> Self {
        let CarrierOptions { congestion, via, .. } = options.carriers.clone();
        let settings = Settings { congestion, via, mark: options.mark, resolver: options.resolver() };
        let (results, dialled) = mpsc::unbounded_channel();
        Self {
            streams: TcpStreams::new(settings, options.ledger.is_some()),
            dialler: Dialler::new(
                options.carriers.choice,
                options.connection.pairs,
                options.carriers.tls_port,
            ),
            connections: usize::from(options.carriers.connections),
            dialled,
            results,
        }
    }

    pub(super) fn connections(&self) -> usize {
        self.connections
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.streams.deadline().into_iter().chain(self.dialler.deadline()).min()
    }

    /// Takes the result of an attempt.
    pub(super) fn poll_dialled(&mut self, context: &mut Context<'_>) -> Poll<Option<Dialled>> {
        self.dialled.poll_recv(context)
    }

    /// Connects, in a task of its own.
    pub(super) fn dial(&self, client: ClientId, purpose: Purpose, local: LocalAddress, target: Target) {
        let (settings, results) = (self.streams.settings().clone(), self.results.clone());
        tokio::spawn(async move {
            let mut from = local;
            from.address.set_port(0);
            let start = TokioInstant::now();
            let connecting =
                tokio::time::timeout(CONNECT, connect(from, (target.remote, target.is_tls), settings));
            let result = connecting.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            // The endpoint may have ended meanwhile.
            let _ = results.send(Dialled {
                client,
                purpose,
                took: start.elapsed(),
                local,
                remote: target.remote,
                result,
            });
        });
    }
}
