//! The end that redeems a code.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::identity::Identity;
use manyway_proto::{CodeReceiver, CodeReceiverEvent, ShortCode};
use tokio::time::Instant;

use super::post::Post;
use super::{Access, CodeError, DIRECT, OVER_UDP, Observer, StreamRelay, random};
use crate::error::ConnectError;
use crate::link::Errand;
use crate::tcp::RecordStream;
use crate::ticket::{HostPort, Ticket};
use crate::{Clock, Connection, Endpoint};

/// Time from one question where this end is seen to the next. The sockets exist only once the endpoint connects.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(250);

/// The ticket of a code, and the way to its sender over the rendezvous server.
#[derive(Debug)]
pub struct RedeemedCode {
    ticket: Ticket,
    receiver: CodeReceiver,
    clock: Clock,
    servers: Vec<SocketAddr>,
}

impl Endpoint {
    /// Redeems a code at the first of these rendezvous servers that knows it, which are reached as by
    /// [`offer_code`](Self::offer_code).
    ///
    /// ```no_run
    /// # async fn example(endpoint: &manyway::Endpoint) -> Result<(), Box<dyn std::error::Error>> {
    /// let code = "7-guitar-island".parse()?;
    /// let mut redeemed = endpoint.redeem_code(&code, &["192.0.2.9:4455".parse()?]).await?;
    /// let hosts = redeemed.ticket().hosts().to_vec();
    /// let connection = redeemed.connect(endpoint, &hosts).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// No interface leads to the servers, none answers within 10 s or knows the code, the other end does not answer
    /// within 20 s, or the code is wrong: then it is void.
    pub async fn redeem_code(
        &self,
        code: &ShortCode,
        servers: &[SocketAddr],
    ) -> Result<RedeemedCode, CodeError> {
        let access = self.access().ok_or(CodeError::EndpointClosed)?;
        RedeemedCode::redeem(access, code, servers).await
    }
}

impl RedeemedCode {
    async fn redeem(access: Access, code: &ShortCode, servers: &[SocketAddr]) -> Result<Self, CodeError> {
        access.check(servers).await?;
        let clock = Clock::new();
        let mut post = Post::new(access, clock);
        let mut receiver = CodeReceiver::new(clock.now(), code, servers, random()?);
        loop {
            match receiver.poll_event() {
                Some(CodeReceiverEvent::Content(content)) => {
                    let ticket = Ticket::from_bytes(&content).map_err(CodeError::Ticket)?;
                    return Ok(Self { ticket, receiver, clock, servers: servers.to_vec() });
                }
                Some(CodeReceiverEvent::Failed(failure)) => return Err(failure.into()),
                Some(_) | None => post.turn(&mut receiver).await,
            }
        }
    }

    /// The ticket.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Connects to the sender at these of its addresses, while that lets the packets of this endpoint in. Where no
    /// direct way is found within 3 s, and the rendezvous server relays, packets go over that: over UDP, or from 4 s on
    /// over TCP.
    ///
    /// # Errors
    /// As [`Endpoint::connect`].
    pub async fn connect(
        &mut self,
        endpoint: &Endpoint,
        hosts: &[HostPort],
    ) -> Result<Connection, ConnectError> {
        let access = endpoint.access().ok_or(ConnectError::EndpointClosed)?;
        let Self { ticket, receiver, clock, servers } = self;
        let (server, key) = (receiver.server(), receiver.relay_key());
        let mut meeting = Meeting {
            observer: Observer::new(access.clone(), servers),
            over_tcp: StreamRelay::start(access.clone(), server, key, OVER_UDP),
            direct_until: Instant::now() + DIRECT,
            used: Vec::new(),
            receiver,
            clock: *clock,
            post: Post::new(access, *clock),
        };
        let client = Identity::from_ticket_secret(ticket.secret());
        loop {
            let relays = meeting.used.iter().copied().map(HostPort::from);
            let all: Vec<_> = relays.chain(hosts.iter().cloned()).collect();
            // A direct way that opens now is still faster.
            let stream = tokio::select! {
                connected = endpoint.connect_to(&all, *ticket.server_key_hash(), &client) => return connected,
                stream = meeting.find_relay() => stream,
            };
            // The attempt that ended here must not take it.
            if let Some(stream) = stream {
                meeting.observer.access.send(Errand::DialStream(Box::new(stream)));
            }
        }
    }
}

/// What goes on beside an attempt to connect.
struct Meeting<'a> {
    observer: Observer,
    over_tcp: StreamRelay,
    direct_until: Instant,
    /// The relays to connect to.
    used: Vec<SocketAddr>,
    receiver: &'a mut CodeReceiver,
    clock: Clock,
    post: Post,
}

impl Meeting<'_> {
    /// Tells the sender where this endpoint is seen, and asks for a relay, until there is another one; returns the
    /// connection, if it is one over TCP.
    async fn find_relay(&mut self) -> Option<RecordStream> {
        let mut ask_at = Instant::now();
        loop {
            let Self { observer, over_tcp, receiver, clock, post, .. } = self;
            tokio::select! {
                () = post.turn(*receiver) => {}
                () = observer.changed() => receiver.set_addresses(clock.now(), &observer.seen),
                stream = over_tcp.connected() => {
                    let relay = stream.tuple().remote;
                    // TCP goes to one address after another.
                    self.used.retain(|used| *used != relay);
                    self.used.insert(0, relay);
                    return Some(stream);
                }
                () = tokio::time::sleep_until(ask_at) => {
                    observer.ask();
                    observer.bind_relay(receiver.relay_key());
                    ask_at += BETWEEN_QUESTIONS;
                }
            }
            let news = self.observer.relays.iter().find(|relay| !self.used.contains(relay)).copied();
            if let Some(relay) = news.filter(|_| self.direct_until <= Instant::now()) {
                self.used.push(relay);
                return None;
            }
        }
    }
}
