//! The end that offers a ticket.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use manyway_proto::{CodeFailure, CodeSender, CodeSenderEvent, ShortCode, may_be_challenged};
use tokio::time::Instant;

use super::post::Post;
use super::{Access, CodeError, DIRECT, Observer, StreamRelay, random};
use crate::link::Errand;
use crate::ticket::{HostPort, Ticket};
use crate::{Clock, Endpoint};

/// Time from one question where this end is seen to the next: before there is an answer, and later, which keeps the
/// binding of a NAT.
const ASK_SOON: Duration = Duration::from_millis(500);
const ASK_AGAIN: Duration = Duration::from_secs(15);
/// Knocks at the addresses of the other end, and the time between them: its packets may come before or after.
const KNOCKS: u8 = 20;
const BETWEEN_KNOCKS: Duration = Duration::from_millis(250);
/// Time between questions for a relay.
const BETWEEN_BINDS: Duration = Duration::from_secs(1);
/// Time for which the other end may name addresses once it has the ticket.
const AFTER_DELIVERY: Duration = Duration::from_secs(60);

/// A code for a ticket. It is void after one wrong guess, one use, or one hour.
///
/// ```no_run
/// # async fn example(endpoint: &manyway::Endpoint, ticket: &manyway::Ticket) -> Result<(), Box<dyn std::error::Error>> {
/// let mut offered = endpoint.offer_code(&["192.0.2.9:4455".parse()?], ticket).await?;
/// println!("on the other computer: manyway get {}", offered.code());
/// tokio::select! {
///     void = offered.run() => void?,
///     client = endpoint.accept() => println!("{client:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OfferedCode {
    code: ShortCode,
    sender: CodeSender,
    clock: Clock,
    post: Post,
    ticket: Ticket,
    observer: Observer,
    /// Where the other end is, and how often this end is still to knock there.
    peer: (Vec<SocketAddr>, u8),
    ask_at: Instant,
    knock_at: Instant,
    bind_at: Instant,
    over_tcp: StreamRelay,
    /// Set once the other end has the ticket.
    until: Option<Instant>,
}

impl Endpoint {
    /// Opens a code for a ticket of this endpoint at the first of these rendezvous servers that answers. The end that
    /// has the code gets the ticket, once, by [`redeem_code`](Self::redeem_code), and also the addresses at which those
    /// servers see this endpoint. [`OfferedCode::run`] does the work.
    ///
    /// The servers are reached over the interfaces of [`EndpointOptions::locals`](crate::EndpointOptions::locals) and as
    /// [`EndpointOptions::carriers`](crate::EndpointOptions::carriers) says for a client.
    ///
    /// # Errors
    /// No interface leads to the servers, none answers within 4 s, or there is no room for another code.
    pub async fn offer_code(
        &self,
        servers: &[SocketAddr],
        ticket: &Ticket,
    ) -> Result<OfferedCode, CodeError> {
        let access = self.access().ok_or(CodeError::EndpointClosed)?;
        OfferedCode::open(access, servers, ticket.clone()).await
    }
}

impl OfferedCode {
    async fn open(access: Access, servers: &[SocketAddr], ticket: Ticket) -> Result<Self, CodeError> {
        access.check(servers).await?;
        let clock = Clock::new();
        let mut post = Post::new(access.clone(), clock);
        let mut sender = CodeSender::new(clock.now(), servers, random()?);
        let code = loop {
            match sender.poll_event() {
                Some(CodeSenderEvent::Opened(code)) => break code,
                Some(CodeSenderEvent::Failed(failure)) => return Err(failure.into()),
                Some(_) | None => post.turn(&mut sender).await,
            }
        };
        if !sender.set_content(clock.now(), &ticket.to_bytes()) {
            return Err(CodeError::TooLong);
        }
        let now = Instant::now();
        Ok(Self {
            code,
            sender,
            clock,
            post,
            ticket,
            observer: Observer::new(access, servers),
            peer: (Vec::new(), 0),
            ask_at: now,
            knock_at: now,
            bind_at: now,
            over_tcp: StreamRelay(None),
            until: None,
        })
    }

    /// The code, for the other end.
    pub fn code(&self) -> &ShortCode {
        &self.code
    }

    /// Gives the ticket to the end that has the code. Then it lets the packets of that end in for a minute, directly
    /// where a NAT before this endpoint keeps strangers out, and over a rendezvous server that relays, and returns.
    /// Dropping the future loses nothing, it may be called again.
    ///
    /// # Errors
    /// Why the code is void.
    pub async fn run(&mut self) -> Result<(), CodeFailure> {
        loop {
            while let Some(event) = self.sender.poll_event() {
                match event {
                    CodeSenderEvent::Delivered => {
                        self.until = Some(Instant::now() + AFTER_DELIVERY);
                        let (server, key) = (self.sender.server(), self.sender.relay_key());
                        let access = self.observer.access.clone();
                        self.over_tcp = StreamRelay::start(access, server, key, DIRECT);
                    }
                    CodeSenderEvent::PeerAt(addresses) => self.meet(addresses),
                    CodeSenderEvent::Failed(failure) => {
                        self.close().await;
                        return Err(failure);
                    }
                    CodeSenderEvent::Opened(_) | _ => {}
                }
            }
            let now = Instant::now();
            if self.until.is_some_and(|until| until <= now) {
                self.close().await;
                return Ok(());
            }
            self.do_errands(now);
            let knock_at = (self.peer.1 > 0).then_some(self.knock_at);
            let bind_at = self.until.map(|_| self.bind_at);
            let errand_at = knock_at.into_iter().chain(bind_at).fold(self.ask_at, Instant::min);
            let Self { sender, post, observer, ticket, clock, over_tcp, .. } = self;
            tokio::select! {
                () = post.turn(sender) => {}
                () = observer.changed() => {
                    let ticket = ticket.with_hosts(observer.seen.iter().copied().map(HostPort::from));
                    sender.set_content(clock.now(), &ticket.to_bytes());
                }
                stream = over_tcp.connected() => observer.access.send(Errand::ServeStream(Box::new(stream))),
                () = tokio::time::sleep_until(errand_at) => {}
            }
        }
    }

    /// Tells the rendezvous server that the code is void; it takes a second at most.
    pub async fn close(&mut self) {
        self.sender.close(self.clock.now());
        while !self.sender.is_closed() {
            self.post.turn(&mut self.sender).await;
        }
    }

    /// The other end named its addresses.
    fn meet(&mut self, mut addresses: Vec<SocketAddr>) {
        let servers: Vec<IpAddr> = self.observer.servers.iter().map(SocketAddr::ip).collect();
        // The other end has the code, but must not aim this host at third parties in a private network (spec 6.7).
        addresses.retain(|address| servers.iter().any(|server| may_be_challenged(*address, *server)));
        self.peer = (addresses, KNOCKS);
        self.knock_at = Instant::now();
    }

    fn do_errands(&mut self, now: Instant) {
        if self.ask_at <= now {
            self.observer.ask();
            self.ask_at = now + if self.observer.seen.is_empty() { ASK_SOON } else { ASK_AGAIN };
        }
        if self.until.is_some() && self.bind_at <= now {
            self.observer.bind_relay(self.sender.relay_key());
            self.bind_at = now + BETWEEN_BINDS;
        }
        let (remotes, knocks) = &mut self.peer;
        if *knocks > 0 && self.knock_at <= now {
            *knocks -= 1;
            self.knock_at = now + BETWEEN_KNOCKS;
            self.observer.access.send(Errand::Knock { remotes: remotes.clone() });
        }
    }
}
