//! Ports of UDP at the server whose datagrams a client takes: one flow for each address and port that they come from.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use bytes::Bytes;
use manyway_session::Session;
use socket2::{Socket, Type};
use tokio::net::UdpSocket;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::listen::{Access, Listening, PATIENCE, PAUSE, open};
use super::peers::{Flow, Peers};
use super::shared::{Shared, refuse};
use super::sockets::take;
use crate::answer::{Answer, Reason, Refusal};
use crate::bucket::Bucket;
use crate::buffer::enlarge_receive_buffer;
use crate::early::keep;
use crate::error::EgressError;
use crate::flow::{FlowReceiver, FlowSender, flow};
use crate::relay::Volume;
use crate::request::Request;

/// Listens until the client ends the stream of its request, and passes what comes from each peer to a flow of its own.
// egress 9.7 to 9.10
pub(super) async fn listen_datagrams<S: Session>(
    shared: &Shared,
    client: &Access<'_, S>,
    listening: Listening,
    (mut sender, mut receiver): (FlowSender, FlowReceiver),
) -> Result<Volume, EgressError> {
    let place = || shared.place_of_flow(client.quota);
    let receiving = |socket: Socket| {
        enlarge_receive_buffer(&socket);
        UdpSocket::from_std(socket.into())
    };
    let (socket, _places) = match open(client, (listening.address, Type::DGRAM), place, receiving) {
        Ok(opened) => opened,
        Err(refusal) => return Err(refuse(&mut sender, refusal.into()).await),
    };
    sender.send_answer(Answer::Done(Some(socket.local_addr()?))).await?;
    let mut peers = Peers::new(socket, &shared.config);
    let mut opening: Option<Opening<'_>> = None;
    let mut limit = Bucket::new(Instant::now(), MOST_NEW, NEW_A_SECOND);
    loop {
        tokio::select! {
            ready = peers.socket.readable() => match ready.and_then(|()| take(&peers.socket)) {
                Ok((peer, payload)) => {
                    // egress 5.10
                    if peers.pass(peer, &payload) || shared.rules.denies(peer) {
                        continue;
                    }
                    match &mut opening {
                        Some(opening) => opening.keep(peer, payload),
                        None if limit.permits(Instant::now()) => {
                            let place = || shared.place_of_flow(client.quota);
                            let places = place().or_else(|| peers.end_unanswered().then(place)?);
                            let opened = |places| Opening::start(client, (listening, peer), places, payload);
                            opening = places.map(opened);
                        }
                        None => {}
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    tracing::debug!(%error, "no datagram was taken");
                    sleep(PAUSE).await;
                }
            },
            flow = opened_flow(&mut opening) => {
                if let (Some(opening), Some(flow)) = (opening.take(), flow) {
                    peers.add(opening.peer, flow, opening.places);
                    for payload in opening.waiting {
                        peers.pass(opening.peer, &payload);
                    }
                }
            }
            Some(ended) = peers.tasks.join_next_with_id() => {
                if let Ok((task, peer)) = ended {
                    peers.on_end(task, peer);
                }
            }
            () = sleep_until(peers.sweep) => peers.end_idle(Instant::now()),
            arrival = receiver.arrival() => match arrival? {
                None => return Ok(peers.end().await),
                // egress 9.3
                Some(_) => return Err(Refusal::with_text(Reason::Malformed, "a listener carries nothing").into()),
            },
        }
    }
}

/// The stream of a new peer that is being opened, and the datagrams that wait for it. There is one at a time: those of
/// other new peers are lost meanwhile.
struct Opening<'a> {
    peer: SocketAddr,
    waiting: VecDeque<Bytes>,
    places: [OwnedSemaphorePermit; 2],
    stream: Pin<Box<dyn Future<Output = Option<Flow>> + Send + 'a>>,
}

impl<'a> Opening<'a> {
    fn start<S: Session>(
        client: &'a Access<'_, S>,
        (Listening { number, treatment, .. }, peer): (Listening, SocketAddr),
        places: [OwnedSemaphorePermit; 2],
        payload: Bytes,
    ) -> Self {
        let opening = async move {
            let (send, receive) = client.session.open().await.ok()?;
            let (mut sender, receiver) = flow(S::messages(send, receive)?, client.quota);
            sender.treat(treatment);
            sender.send_request(&Request::Incoming { number, peer }).await.ok()?;
            Some((sender, receiver))
        };
        let stream = Box::pin(async move { timeout(PATIENCE, opening).await.ok()? });
        Self { peer, waiting: VecDeque::from([payload]), places, stream }
    }

    fn keep(&mut self, peer: SocketAddr, payload: Bytes) {
        if peer == self.peer {
            keep(&mut self.waiting, payload, Bytes::len);
        }
    }
}

/// Waits for the stream that is being opened; without one, for ever.
async fn opened_flow(opening: &mut Option<Opening<'_>>) -> Option<Flow> {
    match opening {
        Some(opening) => (&mut opening.stream).await,
        None => std::future::pending().await,
    }
}

/// New flows of a listener at once, and in a second.
const MOST_NEW: f64 = 64.0;
const NEW_A_SECOND: f64 = 32.0;
