//! What all clients of a server share: settings, rules, the resolver, and places.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::dial;
use super::resolve::{self, Resolve};
use crate::answer::{Answer, Reason, Refusal};
use crate::destination::{Destination, Host};
use crate::error::EgressError;
use crate::flow::FlowSender;
use crate::quota::Quota;
use crate::rules::Rules;
use crate::wire::write_answer;

/// Settings of a server's end.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GatewayConfig {
    /// Parallel TCP connections of one client, over all its connections. Default 512.
    pub client_connections: usize,
    /// Parallel TCP connections of all clients. Default 16 384.
    pub connections: usize,
    /// Parallel flows of UDP of one client, over all its connections. Default 1024.
    pub client_flows: usize,
    /// Parallel flows of UDP of all clients. Default 4096.
    pub flows: usize,
    /// Time after which a flow without a datagram from the client ends. Default 2 min (RFC 4787, REQ-5).
    pub flow_idle: Duration,
    /// Parallel name look-ups of one client; more wait. Default 8.
    pub client_lookups: usize,
    /// Bytes buffered between sockets and streams of one client, beside 8 KiB for each connection. Default 16 MiB.
    pub client_bytes: usize,
    /// Time limit for name look-up and connecting, together. Default 10 s.
    pub connect_timeout: Duration,
    /// Time limit for a new stream to send its request, and to take the answer. Default 10 s.
    pub request_timeout: Duration,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            client_connections: 512,
            connections: 16_384,
            client_flows: 1024,
            flows: 4096,
            flow_idle: Duration::from_secs(120),
            client_lookups: 8,
            client_bytes: 16 << 20,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(10),
        }
    }
}

/// What all clients of a server share.
pub(super) struct Shared {
    pub(super) rules: Rules,
    pub(super) resolver: Box<dyn Resolve>,
    pub(super) connections: Arc<Semaphore>,
    pub(super) flows: Arc<Semaphore>,
    pub(super) config: GatewayConfig,
}

/// A connection, the address it leads to, and its permits until it ends.
pub(super) type Opened = (TcpStream, SocketAddr, [OwnedSemaphorePermit; 2]);

impl Shared {
    pub(super) async fn open(&self, destination: &Destination, quota: &Quota) -> Result<Opened, Refusal> {
        // egress 6.1, 6.2
        let own = quota.connection().ok_or_else(|| {
            let most = self.config.client_connections;
            Refusal::with_text(Reason::TooMany, format!("a client may have {most}"))
        })?;
        let shared = Arc::clone(&self.connections);
        let place = shared.try_acquire_owned().map_err(|_| Refusal::new(Reason::TooMany))?;
        let until = Instant::now() + self.config.connect_timeout;
        let allowed = self.allowed((destination, destination.port()), quota, until).await?;
        let (socket, address) = dial::dial(allowed, until).await.map_err(Refusal::new)?;
        Ok((socket, address, [own, place]))
    }

    /// Permits for a flow of datagrams; `None` if all are taken.
    // egress 6.5
    pub(super) fn place_of_flow(&self, quota: &Quota) -> Option<[OwnedSemaphorePermit; 2]> {
        Some([quota.flow()?, Arc::clone(&self.flows).try_acquire_owned().ok()?])
    }
}

impl Shared {
    /// The addresses of a destination that the rules allow at a port, at least one.
    pub(super) async fn allowed(
        &self,
        (destination, port): (&Destination, u16),
        quota: &Quota,
        until: Instant,
    ) -> Result<Vec<SocketAddr>, Refusal> {
        if *destination.host() == Host::Resolver {
            // egress 5.9
            let mut servers = resolve::name_servers(&*self.resolver, port).await?;
            servers.retain(|address| !self.rules.denies(*address));
            if servers.is_empty() {
                return Err(Refusal::with_text(
                    Reason::Forbidden,
                    "the server's --deny names its name servers",
                ));
            }
            return Ok(servers);
        }
        let found = resolve::addresses(&*self.resolver, destination, quota, until).await?;
        let mut allowed = Vec::new();
        let mut forbidden = None;
        for ip in found {
            let address = SocketAddr::new(ip, port);
            match self.rules.check(address) {
                Ok(()) => allowed.push(address),
                Err(class) => forbidden = Some(class),
            }
        }
        if let Some(class) = forbidden.filter(|_| allowed.is_empty()) {
            // The server does not reveal the addresses of a name.
            let text = match destination.host() {
                Host::Ip(_) if class.can_be_opened() => format!("{class}; {CAN_BE_OPENED}"),
                Host::Ip(_) => class.to_string(),
                Host::Name(_) | Host::Resolver if class.can_be_opened() => CAN_BE_OPENED.to_owned(),
                Host::Name(_) | Host::Resolver => String::new(),
            };
            return Err(Refusal::with_text(Reason::Forbidden, text));
        }
        Ok(allowed)
    }
}

/// Sends the answer and finishes the stream; waits only a limited time for a peer that does not read.
pub(super) async fn say<W: AsyncWrite + Unpin>(
    patience: Duration,
    send: &mut W,
    answer: &Answer,
) -> Result<(), EgressError> {
    let saying = async {
        write_answer(send, answer).await?;
        send.shutdown().await
    };
    Ok(timeout(patience, saying).await.map_err(|_| EgressError::Late)??)
}

const CAN_BE_OPENED: &str = "the server's --allow can open it";

/// Tells the client, if it can still be told, and returns the reason.
pub(super) async fn refuse(sender: &mut FlowSender, error: EgressError) -> EgressError {
    let refusal = match &error {
        EgressError::Refused(refusal) => refusal.clone(),
        EgressError::Codec(error) => Refusal::with_text(Reason::Malformed, error.to_string()),
        EgressError::Stream(_) | EgressError::Late => return error,
    };
    // The stream is new, so there is room.
    let _ = sender.send_answer(Answer::Refused(refusal)).await;
    error
}
