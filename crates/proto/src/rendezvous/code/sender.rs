//! The offering end of a code.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::Side;
use manyway_wire::rendezvous::decode_addresses;
use manyway_wire::rendezvous::mailbox::{Letter, Status};

use super::mailbox_end::{Heard, MailboxEnd};
use super::pake::{Exchange, Keys, MAX_CONTENT};
use super::{CodeFailure, RelayKey, ShortCode};
use crate::{Instant, Rng};

/// Time after which an unused code is void (spec 10.22).
const LIFETIME: Duration = Duration::from_secs(3600);
/// Time that the other end has to show that it has the code, once it began.
const EXCHANGE: Duration = Duration::from_secs(60);
/// Silence after which a rendezvous server is given up before the code exists.
const PATIENCE: Duration = Duration::from_secs(4);
/// Time between requests while the code is unused, and during the exchange.
const IDLE_PACE: Duration = Duration::from_secs(1);
const EXCHANGE_PACE: Duration = Duration::from_millis(250);

/// What happened to a code at the offering end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodeSenderEvent {
    /// The code exists, and waits for its content.
    Opened(ShortCode),
    /// The other end has the code and gets the content.
    Delivered,
    /// The other end can be reached at these addresses.
    PeerAt(Vec<SocketAddr>),
    /// The code is void.
    Failed(CodeFailure),
}

/// The offering end of a code, without a socket and a clock: it gets a number from a rendezvous server, and gives its
/// content to the one end that has the code.
///
/// The code is void after one wrong guess, one use or an hour.
///
/// ```
/// use manyway_proto::{CodeSender, Instant, Rng};
///
/// let now = Instant::from_nanos(0);
/// let mut sender = CodeSender::new(now, &["192.0.2.9:4455".parse()?], Rng::from_seed([1; 32]));
/// let mut request = Vec::new();
/// assert_eq!(sender.poll_transmit(now, &mut request), Some("192.0.2.9:4455".parse()?));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug)]
pub struct CodeSender {
    end: MailboxEnd,
    stage: Stage,
    content: Vec<u8>,
    events: VecDeque<CodeSenderEvent>,
    rng: Rng,
}

#[derive(Debug)]
enum Stage {
    /// No number yet.
    Opening,
    /// The code exists, and waits for its content.
    Open(ShortCode),
    /// The code may be used until then.
    Waiting(Box<Exchange>, Instant),
    /// The other end began and has to show until then that it has the code.
    Answered(Box<Keys>, Instant),
    /// The other end has the content.
    Delivered(Box<Keys>),
    Ended,
}

impl CodeSender {
    /// Opens a mailbox at the first of these servers that answers; all randomness comes from `rng`.
    pub fn new(now: Instant, servers: &[SocketAddr], mut rng: Rng) -> Self {
        let end = MailboxEnd::new(now, (Side::Server, 0), servers, IDLE_PACE, &mut rng);
        Self { end, stage: Stage::Opening, content: Vec::new(), events: VecDeque::new(), rng }
    }

    /// Sets what the other end gets, until it is [delivered](CodeSenderEvent::Delivered). The code cannot be used
    /// before the first call after [`Opened`](CodeSenderEvent::Opened). Returns false if it has more than
    /// [`MAX_CONTENT`](super::MAX_CONTENT) bytes.
    pub fn set_content(&mut self, now: Instant, content: &[u8]) -> bool {
        if content.len() > MAX_CONTENT {
            return false;
        }
        self.content = content.to_vec();
        if let Stage::Open(code) = self.stage {
            let exchange = Exchange::new(Side::Server, &code, &mut self.rng);
            self.stage = Stage::Waiting(Box::new(exchange), now + LIFETIME);
            self.end.go_on(now);
        }
        true
    }

