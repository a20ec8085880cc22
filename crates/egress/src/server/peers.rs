//! The peers of a port of UDP at the server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

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
    pub(super) fn new(socket: UdpSocket, idle: Duration) -> Self {
        let (socket, sweep) = (Arc::new(socket), Instant::now() + idle / SWEEPS);
        Self { socket, flows: BTreeMap::new(), tasks: JoinSet::new(), idle, sweep, volume: Volume::default() }
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

    pub(super) fn add(
        &mut self,
        peer: SocketAddr,
        (sender, receiver): Flow,
        places: [OwnedSemaphorePermit; 2],
    ) {
        let answers = Arc::default();
        let passing = pass_answers(Arc::clone(&self.socket), peer, receiver, Arc::clone(&answers));
        let task = self.tasks.spawn(passing);
        self.flows.insert(peer, Peer { sender, answers, last: Instant::now(), task, _places: places });
    }

    /// Ends the flow that is worth least, if there are as many as there may be.
    pub(super) fn make_room(&mut self) {
        if self.flows.len() >= MOST {
            let least = self.flows.iter().min_by_key(|(_, flow)| flow.worth()).map(|(peer, _)| *peer);
            if let Some(peer) = least {
                self.remove(peer);
            }
        }
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

    /// What was carried in all.
    pub(super) fn end(mut self) -> Volume {
        let peers: Vec<_> = self.flows.keys().copied().collect();
        for peer in peers {
            self.remove(peer);
        }
        self.volume
    }
}

/// Sends what the client answers to the peer, until the client ends the flow.
async fn pass_answers(
    socket: Arc<UdpSocket>,
    peer: SocketAddr,
    mut receiver: FlowReceiver,
    answers: Arc<Mutex<Answers>>,
) -> SocketAddr {
    while let Ok(Some(arrival)) = receiver.arrival().await {
        match arrival {
            Arrival::Frame(frame) => {
                if !matches!(Answer::decode(&frame), Ok(Answer::Done(_))) {
                    break;
                }
            }
            Arrival::Datagram(datagram) if datagram.address.is_none() && datagram.error.is_none() => {
                // What cannot be sent is lost, as on any network.
                let sent = socket.send_to(&datagram.payload, peer).await.unwrap_or(0);
                let mut answers = lock(&answers);
                answers.last = Some(Instant::now());
                answers.bytes += sent as u64;
            }
            // egress 9.8
            Arrival::Datagram(_) => {}
        }
    }
    peer
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
        let quota = Quota::new(0, 2 * MOST, 0, 0);
        let peer = |number: usize| SocketAddr::from(([192, 0, 2, 1], u16::try_from(number).unwrap()));
        let mut peers = Peers::new(UdpSocket::bind("127.0.0.1:0").await.unwrap(), Duration::from_secs(120));
        for number in 0..MOST {
            let halves: MessageHalves = (Box::new(Mute), Box::new(Mute));
            let places = [quota.flow().unwrap(), quota.flow().unwrap()];
            peers.make_room();
            peers.add(peer(number), flow(halves, &quota), places);
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        assert_eq!((peers.flows.len(), quota.free_flows()), (MOST, 0));
        // The first was answered long ago, the second has just sent something, the third is the least of the others.
        lock(&peers.flows[&peer(0)].answers).last = Some(Instant::now());
        assert!(peers.pass(peer(1), b"again"));
        peers.make_room();
        assert_eq!((peers.flows.len(), quota.free_flows()), (MOST - 1, 2));
        assert!(!peers.pass(peer(2), b"lost"));
        peers.make_room();
        assert_eq!(peers.flows.len(), MOST - 1, "there is room");
    }
}
