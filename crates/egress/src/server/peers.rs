//! The peers of a port of UDP at the server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout_at};

use super::shared::GatewayConfig;
use crate::answer::Answer;
use crate::flow::{Arrival, FlowReceiver, FlowSender};
use crate::relay::Volume;

/// Both halves of a flow.
pub(super) type Flow = (FlowSender, FlowReceiver);

/// The flows of a listener.
pub(super) struct Peers {
    pub(super) socket: Arc<UdpSocket>,
    flows: BTreeMap<SocketAddr, Peer>,
    /// Pass on what the client answers; each ends with its flow.
    pub(super) tasks: JoinSet<SocketAddr>,
    idle: Duration,
    /// How long the client may take to answer INCOMING.
    patience: Duration,
    /// When silent flows are ended next.
    pub(super) sweep: Instant,
    volume: Volume,
}

struct Peer {
    sender: FlowSender,
    answers: Arc<Mutex<Answers>>,
    last: Instant,
    task: AbortHandle,
    _places: [OwnedSemaphorePermit; 2],
}

/// What the client sent to a peer.
#[derive(Debug, Clone, Copy, Default)]
struct Answers {
    last: Option<Instant>,
    bytes: u64,
}

impl Peer {
    /// Those that the client has never answered come first, then those that were silent for longest.
    fn worth(&self) -> (bool, Instant) {
        let answered = lock(&self.answers).last;
        (answered.is_some(), answered.map_or(self.last, |at| at.max(self.last)))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Peers {
    pub(super) fn new(socket: UdpSocket, config: &GatewayConfig) -> Self {
        let (idle, patience) = (config.flow_idle, config.request_timeout);
        let (socket, sweep) = (Arc::new(socket), Instant::now() + idle / SWEEPS);
        let (flows, tasks, volume) = (BTreeMap::new(), JoinSet::new(), Volume::default());
        Self { socket, flows, tasks, idle, patience, sweep, volume }
    }

    /// Passes a datagram to the flow of its peer; false if there is none. What has no room is lost.
    pub(super) fn pass(&mut self, peer: SocketAddr, payload: &[u8]) -> bool {
        let Some(flow) = self.flows.get_mut(&peer) else { return false };
        flow.last = Instant::now();
        if let Ok(true) = flow.sender.send(None, payload) {
            self.volume.sent += payload.len() as u64;
        }
        true
    }

    /// Adds a flow. If there are as many as there may be, that which is worth least ends.
    pub(super) fn add(
        &mut self,
        peer: SocketAddr,
        (sender, receiver): Flow,
        places: [OwnedSemaphorePermit; 2],
    ) {
        if self.flows.len() >= MOST
            && let Some((least, _)) = self.least()
        {
            self.remove(least);
        }
        let (answers, until) = (Arc::default(), Instant::now() + self.patience);
        let passing = pass_answers((Arc::clone(&self.socket), peer), receiver, Arc::clone(&answers), until);
        let task = self.tasks.spawn(passing);
        self.flows.insert(peer, Peer { sender, answers, last: Instant::now(), task, _places: places });
    }

    /// Ends a flow that was never answered, so that another one has its place; false if there is none.
    pub(super) fn end_unanswered(&mut self) -> bool {
        let Some((peer, false)) = self.least() else { return false };
        self.remove(peer);
        true
    }

    /// The flow that is worth least, and whether it was ever answered.
    fn least(&self) -> Option<(SocketAddr, bool)> {
        let worths = self.flows.iter().map(|(peer, flow)| (flow.worth(), *peer));
        worths.min().map(|((is_answered, _), peer)| (peer, is_answered))
    }

    /// The client has ended a flow. Its peer may have a new one already.
    pub(super) fn on_end(&mut self, task: tokio::task::Id, peer: SocketAddr) {
        if self.flows.get(&peer).is_some_and(|flow| flow.task.id() == task) {
            self.remove(peer);
        }
    }

    pub(super) fn end_idle(&mut self, now: Instant) {
        self.sweep = now + self.idle / SWEEPS;
        let is_idle = |flow: &Peer| now.saturating_duration_since(flow.worth().1) >= self.idle;
        let idle: Vec<_> =
            self.flows.iter().filter(|(_, flow)| is_idle(flow)).map(|(peer, _)| *peer).collect();
        for peer in idle {
            self.remove(peer);
        }
    }

    fn remove(&mut self, peer: SocketAddr) {
        if let Some(flow) = self.flows.remove(&peer) {
            self.volume.received += lock(&flow.answers).bytes;
        }
    }

    /// Ends all flows, so that the port is free, and returns what was carried in all.
    pub(super) async fn end(mut self) -> Volume {
        let peers: Vec<_> = self.flows.keys().copied().collect();
        for peer in peers {
            self.remove(peer);
        }
        self.tasks.shutdown().await;
        self.volume
    }
}

/// Sends what the client answers to the peer, until the client ends the flow, or has not accepted it by then.
async fn pass_answers(
    (socket, peer): (Arc<UdpSocket>, SocketAddr),
    mut receiver: FlowReceiver,
    answers: Arc<Mutex<Answers>>,
    until: Instant,
) -> SocketAddr {
    let mut is_accepted = false;
    loop {
        // Datagrams may overtake the answer to INCOMING.
        let arrival = if is_accepted {
            receiver.arrival().await
        } else {
            let Ok(arrival) = timeout_at(until, receiver.arrival()).await else { return peer };
            arrival
        };
        let Ok(Some(arrival)) = arrival else { return peer };
        match arrival {
            Arrival::Frame(frame) => {
                // egress 9.8
                if !matches!(Answer::decode(&frame), Ok(Answer::Done(_))) {
                    return peer;
                }
                is_accepted = true;
            }
            Arrival::Datagram(datagram) if datagram.address.is_none() && datagram.error.is_none() => {
                // What cannot be sent is lost, as on any network.
                let sent = socket.send_to(&datagram.payload, peer).await.unwrap_or(0);
                let mut answers = lock(&answers);
                answers.last = Some(Instant::now());
                answers.bytes += sent as u64;
            }
            Arrival::Datagram(_) => {}
        }
    }
}

fn lock(answers: &Mutex<Answers>) -> MutexGuard<'_, Answers> {
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Flows of a listener.
const MOST: usize = 256;
/// How often a flow is looked at until it is idle.
const SWEEPS: u32 = 4;

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::io;
    use std::pin::Pin;

    use bytes::Bytes;
    use manyway_session::{Delivery, Message, MessageHalves, MessageReceiver, MessageSender};

    use super::*;
    use crate::flow::flow;
    use crate::quota::Quota;

    /// A stream that takes everything, and on which nothing arrives.
    struct Mute;

    impl MessageSender for Mute {
        fn send(
            &mut self,
            _: Bytes,
            _: Delivery,
        ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>> {
            Box::pin(std::future::ready(Ok(())))
        }

        fn try_send(&mut self, _: Bytes, _: Delivery) -> io::Result<bool> {
            Ok(true)
        }

        fn finish(&mut self) {}
    }

    impl MessageReceiver for Mute {
        fn receive(&mut self) -> Pin<Box<dyn Future<Output = io::Result<Option<Message>>> + Send + '_>> {
            Box::pin(std::future::pending())
        }
    }

    // egress 9.10
    #[tokio::test(start_paused = true)]
    async fn a_new_peer_takes_the_place_of_one_that_was_never_answered() {
        let quota = Quota::new(0, 2 * MOST + 2, 0, 0);
        let peer = |number: usize| SocketAddr::from(([192, 0, 2, 1], u16::try_from(number).unwrap()));
        let config = GatewayConfig { request_timeout: Duration::from_secs(3600), ..GatewayConfig::default() };
        let mut peers = Peers::new(UdpSocket::bind("127.0.0.1:0").await.unwrap(), &config);
        let add = |peers: &mut Peers, number: usize| {
            let halves: MessageHalves = (Box::new(Mute), Box::new(Mute));
            let places = [quota.flow().unwrap(), quota.flow().unwrap()];
            peers.add(peer(number), flow(halves, &quota), places);
        };
        for number in 0..MOST {
            add(&mut peers, number);
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        // The first was answered long ago, the second has just sent something, the third is the least of the others.
        lock(&peers.flows[&peer(0)].answers).last = Some(Instant::now());
        assert!(peers.pass(peer(1), b"again"));
        add(&mut peers, MOST);
        assert_eq!((peers.flows.len(), quota.free_flows()), (MOST, 2));
        assert!(!peers.pass(peer(2), b"lost"));
        // Where all have an answer, none ends for want of places.
        while peers.end_unanswered() {}
        assert_eq!((peers.flows.len(), quota.free_flows()), (1, 2 * MOST));
        assert!(peers.pass(peer(0), b"answered"));
    }

    // egress 9.8
    #[tokio::test(start_paused = true)]
    async fn a_flow_that_the_client_does_not_accept_ends() {
        let quota = Quota::new(0, 2, 0, 0);
        let config = GatewayConfig::default();
        let mut peers = Peers::new(UdpSocket::bind("127.0.0.1:0").await.unwrap(), &config);
        let peer = SocketAddr::from(([192, 0, 2, 1], 1));
        let halves: MessageHalves = (Box::new(Mute), Box::new(Mute));
        peers.add(peer, flow(halves, &quota), [quota.flow().unwrap(), quota.flow().unwrap()]);
        let begin = Instant::now();
        let (task, ended) = peers.tasks.join_next_with_id().await.unwrap().unwrap();
        assert_eq!((ended, begin.elapsed()), (peer, config.request_timeout));
        peers.on_end(task, ended);
        assert!(!peers.pass(peer, b"lost"));
        assert_eq!(quota.free_flows(), 2);
    }
}
