//! An end of a mailbox: sends requests until they are answered, leaves its letters and takes those of the other end.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::rendezvous::mailbox::{Ask, LETTER_LEN, LONG_LEN, Letter, State, Status};
use manyway_wire::rendezvous::{Body, Cookie, Message, Token};
use manyway_wire::{Side, Writer};

use super::RelayKey;
use crate::{Instant, Rng};

/// Time until an unanswered request is repeated, which doubles each time up to the longest (spec 10.23).
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Requests that follow an answer at once: with the cookie, for a letter, and with a letter that got lost.
const REPEATS: u8 = 3;
/// Times that the end says that it leaves.
const FAREWELLS: u8 = 3;
/// Part of the nonce that the system uses to find one of several endpoints on a port: the first has index 0.
const NONCE_MASK: u64 = !(0xff << 48);

/// What an answer brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It was no answer to the newest request.
    Nothing,
    /// An answer that brought nothing.
    Answer,
    /// The server has the mailbox open for this end, and perhaps a letter, with its index.
    Open(Option<(u8, Box<Letter>)>),
    /// The server has it not. Nothing more is sent until the owner of this end decides.
    Refused(Status),
}

#[derive(Debug)]
pub(super) struct MailboxEnd {
    side: Side,
    token: Token,
    number: u32,
    servers: Vec<Server>,
    /// The server in use, which stays once it has answered.
    at: usize,
    is_settled: bool,
    /// Of the newest request; `None` once it was answered.
    nonce: Option<u64>,
    /// The newest letter of this end, and how many there were.
    own: Option<Box<Letter>>,
    posted: u8,
    /// Which of them the server has.
    held: u8,
    /// The newest letter of the other end that arrived.
    taken: u8,
    /// The newest letter of the other end that the server has.
    offered: u8,
    next_at: Option<Instant>,
    wait: Duration,
    /// Time between an answer and the next request.
    pace: Duration,
    repeats_left: u8,
    is_repeat: bool,
    /// How often it is still to say that it leaves; `None` while it stays.
    farewells: Option<u8>,
    /// When the first request since the last answer was sent.
    asked_at: Option<Instant>,
}

#[derive(Debug)]
struct Server {
    address: SocketAddr,
    cookie: Cookie,
}

impl MailboxEnd {
    /// An end of the mailbox `number`, or with 0 the owner of a new one, at the first of these servers that answers.
    pub(super) fn new(
        now: Instant,
        (side, number): (Side, u32),
        servers: &[SocketAddr],
        pace: Duration,
        rng: &mut Rng,
    ) -> Self {
        let mut token = [0; 16];
        rng.fill(&mut token);
        let server = |address: &SocketAddr| Server { address: *address, cookie: [0; 16] };
        Self {
            side,
            token,
            number,
            servers: servers.iter().map(server).collect(),
            at: 0,
            is_settled: false,
            nonce: None,
            own: None,
            posted: 0,
            held: 0,
            taken: 0,
            offered: 0,
            next_at: Some(now),
            wait: FIRST_WAIT,
            pace,
            repeats_left: REPEATS,
            is_repeat: false,
            farewells: None,
            asked_at: None,
        }
    }

    /// The number of the mailbox; 0 before a new one is open.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// What shows the server that has the mailbox whose it is.
    pub(super) fn relay_key(&self) -> RelayKey {
        RelayKey { token: self.token, number: self.number }
    }

    /// The server in use.
    pub(super) fn server(&self) -> Option<SocketAddr> {
        self.servers.get(self.at).map(|server| server.address)
    }

    /// How many letters this end has left.
    pub(super) fn posted(&self) -> u8 {
        self.posted
    }

    pub(super) fn set_pace(&mut self, pace: Duration) {
        self.pace = pace;
    }

    /// Leaves a letter in the place of the one before. There are 255 at most; further ones are not sent.
    pub(super) fn post(&mut self, now: Instant, letter: Letter) {
        if self.posted < u8::MAX {
            self.posted += 1;
            self.own = Some(Box::new(letter));
            self.ask_at(now);
        }
    }

    /// Waits for an answer no longer, and asks at that time.
    fn ask_at(&mut self, at: Instant) {
        (self.nonce, self.next_at) = (None, Some(at));
    }

    /// Sends nothing until [`Self::go_on`].
    pub(super) fn pause(&mut self) {
        self.next_at = None;
    }

    pub(super) fn go_on(&mut self, now: Instant) {
        self.ask_at(now);
    }

    /// Says a few times that it leaves, unless that is answered, and ends.
    pub(super) fn leave(&mut self, now: Instant) {
        if self.farewells.is_none() {
            self.farewells = Some(if self.is_settled { FAREWELLS } else { 0 });
            self.wait = FIRST_WAIT / 2;
            self.ask_at(now);
        }
    }

