//! The side that connects to destinations.

mod datagrams;
mod dial;
mod errors;
mod listen;
mod listen_datagrams;
mod messages;
mod peers;
mod resolve;
mod shared;
mod sockets;
mod usual;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use manyway_session::Session;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::answer::{Answer, Reason, Refusal};
use crate::classed::ClassedSend;
use crate::destination::Destination;
use crate::error::{EgressError, RequestError};
use crate::quota::Quota;
use crate::relay::Volume;
use crate::request::{Request, Unknown};
use crate::rules::Rules;
use crate::tcp::relay_tcp;
use crate::treatment::Treatment;
use crate::wire::{read_request, write_answer};
pub use listen::Access;
pub use messages::answer_messages;
pub use resolve::{Resolve, SystemResolver, Turn};
pub use shared::GatewayConfig;
use shared::{Shared, say};
pub use sockets::can_send_echo_requests;

/// The server's end, for any number of clients. Clones share its state.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { rules, config, .. } = &*self.shared;
        f.debug_struct("Gateway").field("rules", rules).field("config", config).finish_non_exhaustive()
    }
}

impl Gateway {
    /// A gateway with these rules and the system's resolver, with 32 parallel look-ups.
    pub fn new(rules: Rules, config: GatewayConfig) -> Self {
        Self::with_resolver(rules, config, Box::new(SystemResolver::new(LOOKUPS)))
    }

    /// As [`Self::new`], with another resolver.
    pub fn with_resolver(rules: Rules, config: GatewayConfig, resolver: Box<dyn Resolve>) -> Self {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        let (connections, flows) = (semaphore(config.connections), semaphore(config.flows));
        Self { shared: Arc::new(Shared { rules, resolver, connections, flows, config }) }
    }

    /// The quota of a new client; all its connections share it.
    pub fn quota(&self) -> Quota {
        let GatewayConfig { client_connections, client_flows, client_lookups, client_bytes, .. } =
            self.shared.config;
        Quota::new(client_connections, client_flows, client_lookups, client_bytes)
    }

    /// Serves one stream of bytes, from its first byte on, and carries its TCP connection to the end. Dropping the future
    /// resets it.
    ///
    /// # Errors
    /// Why the connection was refused or why it broke, for a log; the client has been told, as far as possible.
    pub async fn answer<S, R>(
        &self,
        client: &Access<'_, S>,
        mut send: S::Send,
        mut receive: R,
    ) -> Result<Volume, RequestError>
    where
        S: Session + 'static,
        R: AsyncRead + Unpin,
    {
        let patience = self.shared.config.request_timeout;
        let of_nothing = |error| RequestError { destination: None, error };
        let unsupported = match request_of(patience, &mut receive).await {
            Ok((Request::Connect(destination), treatment)) => {
                if treatment.class.is_some() {
                    tracing::debug!(%destination, ?treatment, "the client asks for a treatment");
                }
                let send = ClassedSend::<S>::new(send, treatment.class);
                let carried = self.connect(client.quota, &destination, send, receive).await;
                return carried.map_err(|error| RequestError { destination: Some(destination), error });
            }
            Ok((Request::Listen { number, address }, treatment)) => {
                tracing::debug!(%address, ?treatment, "the client asks for a listener");
                let listening = listen::Listening { number, address, treatment };
                let carried = listen::listen(&self.shared, client, listening, (send, receive)).await;
                return carried.map_err(|error| RequestError { destination: listening.destination(), error });
            }
            Ok((Request::Check, _)) => {
                say(patience, &mut send, &Answer::Done(None)).await.map_err(of_nothing)?;
                return Ok(Volume::default());
            }
            // egress 8.1, 9.1, 11.1
            Ok((Request::Flow(..), _)) => "datagrams on a stream of bytes",
            Ok((Request::Packets(_), _)) => "packets on a stream of bytes",
            Ok((Request::Incoming { .. }, _)) => "only a server passes connections on",
            Ok((Request::Treatment(_), _)) => "a second treatment",
            Err(error) => return Err(of_nothing(refuse_misunderstood(patience, &mut send, error).await)),
        };
        let refusal = Refusal::with_text(Reason::Unsupported, unsupported);
        let _ = say(patience, &mut send, &Answer::Refused(refusal.clone())).await;
        Err(of_nothing(refusal.into()))
    }

