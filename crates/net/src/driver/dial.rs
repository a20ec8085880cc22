//! The TCP of a driver: its connections, who decides about them, and the connections that are being set up.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use manyway_proto::{Instant, LocalAddress};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant as TokioInstant;

use super::dialling::{Dialler, Target, TcpSlotId, is_same_host};
use super::peer::ClientId;
use super::tcp::TcpStreams;
use crate::options::EndpointOptions;
use crate::tcp::{CONNECT_TIMEOUT, RecordStream, connect};

/// What TCP carries, and who decides what it is to carry.
pub(super) struct Tcp {
    pub(super) streams: TcpStreams,
    pub(super) dialler: Dialler,
    pub(super) relayed: RelayedStreams,
    /// TCP connections on each interface that uses TCP, if no target rate wants another number.
    connections: usize,
    /// Connections that are being set up.
    dials: Vec<Dial>,
    dialled: mpsc::UnboundedReceiver<Dialled>,
    /// Where dials report.
    results: mpsc::UnboundedSender<Dialled>,
}

/// Why a TCP connection is set up.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// For a slot.
    Slot(TcpSlotId),
    /// To compare all pairs of addresses.
    PairAttempt,
}

/// An attempt to connect.
#[derive(Debug)]
struct Dial {
    client: ClientId,
    local: LocalAddress,
    remote: SocketAddr,
    /// Ends it, since its next hop does not answer.
    no_neighbour: oneshot::Sender<()>,
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
        let (results, dialled) = mpsc::unbounded_channel();
        Self {
            streams: TcpStreams::new(options.tcp_settings(), options.ledger.is_some()),
            dialler: Dialler::new(
                options.carriers.choice,
                options.connection.pairs,
                options.carriers.tls_port,
            ),
            relayed: RelayedStreams::default(),
            connections: usize::from(options.carriers.connections),
            dials: Vec::new(),
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

    /// Ends the connections that are being set up and whose next hop does not answer; returns their client and addresses.
    pub(super) fn end_attempts(
        &mut self,
        is_lost: impl Fn(&LocalAddress, &SocketAddr) -> bool,
    ) -> Vec<(ClientId, LocalAddress, SocketAddr)> {
        let lost = self.dials.extract_if(.., |dial| is_lost(&dial.local, &dial.remote));
        let ended = lost.filter_map(|Dial { client, local, remote, no_neighbour }| {
            no_neighbour.send(()).ok().map(|()| (client, local, remote))
        });
        ended.collect()
    }

    /// Connects, in a task of its own.
    pub(super) fn dial(&mut self, client: ClientId, purpose: Purpose, local: LocalAddress, target: Target) {
        let (settings, results) = (self.streams.settings().clone(), self.results.clone());
        let remote = target.remote;
        if let Some(result) = self.relayed.take(local, &target) {
            let dialled = Dialled { client, purpose, took: Duration::ZERO, local, remote, result };
            let _ = results.send(dialled);
            return;
        }
        let (no_neighbour, lost) = oneshot::channel();
        self.dials.retain(|dial| !dial.no_neighbour.is_closed());
        self.dials.push(Dial { client, local, remote: target.remote, no_neighbour });
        tokio::spawn(async move {
            let mut from = local;
            from.address.set_port(0);
            let start = TokioInstant::now();
            let connecting = connect(from, (target.remote, target.is_tls), settings);
            let connecting = tokio::time::timeout(CONNECT_TIMEOUT, connecting);
            let result = tokio::select! {
                result = connecting => result.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
                Ok(()) = lost => Err(io::ErrorKind::HostUnreachable.into()),
            };
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

/// TCP connections that rendezvous servers relay: nothing else leads to the peer at their addresses.
#[derive(Debug, Default)]
pub(super) struct RelayedStreams(BTreeMap<SocketAddr, Option<RecordStream>>);

impl RelayedStreams {
    /// Keeps a connection, in place of an earlier one to this address.
    pub(super) fn keep(&mut self, stream: RecordStream) {
        self.0.insert(stream.tuple().remote, Some(stream));
    }

    /// The connection to this address, once, if it goes from the local one; `None` if nothing is relayed there.
    fn take(&mut self, local: LocalAddress, target: &Target) -> Option<io::Result<RecordStream>> {
        let kept = self.0.get_mut(&target.remote)?;
        let fits = |stream: &mut RecordStream| !target.is_tls && is_same_host(&stream.tuple().local, &local);
        Some(kept.take_if(fits).ok_or_else(|| io::ErrorKind::ConnectionRefused.into()))
    }
}
