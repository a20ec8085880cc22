//! Streams of messages that a client opens: the request tells what they carry.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use manyway_session::{MessageHalves, Session};
use tokio::time::{Instant, timeout_at};

use super::Gateway;
use super::listen::{Access, Listening};
use super::listen_datagrams::listen_datagrams;
use super::shared::{GatewayConfig, refuse};
use crate::answer::{Reason, Refusal};
use crate::datagram::Datagram;
use crate::destination::Destination;
use crate::early::keep;
use crate::error::{EgressError, RequestError};
use crate::flow::{Arrival, FlowReceiver, flow};
use crate::quota::Quota;
use crate::relay::Volume;
use crate::request::{FlowKind, Request};
use crate::site::{Joining, Member};
use crate::treatment::Treatment;

/// Serves one stream of messages: a flow of datagrams or a port for them, if there is a gateway, or packets, if there is a
/// network that the client may join. A flow lasts until the client ends it, or sends nothing for
/// [`flow_idle`](super::GatewayConfig::flow_idle).
///
/// # Errors
/// Why the request was refused or why its stream broke, for a log; the client has been told, as far as possible.
pub async fn answer_messages<S: Session>(
    gateway: Option<(&Gateway, &Access<'_, S>)>,
    member: Option<Member<'_>>,
    halves: MessageHalves,
) -> Result<Volume, RequestError> {
    let none = Quota::new(0, 0, 0, 0);
    let (mut sender, mut receiver) = flow(halves, gateway.map_or(&none, |(_, client)| client.quota));
    let mut early = VecDeque::new();
    let patience = gateway.map_or_else(GatewayConfig::default, |(gateway, _)| gateway.shared.config.clone());
    let until = Instant::now() + patience.request_timeout;
    let (treatment, asked) = match timeout_at(until, request_of(&mut receiver, &mut early)).await {
        Ok(Ok(asked)) => asked,
        Ok(Err(error)) => return Err(failed(None, refuse(&mut sender, error).await)),
        Err(_) => return Err(failed(None, EgressError::Late)),
    };
    // egress 2.4
    let not_enabled = EgressError::from(Refusal::new(Reason::NotEnabled));
    match asked {
        Asked::Flow(kind, destination) => {
            let Some((gateway, client)) = gateway else {
                return Err(failed(destination, refuse(&mut sender, not_enabled).await));
            };
            if treatment != Treatment::default() {
                tracing::debug!(?destination, ?treatment, "the client asks for a treatment");
            }
            sender.treat(treatment);
            gateway.flow(client.quota, (kind, destination.as_ref()), (sender, receiver), early).await
        }
        Asked::Listen { number, address } => {
            let Some((gateway, client)) = gateway else {
                return Err(failed(None, refuse(&mut sender, not_enabled).await));
            };
            tracing::debug!(%address, ?treatment, "the client asks for a listener of datagrams");
            let listening = Listening { number, address, treatment };
            let served = listen_datagrams(&gateway.shared, client, listening, (sender, receiver)).await;
            served.map_err(|error| failed(listening.destination(), error))
        }
        Asked::Packets(joining) => {
            let Some(member) = member else {
                return Err(failed(None, refuse(&mut sender, no_network()).await));
            };
            let Some(sender) = sender.release() else {
                return Err(failed(None, io::Error::from(io::ErrorKind::BrokenPipe).into()));
            };
            let served = member.hub.serve(&member, &joining, (sender, receiver.release())).await;
            served.map_err(|error| failed(None, error))
        }
    }
}

fn no_network() -> EgressError {
    let text = "the server has no network for sites; it must be started with: manyway serve --tun NET";
    Refusal::with_text(Reason::Forbidden, text).into()
}

pub(super) fn failed(destination: Option<Destination>, error: EgressError) -> RequestError {
    RequestError { destination, error }
}

/// What a stream of messages is for.
enum Asked {
    Flow(FlowKind, Option<Destination>),
    Listen { number: u16, address: SocketAddr },
    Packets(Joining),
}

/// Waits for the request. Datagrams may overtake it.
async fn request_of(
    receiver: &mut FlowReceiver,
    early: &mut VecDeque<Datagram>,
) -> Result<(Treatment, Asked), EgressError> {
    let mut treatment = None;
    loop {
        match receiver.arrival().await? {
            Some(Arrival::Datagram(datagram)) => keep(early, datagram, |datagram| datagram.payload.len()),
            Some(Arrival::Frame(frame)) => {
                let text = match Request::decode(&frame)? {
                    Ok(Request::Flow(kind, destination)) => {
                        return Ok((treatment.unwrap_or_default(), Asked::Flow(kind, destination)));
                    }
                    Ok(Request::Listen { number, address }) => {
                        return Ok((treatment.unwrap_or_default(), Asked::Listen { number, address }));
                    }
                    Ok(Request::Packets(joining)) => {
                        return Ok((treatment.unwrap_or_default(), Asked::Packets(joining)));
                    }
                    // egress 2.6
                    Ok(Request::Treatment(given)) if treatment.is_none() => {
                        treatment = Some(given);
                        continue;
                    }
                    Ok(Request::Treatment(_)) => "a second treatment".to_owned(),
                    Ok(Request::Check | Request::Connect(_) | Request::Incoming { .. }) => {
                        "this request needs a stream of bytes".to_owned()
                    }
                    Err(unknown) => return Err(Refusal::from(unknown).into()),
                };
                return Err(Refusal::with_text(Reason::Unsupported, text).into());
            }
            None => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
    }
}