    /// Handles a datagram, and returns whether it was an answer to the newest request; whatever is none has no effect.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> bool {
        match self.end.handle_datagram(now, from, datagram) {
            Heard::Nothing => return false,
            Heard::Answer => {}
            Heard::Open(letter) => self.on_open(now, letter),
            Heard::Refused(status) => match self.stage {
                Stage::Opening if status == Status::Full => {
                    self.fail(now, CodeFailure::Full);
                }
                Stage::Delivered(_) | Stage::Ended => {}
                Stage::Opening | Stage::Open(_) | Stage::Waiting(..) | Stage::Answered(..) => {
                    self.fail(now, CodeFailure::Lost);
                }
            },
        }
        true
    }

    fn on_open(&mut self, now: Instant, letter: Option<(u8, Box<Letter>)>) {
        if matches!(self.stage, Stage::Opening) {
            let code = ShortCode::random(self.end.number(), &mut self.rng);
            self.stage = Stage::Open(code);
            self.end.pause();
            self.events.push_back(CodeSenderEvent::Opened(code));
        } else if let Some((index, letter)) = letter {
            self.take(now, index, &letter);
        }
    }

    fn take(&mut self, now: Instant, index: u8, letter: &Letter) {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Waiting(exchange, _) => {
                let own = exchange.letter();
                // What is no message of the exchange is a guess too.
                let Some(keys) = exchange.finish(letter) else { return self.fail(now, CodeFailure::Wrong) };
                self.stage = Stage::Answered(Box::new(keys), now + EXCHANGE);
                self.end.set_pace(EXCHANGE_PACE);
                self.end.post(now, own);
            }
            Stage::Answered(keys, _) => {
                let is_right = keys.open(index, letter).is_some();
                let own = is_right.then(|| keys.seal(self.end.posted() + 1, &self.content)).flatten();
                // This end shows only now that it has the code, so a guess tells nothing but that it was wrong.
                let Some(own) = own else { return self.fail(now, CodeFailure::Wrong) };
                self.end.post(now, own);
                self.stage = Stage::Delivered(keys);
                self.events.push_back(CodeSenderEvent::Delivered);
            }
            Stage::Delivered(keys) => {
                let addresses = keys.open(index, letter).and_then(|clear| decode_addresses(&clear).ok());
                if let Some(addresses) = addresses {
                    self.events.push_back(CodeSenderEvent::PeerAt(addresses));
                }
                self.stage = Stage::Delivered(keys);
            }
            other @ (Stage::Opening | Stage::Open(_) | Stage::Ended) => self.stage = other,
        }
    }

    fn fail(&mut self, now: Instant, failure: CodeFailure) {
        self.events.push_back(CodeSenderEvent::Failed(failure));
        self.close(now);
    }

    /// The code is not needed any more: tells the rendezvous server, which forgets it.
    pub fn close(&mut self, now: Instant) {
        self.stage = Stage::Ended;
        self.end.leave(now);
    }

    /// Whether nothing is to be sent any more.
    pub fn is_closed(&self) -> bool {
        self.end.has_left()
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
            Stage::Waiting(_, until) | Stage::Answered(_, until) => Some(until),
            Stage::Opening | Stage::Open(_) | Stage::Delivered(_) | Stage::Ended => None,
        };
        self.end.deadline().into_iter().chain(until).min()
    }

    /// Handles the timers that have expired.
    pub fn handle_timeout(&mut self, now: Instant) {
        match self.stage {
            Stage::Opening if self.end.silence(now) >= PATIENCE => self.fail(now, CodeFailure::NoAnswer),
            Stage::Waiting(_, until) if until <= now => self.fail(now, CodeFailure::Expired),
            Stage::Answered(_, until) if until <= now => self.fail(now, CodeFailure::Abandoned),
            Stage::Opening
            | Stage::Open(_)
            | Stage::Waiting(..)
            | Stage::Answered(..)
            | Stage::Delivered(_)
            | Stage::Ended => {}
        }
    }

    /// Writes the next datagram into `buffer`, which is cleared first, and returns its destination.
    pub fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<SocketAddr> {
        buffer.clear();
        self.end.poll_transmit(now, &mut self.rng, buffer)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<CodeSenderEvent> {
        self.events.pop_front()
    }
}