    /// Whether it has left.
    pub(super) fn has_left(&self) -> bool {
        self.farewells == Some(0)
    }

    /// Asks the server in use no more; returns whether there is another one.
    pub(super) fn drop_server(&mut self, now: Instant) -> bool {
        self.servers.remove(self.at);
        let has_other = !self.servers.is_empty();
        if has_other {
            (self.at, self.is_settled, self.held) = (0, false, 0);
            self.ask_at(now);
        }
        has_other
    }

    /// For how long requests have gone unanswered.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        self.asked_at.map_or(Duration::ZERO, |at| now - at)
    }

    /// When [`poll_transmit`](Self::poll_transmit) has something again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.next_at.filter(|_| !self.has_left() && !self.servers.is_empty())
    }

    /// Appends the next datagram to send to the empty `buffer`, and returns its destination.
    pub(super) fn poll_transmit(
        &mut self,
        now: Instant,
        rng: &mut Rng,
        buffer: &mut Vec<u8>,
    ) -> Option<SocketAddr> {
        if self.deadline().is_none_or(|at| now < at) {
            return None;
        }
        if self.nonce.is_some() {
            if !self.is_settled {
                self.at = (self.at + 1) % self.servers.len();
            }
            // Every server once before the waits grow.
            if self.is_settled || self.at == 0 {
                self.wait = (self.wait * 2).min(LONGEST_WAIT);
            }
        }
        if !std::mem::take(&mut self.is_repeat) {
            self.repeats_left = REPEATS;
        }
        // A repeated request has the same nonce, so a late answer to the first one counts.
        let nonce = self.nonce.unwrap_or_else(|| rng.next_u64() & NONCE_MASK);
        self.nonce = Some(nonce);
        self.asked_at = self.asked_at.or(Some(now));
        let server = self.servers.get(self.at)?;
        let body = match &mut self.farewells {
            Some(left) => {
                *left -= 1;
                Body::Leave { nonce, cookie: server.cookie }
            }
            None => self.ask(nonce, server.cookie),
        };
        Message { token: self.token, body }.encode(&mut Writer::new(buffer, LONG_LEN));
        self.next_at = Some(now + self.wait);
        Some(server.address)
    }

    fn ask(&self, nonce: u64, cookie: Cookie) -> Body<'_> {
        const NO_LETTER: &Letter = &[0; LETTER_LEN];
        let wants_letter = self.offered > self.taken;
        let own = self.own.as_deref().filter(|_| self.posted > self.held || wants_letter);
        // Only a long request gets a letter.
        let letter = own.or(if wants_letter { Some(NO_LETTER) } else { None });
        let Self { side, number, posted, taken, .. } = *self;
        Body::Ask(Ask { side, nonce, cookie, number, posted, taken, letter })
    }

    /// Handles a datagram; whatever is no answer to the newest request has no effect.
    pub(super) fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> Heard {
        let Ok(Message { token, body }) = Message::decode(datagram) else { return Heard::Nothing };
        let (Body::Retry { nonce, .. } | Body::State(State { nonce, .. })) = body else {
            return Heard::Nothing;
        };
        let Some(server) = self.servers.get_mut(self.at) else { return Heard::Nothing };
        if token != self.token || self.nonce != Some(nonce) || server.address != from {
            return Heard::Nothing;
        }
        if let Body::Retry { cookie, .. } = body {
            server.cookie = cookie;
            self.repeat(now);
            return Heard::Answer;
        }
        let Body::State(state) = body else { return Heard::Nothing };
        (self.nonce, self.asked_at, self.wait) = (None, None, FIRST_WAIT);
        if self.farewells.is_some() {
            self.farewells = Some(0);
            return Heard::Answer;
        }
        if state.status != Status::Open {
            self.pause();
            return Heard::Refused(state.status);
        }
        self.on_open(now, &state)
    }

    fn on_open(&mut self, now: Instant, state: &State<'_>) -> Heard {
        self.is_settled = true;
        if self.number == 0 {
            self.number = state.number;
        }
        // After a restart of the server it holds less than before.
        self.held = state.held.min(self.posted);
        let letter = state.letter.filter(|_| state.posted > self.taken);
        if letter.is_some() {
            self.taken = state.posted;
        }
        self.offered = state.posted;
        self.next_at = Some(now + self.pace);
        if self.offered > self.taken || self.held < self.posted {
            self.repeat(now);
        }
        Heard::Open(letter.map(|letter| (state.posted, Box::new(*letter))))
    }

    /// Sends another request at once, but not for ever: a server may answer so each time.
    fn repeat(&mut self, now: Instant) {
        if self.repeats_left > 0 {
            self.repeats_left -= 1;
            self.is_repeat = true;
            self.ask_at(now);
        }
    }
}
