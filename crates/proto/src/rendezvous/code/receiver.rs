//! The end of a code that fetches its content.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::rendezvous::mailbox::{Letter, Status};
use manyway_wire::rendezvous::{CLEAR_LEN, encode_addresses};
use manyway_wire::{Side, Writer};

use super::mailbox_end::{Heard, MailboxEnd};
use super::pake::{Exchange, Keys};
use super::{CodeFailure, RelayKey, ShortCode};
use crate::{Instant, Rng};

/// Time that the other end has for each of its letters.
const EXCHANGE: Duration = Duration::from_secs(20);
/// Silence after which the rendezvous servers are given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between requests.
const PACE: Duration = Duration::from_millis(250);

/// What happened to a code at the fetching end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodeReceiverEvent {
    /// What the code carries.
    Content(Vec<u8>),
    /// There will be no content.
    Failed(CodeFailure),
}

/// The fetching end of a code, without a socket and a clock.
///
/// A failure uses the code up, apart from [`NoAnswer`](CodeFailure::NoAnswer).
#[derive(Debug)]
pub struct CodeReceiver {
    end: MailboxEnd,
    stage: Stage,
    until: Instant,
    events: VecDeque<CodeReceiverEvent>,
    rng: Rng,
}

#[derive(Debug)]
enum Stage {
    /// Waits for the first letter.
    Asking(Box<Exchange>),
    /// Has shown that it has the code.
    Confirmed(Box<Keys>),
    /// Has the content.
    Done(Box<Keys>),
    Ended,
}

impl CodeReceiver {
    /// Begins to use a code at the first of these servers that knows it; all randomness comes from `rng`.
    pub fn new(now: Instant, code: &ShortCode, servers: &[SocketAddr], mut rng: Rng) -> Self {
        let exchange = Exchange::new(Side::Client, code, &mut rng);
        let mut end = MailboxEnd::new(now, (Side::Client, code.number()), servers, PACE, &mut rng);
        end.post(now, exchange.letter());
        let stage = Stage::Asking(Box::new(exchange));
        Self { end, stage, until: now + EXCHANGE, events: VecDeque::new(), rng }
    }

    /// Tells the other end where this one can be reached; it has an effect once the content is there.
    pub fn set_addresses(&mut self, now: Instant, addresses: &[SocketAddr]) {
        let Stage::Done(keys) = &self.stage else { return };
        let mut clear = Vec::with_capacity(CLEAR_LEN);
        encode_addresses(&mut Writer::new(&mut clear, CLEAR_LEN), addresses);
        let index = self.end.posted().checked_add(1);
        if let Some(letter) = index.and_then(|index| keys.seal(index, &clear)) {
            self.end.post(now, letter);
        }
    }

    /// Handles a datagram, and returns whether it was an answer to the newest request; whatever is none has no effect.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> bool {
        match self.end.handle_datagram(now, from, datagram) {
            Heard::Nothing => return false,
            Heard::Answer | Heard::Open(None) => {}
            Heard::Open(Some((index, letter))) => self.take(now, index, &letter),
            Heard::Refused(status) => self.on_refused(now, status),
        }
        true
    }

    fn on_refused(&mut self, now: Instant, status: Status) {
        match &self.stage {
            Stage::Asking(_) if status == Status::Taken => self.fail(CodeFailure::Used),
            // Each server has numbers of its own.
            Stage::Asking(_) if self.end.drop_server(now) => {}
            Stage::Asking(_) => self.fail(CodeFailure::Unknown),
            // The other end closes the mailbox if the codes differ.
            Stage::Confirmed(_) => self.fail(CodeFailure::Wrong),
            Stage::Done(_) | Stage::Ended => {}
        }
    }

    fn take(&mut self, now: Instant, index: u8, letter: &Letter) {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Asking(exchange) => {
                let keys = exchange.finish(letter);
                let own = keys.as_ref().and_then(|keys| keys.seal(self.end.posted() + 1, &[]));
                let (Some(keys), Some(own)) = (keys, own) else { return self.fail(CodeFailure::Wrong) };
                self.until = now + EXCHANGE;
                self.end.post(now, own);
                self.stage = Stage::Confirmed(Box::new(keys));
            }
            Stage::Confirmed(keys) => match keys.open(index, letter) {
                Some(content) => {
                    self.events.push_back(CodeReceiverEvent::Content(content));
                    self.stage = Stage::Done(keys);
                }
                None => self.fail(CodeFailure::Wrong),
            },
            // Nothing comes after the content.
            other @ (Stage::Done(_) | Stage::Ended) => self.stage = other,
        }
    }

    fn fail(&mut self, failure: CodeFailure) {
        self.stage = Stage::Ended;
        self.end.pause();
        self.events.push_back(CodeReceiverEvent::Failed(failure));
    }

    /// With what the endpoint asks the rendezvous server to relay, once the content was delivered
    /// ([`Endpoint::bind_relay`](crate::Endpoint::bind_relay)).
    pub fn relay_key(&self) -> RelayKey {
        self.end.relay_key()
    }

    /// The rendezvous server that has the mailbox.
    pub fn server(&self) -> Option<SocketAddr> {
        self.end.server()
    }

    /// When [`handle_timeout`](Self::handle_timeout) and [`poll_transmit`](Self::poll_transmit) have something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let until = match self.stage {
            Stage::Asking(_) | Stage::Confirmed(_) => Some(self.until),
            Stage::Done(_) => None,
            Stage::Ended => return None,
        };
        self.end.deadline().into_iter().chain(until).min()
    }

    /// Handles the timers that have expired.
    pub fn handle_timeout(&mut self, now: Instant) {
        if !matches!(self.stage, Stage::Asking(_) | Stage::Confirmed(_)) {
            return;
        }
        if self.end.silence(now) >= PATIENCE {
            self.fail(CodeFailure::NoAnswer);
        } else if self.until <= now {
            self.fail(CodeFailure::Abandoned);
        }
    }

    /// Writes the next datagram into `buffer`, which is cleared first, and returns its destination.
    pub fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<SocketAddr> {
        buffer.clear();
        self.end.poll_transmit(now, &mut self.rng, buffer)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<CodeReceiverEvent> {
        self.events.pop_front()
    }
}
