//! Flows of datagrams of local programs: one for each socket of a program, as behind a NAT.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use manyway_egress::{
    Destination, EgressError, FlowKind, FlowReceiver, FlowSender, Host, Reason, Refusal, Treatment, open_flow,
};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::bond::EgressBond;
use crate::args::Protocol;
use crate::traffic::Traffic;

/// Takes the datagrams that come back for programs.
pub(super) trait FlowSink: Send + Sync + 'static {
    /// Passes a datagram from `source` to the program's socket. It must not wait; what cannot be passed is lost.
    fn deliver(&self, program: SocketAddr, source: &Destination, payload: &[u8]);

    /// A datagram of the program's socket to `destination` did not arrive; `quote` is the beginning of its payload, as far as
    /// it is known. By default the program hears nothing.
    fn fail(&self, program: SocketAddr, destination: &Destination, reason: Reason, quote: &[u8]) {
        let _ = (program, destination, reason, quote);
    }
}

/// The flows of all local sockets. Dropping it ends them.
pub(super) struct Flows {
    shared: Arc<Shared>,
    tasks: Mutex<JoinSet<()>>,
}

struct Shared {
    bond: Arc<EgressBond>,
    kind: FlowKind,
    sink: Box<dyn FlowSink>,
    flows: Mutex<BTreeMap<SocketAddr, Flow>>,
}

/// The way to a flow, and when a datagram last took it.
struct Flow {
    queue: mpsc::Sender<Outgoing>,
    last: Instant,
}

/// A datagram of a program.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    pub(super) destination: Destination,
    pub(super) payload: Bytes,
    /// Its differentiated services code point, where that is known; that of the first counts for the flow.
    pub(super) dscp: Option<u8>,
}

impl Flows {
    pub(super) fn new(bond: Arc<EgressBond>, kind: FlowKind, sink: impl FlowSink) -> Self {
        let (sink, flows) = (Box::new(sink), Mutex::default());
        Self { shared: Arc::new(Shared { bond, kind, sink, flows }), tasks: Mutex::default() }
    }

    /// Passes on a datagram of the local socket `program`; the first opens its flow. A full queue drops it.
    pub(super) fn pass(&self, program: SocketAddr, outgoing: Outgoing) {
        let mut flows = self.shared.flows.lock().unwrap_or_else(PoisonError::into_inner);
        let last = Instant::now();
        let outgoing = match flows.get_mut(&program) {
            Some(flow) => {
                flow.last = last;
                match flow.queue.try_send(outgoing) {
                    Ok(()) | Err(TrySendError::Full(_)) => return,
                    // The flow is about to be forgotten.
                    Err(TrySendError::Closed(outgoing)) => outgoing,
                }
            }
            None => outgoing,
        };
        if flows.len() >= MOST {
            // The one that was silent for the longest time makes room: it ends with its queue.
            let oldest = flows.iter().min_by_key(|(_, flow)| flow.last).map(|(program, _)| *program);
            oldest.and_then(|oldest| flows.remove(&oldest));
        }
        let (queue, outgoings) = mpsc::channel(QUEUE);
        flows.insert(program, Flow { queue, last });
        drop(flows);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(Arc::clone(&self.shared).attend(program, outgoing, outgoings));
    }
}

impl Shared {
    /// Carries a flow to its end.
    async fn attend(
        self: Arc<Self>,
        program: SocketAddr,
        first: Outgoing,
        mut outgoings: mpsc::Receiver<Outgoing>,
    ) {
        // A usual destination that is forbidden costs the flow, and one socket may ask many hosts for their echo.
        let mut usual = match self.kind {
            FlowKind::Udp => Some(first.destination.clone()),
            FlowKind::Echo => None,
        };
        let mut early = vec![first];
        loop {
            match self.carry(program, usual.as_ref(), &mut early, &mut outgoings).await {
                Ok(()) => break,
                Err(EgressError::Refused(refusal)) => {
                    while let Ok(outgoing) = outgoings.try_recv() {
                        early.push(outgoing);
                    }
                    let is_lost = |it: &Outgoing| usual.as_ref().is_none_or(|usual| it.destination == *usual);
                    let (lost, others): (Vec<_>, _) = early.into_iter().partition(is_lost);
                    for outgoing in lost {
                        self.on_refusal(program, &outgoing, &refusal);
                    }
                    if others.is_empty() {
                        break;
                    }
                    // A flow without a usual destination is refused for no other's sake.
                    (early, usual) = (others, None);
                }
                Err(error) => {
                    tracing::debug!(%program, %error, "a flow broke");
                    break;
                }
            }
        }
        outgoings.close();
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        // The program may have a new flow already.
        if flows.get(&program).is_some_and(|flow| flow.queue.is_closed()) {
            flows.remove(&program);
        }
    }

    /// A datagram was lost with the flow that the server refused.
    fn on_refusal(&self, program: SocketAddr, lost: &Outgoing, refusal: &Refusal) {
        match self.kind {
            FlowKind::Udp => self.bond.tell(&lost.destination, &refusal.clone().into()),
            FlowKind::Echo => self.bond.tell_text(&format!("ping: {refusal}")),
        }
        self.sink.fail(program, &lost.destination, refusal.reason, &lost.payload);
    }

