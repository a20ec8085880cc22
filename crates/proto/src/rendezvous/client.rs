//! The rendezvous client of a connection: when it sends requests, from where, and how it uses the answers.
//!
//! One request does everything: it registers the addresses of this end and returns those of the peer.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::rendezvous::{Body, Cookie, MAX_ADDRESSES, Message, REQUEST_LEN, Sealed, Token};
use manyway_wire::{Side, Writer};

use super::Secrets;
use crate::path::pair_order::ordered_pairs;
use crate::{FourTuple, Instant, LocalAddress, Rng, Shard};

/// Time from one round of requests to the next while no path works, or while no server answers.
const WAITS: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];
/// Time between rounds in normal operation: it keeps the registration fresh and NAT bindings open.
const REFRESH: Duration = Duration::from_secs(30);
/// Most pairs of a local socket and a rendezvous server that are used.
const MOST_PAIRS: usize = 8;
/// Further requests of a pair in a round: one with the cookie, and one after this end learnt its external address.
const REPEATS: u8 = 2;

/// One pair of a local socket and a rendezvous server.
#[derive(Debug, Clone, Copy)]
struct ServerPair {
    tuple: FourTuple,
    /// Nonce of the newest request; `None` once it was answered.
    nonce: Option<u64>,
    cookie: Cookie,
    /// The address of this end as the server sees it.
    seen: Option<SocketAddr>,
    due: bool,
    repeats_left: u8,
}

/// Stage of a round of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The addresses changed: a round starts at once.
    Moved,
    /// The round started.
    Asking,
    /// One answer arrived while a path works, which suffices.
    Answered,
}

/// The result of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Learnt {
    /// The complete list of the peer's addresses, newer than any before.
    PeerIsAt(Vec<SocketAddr>),
    /// The same list as before.
    PeerStaysAt(Vec<SocketAddr>),
    /// Nothing new.
    Nothing,
}

/// The client of a connection's rendezvous servers.
#[derive(Debug)]
pub(crate) struct RendezvousClient {
    side: Side,
    /// Which of several endpoints on one port asks.
    shard: Shard,
    secrets: Secrets,
    relays: Vec<SocketAddr>,
    pairs: Vec<ServerPair>,
    /// As the driver listed them.
    own: Vec<SocketAddr>,
    /// The last sealed addresses, and the result.
    sealed: Option<(Vec<SocketAddr>, Box<Sealed>)>,
    sequence: u64,
    /// The newest sequence of the peer.
    heard: u64,
    next_at: Instant,
    /// Rounds since an answer, or since the last path was lost.
    rounds: usize,
    pathless: bool,
    stage: Stage,
    /// Pairs of a local socket and an address of the peer that get a knock.
    knocks: Vec<FourTuple>,
}

impl RendezvousClient {
    /// Starts; nothing is sent before [`set_own`](Self::set_own).
    pub(crate) fn new(
        now: Instant,
        (side, shard): (Side, Shard),
        secrets: Secrets,
        relays: &[SocketAddr],
    ) -> Self {
        Self {
            side,
            shard,
            secrets,
            relays: relays.to_vec(),
            pairs: Vec::new(),
            own: Vec::new(),
            sealed: None,
            sequence: 0,
            heard: 0,
            next_at: now,
            rounds: 0,
            pathless: false,
            stage: Stage::Asking,
            knocks: Vec::new(),
        }
    }

    pub(crate) fn token(&self) -> Token {
        self.secrets.token()
    }

    pub(crate) fn relays(&self) -> &[SocketAddr] {
        &self.relays
    }

    /// Sets the sockets of this end, and the addresses at which the peer may reach it. A change starts a round of
    /// requests.
    pub(crate) fn set_own(&mut self, sockets: &[LocalAddress], addresses: &[SocketAddr]) {
        let before: Vec<_> = self.pairs.iter().map(|pair| pair.tuple).collect();
        let known = std::mem::take(&mut self.pairs);
        let pair = |tuple: FourTuple| {
            let known = known.iter().find(|pair| pair.tuple == tuple).copied();
            let new =
                ServerPair { tuple, nonce: None, cookie: [0; 16], seen: None, due: false, repeats_left: 0 };
            known.unwrap_or(new)
        };
        let pairs = ordered_pairs(sockets, &self.relays);
        self.pairs = pairs.into_iter().take(MOST_PAIRS).map(pair).collect();
        let moved = self.own != addresses || self.pairs.iter().any(|pair| !before.contains(&pair.tuple));
        if moved {
            self.own = addresses.to_vec();
            self.stage = Stage::Moved;
            self.pairs.iter_mut().for_each(|pair| pair.seen = None);
        }
    }

    /// Sets whether any path works. Without one the client searches for the peer.
    pub(crate) fn set_pathless(&mut self, now: Instant, pathless: bool) {
        if pathless && !self.pathless {
            self.rounds = 0;
            self.next_at = self.next_at.min(now + WAITS[0]);
        }
        self.pathless = pathless;
    }

