//! A client's flow of datagrams or echo requests: one socket for each family of addresses, as behind a NAT (RFC 4787,
//! RFC 5508).

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::time::{Instant, sleep_until};

use super::Gateway;
use super::messages::failed;
use super::resolve::DNS;
use super::shared::{Shared, refuse};
use super::sockets::{Event, Family, Sockets, can_send_echo_requests};
use super::usual::{Failure, Usual};
use crate::answer::{Answer, Reason, Refusal};
use crate::bucket::Bucket;
use crate::datagram::Datagram;
use crate::destination::{Destination, Host};
use crate::early::keep;
use crate::error::{EgressError, RequestError};
use crate::flow::{Arrival, FlowReceiver, FlowSender};
use crate::quota::Quota;
use crate::relay::Volume;
use crate::request::FlowKind;

impl Gateway {
    /// Serves a flow of datagrams whose request is known; `early` overtook it.
    pub(super) async fn flow(
        &self,
        quota: &Quota,
        (kind, destination): (FlowKind, Option<&Destination>),
        halves: (FlowSender, FlowReceiver),
        early: VecDeque<Datagram>,
    ) -> Result<Volume, RequestError> {
        let carried = self.carry(quota, (kind, destination), halves, early).await;
        carried.map_err(|error| failed(destination.cloned(), error))
    }

    async fn carry(
        &self,
        quota: &Quota,
        (kind, destination): (FlowKind, Option<&Destination>),
        (mut sender, mut receiver): (FlowSender, FlowReceiver),
        mut early: VecDeque<Datagram>,
    ) -> Result<Volume, EgressError> {
        // egress 6.5
        let Some(_places) = self.shared.place_of_flow(quota) else {
            return Err(refuse(&mut sender, Refusal::new(Reason::TooMany).into()).await);
        };
        let usual = match destination {
            Some(destination) => {
                let port = kind.port_of(destination);
                let found =
                    resolve((&self.shared, quota), (destination, port), &mut receiver, &mut early).await;
                found.and_then(|usual| may_send(kind).map(|()| usual))
            }
            None => may_send(kind).map(|()| Vec::new()),
        };
        let usual = match usual {
            Ok(usual) => usual,
            Err(error) => return Err(refuse(&mut sender, error).await),
        };
        // The addresses of name servers are the server's own affair.
        let is_told = destination.is_some_and(|it| *it.host() != Host::Resolver);
        sender.send_answer(Answer::Done(usual.first().copied().filter(|_| is_told))).await?;
        let mut remote = Remote::new((&self.shared, quota), kind, usual, sender);
        let mut volume = Volume::default();
        let begin = Instant::now();
        for datagram in early {
            volume.received += remote.send(begin, datagram)?;
        }
        let mut idle = begin + self.shared.config.flow_idle;
        loop {
            tokio::select! {
                arrival = receiver.arrival() => match arrival? {
                    Some(Arrival::Datagram(datagram)) => {
                        let now = Instant::now();
                        idle = now + self.shared.config.flow_idle;
                        volume.received += remote.send(now, datagram)?;
                    }
                    Some(Arrival::Frame(_)) => {
                        return Err(Refusal::with_text(Reason::Malformed, "a second request").into());
                    }
                    None => return Ok(volume),
                },
                found = looked_up(&mut remote.lookup) => volume.received += remote.on_found(found)?,
                ready = remote.sockets.ready() => volume.sent += remote.answer(ready?)?,
                () = sleep_until(idle) => return Ok(volume),
            }
        }
    }
}

/// Whether the system lets this process send what the flow carries.
// egress 10.5
fn may_send(kind: FlowKind) -> Result<(), EgressError> {
    match kind {
        FlowKind::Udp => Ok(()),
        FlowKind::Echo => {
            can_send_echo_requests().map_err(|reason| Refusal::with_text(Reason::Forbidden, reason).into())
        }
    }
}

/// The other side of a flow.
struct Remote<'a> {
    shared: &'a Shared,
    quota: &'a Quota,
    kind: FlowKind,
    sockets: Sockets,
    sender: FlowSender,
    errors: Bucket,
    usual: Usual,
    /// Where the client sent to; only those may answer (RFC 4787, section 5).
    peers: BTreeMap<SocketAddr, Peer>,
    /// What named hosts are, or why nothing is sent to them.
    names: BTreeMap<Destination, Result<SocketAddr, Reason>>,
    /// The look-up of a named host that is under way.
    lookup: Option<Lookup<'a>>,
}

/// An address that the client sent to.
#[derive(Debug)]
struct Peer {
    last: Instant,
    /// Whether the client asked for the resolver, and knows no address of it.
    is_resolver: bool,
}

/// What the client calls an address.
enum Known {
    /// The destination of the flow.
    Usual,
    As(Destination),
}

impl Known {
    fn address(&self) -> Option<&Destination> {
        match self {
            Self::Usual => None,
            Self::As(destination) => Some(destination),
        }
    }
}

