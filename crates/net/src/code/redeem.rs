//! The end that redeems a code.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{CodeReceiver, CodeReceiverEvent, ShortCode};
use tokio::time::Instant;

use super::post::Post;
use super::{CodeError, Observer, random};
use crate::ticket::Ticket;
use crate::{Clock, Endpoint};

/// Time from one question where this end is seen to the next. The sockets exist only once the endpoint connects.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(250);
/// Questions of one attempt to connect.
const QUESTIONS: u32 = 40;

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

    /// Tells the sender at which addresses the rendezvous servers see this endpoint, so that its NAT lets the endpoint's
    /// packets in. Needed while [`Endpoint::connect`] is under way, beside which it never returns. Dropping the future
    /// ends that.
    pub async fn assist(&mut self, endpoint: &Endpoint) {
        let Some(commands) = endpoint.commands() else { return std::future::pending().await };
        let Self { receiver, clock, post, servers, .. } = self;
        let mut observer = Observer::new(commands, servers);
        let (mut ask_at, mut asked) = (Instant::now(), 0);
        loop {
            tokio::select! {
                () = post.turn(receiver) => {}
                seen = observer.changed() => receiver.set_addresses(clock.now(), seen),
                () = tokio::time::sleep_until(ask_at), if asked < QUESTIONS => {
                    observer.ask();
                    ask_at += BETWEEN_QUESTIONS;
                    asked += 1;
                }
            }
        }
    }
}
