//! The end that redeems a code.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::identity::Identity;
use manyway_proto::{CodeReceiver, CodeReceiverEvent, ShortCode};
use tokio::time::Instant;

use super::post::Post;
use super::{CodeError, Observer, random};
use crate::error::ConnectError;
use crate::ticket::{HostPort, Ticket};
use crate::{Clock, Connection, Endpoint};

/// Time from one question where this end is seen to the next. The sockets exist only once the endpoint connects.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(250);
/// Time that a direct way has before a relay is used.
const DIRECT: Duration = Duration::from_secs(3);

/// Redeems a code at the first of these rendezvous servers that knows it.
///
/// # Errors
/// No server answers within 10 s or knows the code, the other end does not answer within 20 s, or the code is wrong: then
/// it is void.
pub async fn redeem_code(code: &ShortCode, servers: &[SocketAddr]) -> Result<RedeemedCode, CodeError> {
    let clock = Clock::new();
    let post = Post::bind(servers, clock).await?;
    let mut receiver = CodeReceiver::new(clock.now(), code, servers, random()?);
    loop {
        match receiver.poll_event() {
            Some(CodeReceiverEvent::Content(content)) => {
                let ticket = Ticket::from_bytes(&content).map_err(CodeError::Ticket)?;
                return Ok(RedeemedCode { ticket, receiver, clock, post, servers: servers.to_vec() });
            }
            Some(CodeReceiverEvent::Failed(failure)) => return Err(failure.into()),
            Some(_) | None => post.turn(&mut receiver).await,
        }
    }
}

/// The ticket of a code, and the way to its sender over the rendezvous server.
#[derive(Debug)]
pub struct RedeemedCode {
    ticket: Ticket,
    receiver: CodeReceiver,
    clock: Clock,
    post: Post,
    servers: Vec<SocketAddr>,
}

impl RedeemedCode {
    /// The ticket.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Connects to the sender at these of its addresses, while that lets the packets of this endpoint in. Where no
    /// direct way is found within 3 s, and the rendezvous server relays, packets go over that.
    ///
    /// # Errors
    /// As [`Endpoint::connect`].
    pub async fn connect(
        &mut self,
        endpoint: &Endpoint,
        hosts: &[HostPort],
    ) -> Result<Connection, ConnectError> {
        let commands = endpoint.commands().ok_or(ConnectError::EndpointClosed)?;
        let Self { ticket, receiver, clock, post, servers } = self;
        let mut meeting = Meeting { observer: Observer::new(commands, servers), receiver, clock, post };
        let client = Identity::from_ticket_secret(ticket.secret());
        let direct = endpoint.connect_to(hosts, *ticket.server_key_hash(), &client);
        tokio::select! {
            connected = direct => return connected,
            () = meeting.find_relay() => {}
        }
        // The relay comes last: a direct way that opens now is still faster.
        let relays = meeting.observer.relays.iter().copied().map(HostPort::from);
        let hosts: Vec<_> = hosts.iter().cloned().chain(relays).collect();
        tokio::select! {
            connected = endpoint.connect_to(&hosts, *ticket.server_key_hash(), &client) => connected,
            () = meeting.go_on() => std::future::pending().await,
        }
    }
}

/// What goes on beside an attempt to connect.
struct Meeting<'a> {
    observer: Observer,
    receiver: &'a mut CodeReceiver,
    clock: &'a Clock,
    post: &'a Post,
}

impl Meeting<'_> {
    /// Returns once a direct way has had its time and a relay is there.
    async fn find_relay(&mut self) {
        let patience = tokio::time::sleep(DIRECT);
        tokio::pin!(patience);
        tokio::select! {
            () = &mut patience => {}
            () = self.go_on() => {}
        }
        while self.observer.relays.is_empty() {
            // One question and what comes of it.
            let _ = tokio::time::timeout(BETWEEN_QUESTIONS, self.go_on()).await;
        }
    }

    /// Tells the sender where this endpoint is seen, and asks for a relay, without end.
    async fn go_on(&mut self) {
        let mut ask_at = Instant::now();
        loop {
            let Self { observer, receiver, clock, post } = self;
            tokio::select! {
                () = post.turn(*receiver) => {}
                () = observer.changed() => receiver.set_addresses(clock.now(), &observer.seen),
                () = tokio::time::sleep_until(ask_at) => {
                    observer.ask();
                    observer.bind_relay(receiver.relay_key());
                    ask_at += BETWEEN_QUESTIONS;
                }
            }
        }
    }
}