/// Finds the address of the destination of the flow, and keeps what arrives meanwhile.
async fn resolve(
    (shared, quota): (&Shared, &Quota),
    (destination, port): (&Destination, u16),
    receiver: &mut FlowReceiver,
    early: &mut VecDeque<Datagram>,
) -> Result<Vec<SocketAddr>, EgressError> {
    let until = Instant::now() + shared.config.connect_timeout;
    let finding = shared.allowed((destination, port), quota, until);
    tokio::pin!(finding);
    loop {
        tokio::select! {
            // What is known at once counts also for a stream that has ended.
            biased;
            found = &mut finding => {
                let mut found = found?;
                if *destination.host() != Host::Resolver {
                    found.truncate(1);
                }
                return Ok(found);
            }
            arrival = receiver.arrival() => match arrival? {
                Some(Arrival::Datagram(datagram)) => keep(early, datagram, |datagram| datagram.payload.len()),
                Some(Arrival::Frame(_)) => {
                    return Err(Refusal::with_text(Reason::Malformed, "a second request").into());
                }
                None => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            },
        }
    }
}

/// A look-up, and the datagrams that wait for it.
struct Lookup<'a> {
    destination: Destination,
    waiting: VecDeque<Datagram>,
    finding: Pin<Box<dyn Future<Output = Result<Vec<SocketAddr>, Refusal>> + Send + 'a>>,
}

/// Waits for the look-up that is under way; without one, for ever.
async fn looked_up(lookup: &mut Option<Lookup<'_>>) -> Result<SocketAddr, Reason> {
    match lookup {
        Some(lookup) => {
            let found = (&mut lookup.finding).await.map_err(|refusal| refusal.reason)?;
            found.first().copied().ok_or(Reason::NameNotFound)
        }
        None => std::future::pending().await,
    }
}

impl<'a> Remote<'a> {
    fn new(
        (shared, quota): (&'a Shared, &'a Quota),
        kind: FlowKind,
        usual: Vec<SocketAddr>,
        sender: FlowSender,
    ) -> Self {
        Self {
            shared,
            quota,
            kind,
            sockets: Sockets::new(kind),
            usual: Usual::new(usual),
            sender,
            errors: Bucket::new(Instant::now(), MOST_ERRORS, ERRORS_A_SECOND),
            peers: BTreeMap::new(),
            names: BTreeMap::new(),
            lookup: None,
        }
    }

    /// Sends a datagram of the client; returns the bytes that were sent. What cannot be sent is lost, as on any network. One
    /// to a name waits for its look-up; others go on meanwhile.
    fn send(&mut self, now: Instant, datagram: Datagram) -> io::Result<u64> {
        if datagram.error.is_some() {
            return Ok(0);
        }
        let Some(destination) = &datagram.address else {
            let Some(address) = self.usual.ask(&datagram.payload) else { return Ok(0) };
            return self.send_to(now, address, &datagram, false);
        };
        if let Host::Ip(ip) = destination.host() {
            let address = SocketAddr::new(ip.to_canonical(), self.kind.port_of(destination));
            return self.send_to(now, address, &datagram, false);
        }
        match self.names.get(destination) {
            Some(Ok(address)) => {
                let is_resolver = *destination.host() == Host::Resolver;
                self.send_to(now, *address, &datagram, is_resolver)
            }
            Some(Err(reason)) => {
                let reason = *reason;
                self.tell(now, Some(destination), reason, &datagram.payload)?;
                Ok(0)
            }
            None => {
                self.look_up(now, datagram);
                Ok(0)
            }
        }
    }

    fn send_to(
        &mut self,
        now: Instant,
        address: SocketAddr,
        datagram: &Datagram,
        is_resolver: bool,
    ) -> io::Result<u64> {
        match self.put(now, address, &datagram.payload, is_resolver) {
            Ok(()) => return Ok(datagram.payload.len() as u64),
            Err(Some(reason)) => match &datagram.address {
                Some(about) => self.tell(now, Some(about), reason, &datagram.payload)?,
                None => self.on_usual_error(now, address, reason, &datagram.payload)?,
            },
            Err(None) => tracing::trace!(%address, "a datagram was not sent"),
        }
        Ok(0)
    }

    /// Sends to an address, if the client may.
    fn put(
        &mut self,
        now: Instant,
        address: SocketAddr,
        payload: &[u8],
        is_resolver: bool,
    ) -> Result<(), Option<Reason>> {
        if !self.note(now, address, is_resolver) {
            return Err(Some(Reason::Forbidden));
        }
        self.sockets.send(address, payload)
    }

    /// What was sent to the destination of the flow did not arrive. Of several name servers the next one is asked.
    // egress 8.8
    fn on_usual_error(
        &mut self,
        now: Instant,
        address: SocketAddr,
        reason: Reason,
        quote: &[u8],
    ) -> io::Result<()> {
        let Failure::Again(next, questions) = self.usual.on_error(address) else {
            return self.tell(now, None, reason, quote);
        };
        for question in questions {
            // Each question goes to each name server once, so this ends.
            if let Err(Some(reason)) = self.put(now, next, &question, false) {
                self.on_usual_error(now, next, reason, &question)?;
            }
        }
        Ok(())
    }