    /// When [`poll_transmit`](Self::poll_transmit) has something again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (!self.pairs.is_empty()).then_some(self.next_at)
    }

    /// Sends one knock to each of the peer's addresses, which the peer ignores: it makes NATs and firewalls on the
    /// way accept packets from there (spec 10.9).
    pub(crate) fn knock(&mut self, addresses: &[SocketAddr]) {
        let mut sockets: Vec<_> = self.pairs.iter().map(|pair| pair.tuple.local).collect();
        sockets.sort_unstable();
        sockets.dedup();
        let pairs = addresses.iter().take(MAX_ADDRESSES).flat_map(|remote| {
            let fitting = sockets.iter().filter(|local| local.address.is_ipv4() == remote.is_ipv4());
            fitting.map(|local| FourTuple::udp(*local, *remote))
        });
        self.knocks = pairs.take(MOST_PAIRS).collect();
    }

    /// Appends the next datagram to send to the empty `buffer`, and returns its addresses.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        rng: &mut Rng,
        buffer: &mut Vec<u8>,
    ) -> Option<FourTuple> {
        if self.stage == Stage::Moved {
            self.rounds = 0;
            self.next_at = now;
        }
        if self.next_at <= now && !self.pairs.is_empty() {
            self.begin_round(now);
        }
        let writer = &mut Writer::new(buffer, REQUEST_LEN);
        if let Some(tuple) = self.knocks.pop() {
            // The token is for the rendezvous server only.
            Message { token: [0; 16], body: Body::Knock }.encode(writer);
            return Some(tuple);
        }
        let at = self.pairs.iter().position(|pair| pair.due)?;
        self.seal_anew();
        let (_, sealed) = self.sealed.as_ref()?;
        let pair = self.pairs.get_mut(at)?;
        let mut nonce = rng.next_u64().to_be_bytes();
        // The answer has the nonce, so the system can tell whose it is.
        self.shard.mark(&mut nonce);
        let nonce = u64::from_be_bytes(nonce);
        (pair.due, pair.nonce) = (false, Some(nonce));
        let body = Body::Request { side: self.side, nonce, cookie: pair.cookie, sealed };
        Message { token: self.secrets.token(), body }.encode(writer);
        Some(pair.tuple)
    }

    fn begin_round(&mut self, now: Instant) {
        for pair in &mut self.pairs {
            (pair.due, pair.repeats_left) = (true, REPEATS);
        }
        let last = WAITS.last().filter(|_| self.pathless);
        let wait = WAITS.get(self.rounds).or(last).copied().unwrap_or(REFRESH);
        self.rounds += 1;
        self.stage = Stage::Asking;
        self.next_at = now + wait;
    }

    /// Seals the addresses if they differ from the last sealed ones.
    fn seal_anew(&mut self) {
        let mut addresses = self.own.clone();
        addresses.truncate(MAX_ADDRESSES);
        for seen in self.pairs.iter().filter_map(|pair| pair.seen) {
            if !addresses.contains(&seen) && addresses.len() < MAX_ADDRESSES {
                addresses.push(seen);
            }
        }
        if self.sealed.as_ref().is_some_and(|(before, _)| *before == addresses) {
            return;
        }
        self.sequence += 1;
        if let Some(sealed) = self.secrets.seal(self.sequence, &addresses) {
            self.sealed = Some((addresses, Box::new(sealed)));
        }
    }

    /// Handles a message of a rendezvous server; any other has no effect.
    pub(crate) fn on_message(&mut self, now: Instant, from: SocketAddr, body: &Body<'_>) -> Learnt {
        let (Body::Retry { nonce, .. } | Body::Answer { nonce, .. }) = *body else { return Learnt::Nothing };
        let is_requested = |pair: &&mut ServerPair| pair.tuple.remote == from && pair.nonce == Some(nonce);
        let Some(pair) = self.pairs.iter_mut().find(is_requested) else { return Learnt::Nothing };
        pair.nonce = None;
        match *body {
            Body::Retry { cookie, .. } => {
                pair.cookie = cookie;
                pair.ask_again();
                Learnt::Nothing
            }
            Body::Answer { seen, sealed, .. } => {
                let news = pair.seen != Some(seen) && !self.own.contains(&seen);
                pair.seen = Some(seen);
                if news {
                    pair.ask_again();
                }
                self.on_answered(now);
                sealed.map_or(Learnt::Nothing, |sealed| self.take(sealed))
            }
            Body::Request { .. }
            | Body::Knock
            | Body::Ask(_)
            | Body::State(_)
            | Body::Leave { .. }
            | Body::Observe { .. }
            | Body::Bind { .. }
            | Body::Bound { .. } => Learnt::Nothing,
        }
    }

    fn on_answered(&mut self, now: Instant) {
        if !self.pathless && self.stage == Stage::Asking {
            self.rounds = 0;
            self.next_at = now + REFRESH;
            self.stage = Stage::Answered;
        }
    }

    /// Only a newer list counts: a copy of an old answer changes nothing (spec 10.15).
    fn take(&mut self, sealed: &Sealed) -> Learnt {
        match self.secrets.open(sealed) {
            Some((sequence, addresses)) if sequence > self.heard => {
                self.heard = sequence;
                Learnt::PeerIsAt(addresses)
            }
            Some((sequence, addresses)) if sequence == self.heard => Learnt::PeerStaysAt(addresses),
            Some(_) | None => Learnt::Nothing,
        }
    }
}

impl ServerPair {
    /// Sends another request at once, but not for ever: a server may answer so each time.
    fn ask_again(&mut self) {
        if self.repeats_left > 0 {
            self.repeats_left -= 1;
            self.due = true;
        }
    }
}