    /// Carries a flow to its end, the datagrams in `early` first. If the server refuses the flow, `early` holds those that
    /// were lost with it.
    async fn carry(
        &self,
        program: SocketAddr,
        usual: Option<&Destination>,
        early: &mut Vec<Outgoing>,
        outgoings: &mut mpsc::Receiver<Outgoing>,
    ) -> Result<(), EgressError> {
        let Some(first) = early.first() else { return Ok(()) };
        let Some((mut sender, mut receiver)) = self.open(usual, first).await? else { return Ok(()) };
        let mut timer = IdleTimer::new(self.kind);
        let mut send = |timer: &mut IdleTimer, Outgoing { destination, payload, .. }: &Outgoing| {
            timer.on_question(destination);
            sender.send(Some(destination).filter(|it| Some(*it) != usual), payload)
        };
        for outgoing in early.iter() {
            send(&mut timer, outgoing)?;
        }
        let mut is_accepted = false;
        loop {
            tokio::select! {
                outgoing = outgoings.recv() => {
                    let Some(outgoing) = outgoing else { return Ok(()) };
                    send(&mut timer, &outgoing)?;
                    is_accepted |= receiver.peer().is_some();
                    if is_accepted {
                        early.clear();
                    } else if early.len() < EARLY {
                        early.push(outgoing);
                    }
                }
                datagram = receiver.receive() => {
                    let Some(datagram) = datagram? else { return Ok(()) };
                    is_accepted = true;
                    early.clear();
                    timer.on_answer();
                    let source = datagram.address.or_else(|| address_of(usual?, receiver.peer()));
                    let Some(source) = source.as_ref().or(usual) else { continue };
                    match datagram.error {
                        Some(reason) => self.sink.fail(program, source, reason, &datagram.payload),
                        None => self.sink.deliver(program, source, &datagram.payload),
                    }
                }
                () = sleep_until(timer.deadline()) => return Ok(()),
            }
        }
    }

    /// Opens a flow; `None` while the server is away. Old datagrams are worth nothing, so it waits only shortly.
    async fn open(
        &self,
        usual: Option<&Destination>,
        Outgoing { destination, dscp, .. }: &Outgoing,
    ) -> Result<Option<(FlowSender, FlowReceiver)>, EgressError> {
        let treatment = match self.kind {
            FlowKind::Udp => self.bond.treatment(Traffic::new(Protocol::Udp, destination, *dscp)),
            FlowKind::Echo => Treatment::default(),
        };
        let opening = async {
            match self.bond.bond().session().await {
                Some(session) => open_flow(&session, self.kind, usual, treatment).await.map(Some),
                None => Ok(None),
            }
        };
        timeout(PATIENCE, opening).await.unwrap_or(Ok(None))
    }
}

/// The address of a destination that is a name.
fn address_of(usual: &Destination, peer: Option<SocketAddr>) -> Option<Destination> {
    let peer = peer.filter(|_| matches!(usual.host(), Host::Name(_)))?;
    Destination::new(Host::Ip(peer.ip()), peer.port()).ok()
}

/// How long a flow goes on without a datagram.
struct IdleTimer {
    kind: FlowKind,
    /// Nothing but name servers was asked.
    is_lookup: bool,
    unanswered: u32,
    last: Instant,
}

impl IdleTimer {
    fn new(kind: FlowKind) -> Self {
        Self { kind, is_lookup: true, unanswered: 0, last: Instant::now() }
    }

    fn on_question(&mut self, destination: &Destination) {
        self.is_lookup &= destination.port() == DNS;
        self.unanswered = self.unanswered.saturating_add(1);
        self.last = Instant::now();
    }

    fn on_answer(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.last = Instant::now();
    }

    /// A look-up has ended with its answers; programs use a new socket for the next.
    fn deadline(&self) -> Instant {
        self.last
            + match (self.kind, self.is_lookup, self.unanswered) {
                (FlowKind::Echo, ..) | (FlowKind::Udp, true, 1..) => UNANSWERED,
                (FlowKind::Udp, false, _) => IDLE,
                (FlowKind::Udp, true, 0) => ANSWERED,
            }
    }
}

/// Port of DNS.
const DNS: u16 = 53;
/// Flows at the same time.
const MOST: usize = 1024;
/// Datagrams that wait for their flow: a burst of QUIC has hundreds, and the task that reads the socket takes up to 128 of
/// them before the runtime lets the flow go on.
const QUEUE: usize = 512;
/// Those that are kept until the server accepts the flow.
const EARLY: usize = 64;
/// How long a datagram waits for a server that is away.
const PATIENCE: Duration = Duration::from_secs(2);
/// As the server's end (egress 6.5).
pub(super) const IDLE: Duration = Duration::from_secs(120);
const ANSWERED: Duration = Duration::from_millis(500);
/// Also after an echo request: each `ping` has an identifier of its own.
const UNANSWERED: Duration = Duration::from_secs(15);