    /// Tells the client of an error, unless it was told of many.
    // egress 8.15
    fn tell(
        &mut self,
        now: Instant,
        about: Option<&Destination>,
        reason: Reason,
        quote: &[u8],
    ) -> io::Result<()> {
        if self.errors.permits(now) {
            self.sender.send_error(about, reason, quote)?;
        }
        Ok(())
    }

    /// Looks up the name of a datagram, one at a time: those to other names are lost meanwhile.
    fn look_up(&mut self, now: Instant, datagram: Datagram) {
        let Some(destination) = datagram.address.clone() else { return };
        if let Some(lookup) = &mut self.lookup {
            if lookup.destination == destination {
                keep(&mut lookup.waiting, datagram, |datagram| datagram.payload.len());
            }
            return;
        }
        let until = now + self.shared.config.connect_timeout;
        let (shared, quota, wanted) = (self.shared, self.quota, destination.clone());
        let port = self.kind.port_of(&destination);
        let finding = Box::pin(async move { shared.allowed((&wanted, port), quota, until).await });
        self.lookup = Some(Lookup { destination, waiting: VecDeque::from([datagram]), finding });
    }

    /// A look-up has ended: what waited for it is sent. Returns its bytes.
    fn on_found(&mut self, found: Result<SocketAddr, Reason>) -> io::Result<u64> {
        let Some(Lookup { destination, waiting, .. }) = self.lookup.take() else { return Ok(0) };
        if self.names.len() >= MOST_NAMES {
            self.names.pop_first();
        }
        self.names.insert(destination, found);
        let now = Instant::now();
        waiting.into_iter().map(|datagram| self.send(now, datagram)).sum()
    }

    /// Notes that the client sends to an address; returns false if it must not.
    fn note(&mut self, now: Instant, address: SocketAddr, is_resolver: bool) -> bool {
        if let Some(peer) = self.peers.get_mut(&address) {
            (peer.last, peer.is_resolver) = (now, is_resolver);
            return true;
        }
        // The destination of the flow was checked; it may be the resolver, which no rule allows.
        let is_named = self.usual.contains(address) || self.names.values().any(|named| *named == Ok(address));
        if !is_named && let Err(class) = self.shared.rules.check(address) {
            tracing::debug!(%address, %class, "a datagram goes to a forbidden address");
            return false;
        }
        if self.peers.len() >= MOST_PEERS
            && let Some(oldest) = self.peers.iter().min_by_key(|(_, peer)| peer.last).map(|(it, _)| *it)
        {
            self.peers.remove(&oldest);
        }
        self.peers.insert(address, Peer { last: now, is_resolver });
        true
    }

    /// Passes on what a socket has; returns the bytes of datagrams.
    fn answer(&mut self, ready: Family) -> io::Result<u64> {
        let mut passed = 0;
        for _ in 0..BATCH {
            match self.sockets.take(ready) {
                Some(Event::Datagram { source, payload }) => {
                    let Some(known) = self.known_as(source) else { continue };
                    if matches!(known, Known::Usual) {
                        self.usual.on_answer(&payload);
                    }
                    if self.sender.send(known.address(), &payload)? {
                        passed += payload.len() as u64;
                    }
                }
                Some(Event::Error { destination, reason, quote }) => {
                    let now = Instant::now();
                    match self.known_as(destination) {
                        Some(Known::Usual) => self.on_usual_error(now, destination, reason, &quote)?,
                        Some(Known::As(about)) => self.tell(now, Some(&about), reason, &quote)?,
                        None => {}
                    }
                }
                Some(Event::Nothing) => {}
                None => break,
            }
        }
        Ok(passed)
    }

    /// What the client calls an address; `None` if it has not sent to it.
    // egress 8.7
    fn known_as(&self, address: SocketAddr) -> Option<Known> {
        let peer = self.peers.get(&address)?;
        if self.usual.contains(address) {
            return Some(Known::Usual);
        }
        let (host, port) = match (peer.is_resolver, address.port()) {
            (true, _) => (Host::Resolver, DNS),
            // ICMP has no ports.
            (false, 0) => (Host::Ip(address.ip()), FlowKind::ECHO_PORT),
            (false, port) => (Host::Ip(address.ip()), port),
        };
        Destination::new(host, port).ok().map(Known::As)
    }
}

/// Datagrams and errors that are received at a time.
const BATCH: usize = 32;
/// Addresses of a flow that may answer, and names that it may use.
const MOST_PEERS: usize = 256;
const MOST_NAMES: usize = 64;
/// Errors of a flow at once, and in a second.
const MOST_ERRORS: f64 = 8.0;
const ERRORS_A_SECOND: f64 = 4.0;