    async fn connect<W, R>(
        &self,
        quota: &Quota,
        destination: &Destination,
        mut send: W,
        receive: R,
    ) -> Result<Volume, EgressError>
    where
        W: AsyncWrite + Unpin,
        R: AsyncRead + Unpin,
    {
        let patience = self.shared.config.request_timeout;
        let opened = self.shared.open(destination, quota).await;
        let (socket, address, _place) = match opened {
            Ok(opened) => opened,
            Err(refusal) => {
                let _ = say(patience, &mut send, &Answer::Refused(refusal.clone())).await;
                return Err(refusal.into());
            }
        };
        let told = timeout(patience, write_answer(&mut send, &Answer::Done(Some(address)))).await;
        told.map_err(|_| EgressError::Late)??;
        let carried = relay_tcp(socket, (send, receive), quota).await;
        carried.map_err(|error| EgressError::Stream(std::io::Error::other(error)))
    }
}

/// Declines one stream of a client at a server without egress, and returns the reason, for a log.
// egress 2.4
pub async fn decline<W, R>(mut send: W, mut receive: R) -> RequestError
where
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    let patience = GatewayConfig::default().request_timeout;
    let destination = match request_of(patience, &mut receive).await {
        Ok((Request::Connect(destination), _)) => Some(destination),
        Ok((Request::Flow(_, destination), _)) => destination,
        Ok((
            Request::Check
            | Request::Listen { .. }
            | Request::Incoming { .. }
            | Request::Treatment(_)
            | Request::Packets(_),
            _,
        )) => None,
        Err(error) => {
            let error = refuse_misunderstood(patience, &mut send, error).await;
            return RequestError { destination: None, error };
        }
    };
    let refusal = Refusal::new(Reason::NotEnabled);
    let _ = say(patience, &mut send, &Answer::Refused(refusal.clone())).await;
    RequestError { destination, error: refusal.into() }
}

/// Why a request cannot be served.
enum Misunderstood {
    Unknown(Unknown),
    Wrong(EgressError),
}

async fn request_of<R: AsyncRead + Unpin>(
    patience: Duration,
    receive: &mut R,
) -> Result<(Request, Treatment), Misunderstood> {
    let reading = async {
        match read_request(receive).await? {
            // egress 2.6
            Ok(Request::Treatment(treatment)) => {
                Ok(read_request(receive).await?.map(|request| (request, treatment)))
            }
            other => Ok(other.map(|request| (request, Treatment::default()))),
        }
    };
    match timeout(patience, reading).await {
        Ok(Ok(Ok(request))) => Ok(request),
        Ok(Ok(Err(unknown))) => Err(Misunderstood::Unknown(unknown)),
        Ok(Err(error)) => Err(Misunderstood::Wrong(error)),
        Err(_) => Err(Misunderstood::Wrong(EgressError::Late)),
    }
}

/// Sends the reason to the client, and returns it.
// egress 1.4, 1.5
async fn refuse_misunderstood<W: AsyncWrite + Unpin>(
    patience: Duration,
    send: &mut W,
    misunderstood: Misunderstood,
) -> EgressError {
    let (refusal, error) = match misunderstood {
        Misunderstood::Unknown(unknown) => (Refusal::from(unknown), None),
        Misunderstood::Wrong(error @ EgressError::Stream(_)) => return error,
        Misunderstood::Wrong(error) => {
            (Refusal::with_text(Reason::Malformed, error.to_string()), Some(error))
        }
    };
    let _ = say(patience, send, &Answer::Refused(refusal.clone())).await;
    error.unwrap_or(EgressError::Refused(refusal))
}

/// Parallel name look-ups, for all clients.
const LOOKUPS: usize = 32;
