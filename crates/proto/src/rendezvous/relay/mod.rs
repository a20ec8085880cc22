//! Rendezvous server: it keeps the newest sealed addresses of both ends of a connection, and sends each to the other.
//! It does the same with the letters of two ends that have no connection yet, in mailboxes.
//!
//! Its memory is bounded, and it keeps nothing for a client that does not receive at its claimed address. When it is
//! full, the network with the most tokens loses its oldest one. So a flooding network displaces its own tokens, and a
//! network with few tokens keeps them while there is space for that many networks.

mod cookies;
mod limits;
#[cfg(test)]
mod mailbox_tests;
mod mailboxes;
mod pairs;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;

use manyway_wire::rendezvous::{Body, MAX_LEN, Message, Sealed, Token};
use manyway_wire::{Side, Writer};

use crate::prefix::Prefix;
use crate::{FourTuple, Instant, Rng};

use cookies::Cookies;
pub use limits::{ForwardLimits, RelayCounters, RelayLimits};
use mailboxes::Mailboxes;
pub use pairs::Forwarding;
use pairs::Pairs;

/// The state of one connection.
struct Entry {
    /// Of the client, and of the server.
    sealed: [Option<Box<Sealed>>; 2],
    used_at: Instant,
    /// Its place in the order of use.
    turn: u64,
    network: Prefix,
}

/// A rendezvous server without its socket and its clock.
///
/// ```
/// use manyway_proto::{FourTuple, Instant, LocalAddress, Relay, RelayLimits, Rng};
///
/// let mut relay = Relay::new(RelayLimits::default(), &mut Rng::from_seed([1; 32]));
/// let mut answer = Vec::new();
/// let local = LocalAddress { interface: 0, address: "198.51.100.1:4455".parse()? };
/// let from = FourTuple::udp(local, "192.0.2.1:4455".parse()?);
/// assert!(!relay.handle_datagram(Instant::from_nanos(0), from, b"garbage", &mut answer));
/// assert_eq!(relay.counters().refused, 1);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub struct Relay {
    limits: RelayLimits,
    cookies: Cookies,
    entries: BTreeMap<Token, Entry>,
    /// All tokens, the least recently used first.
    by_use: BTreeMap<u64, Token>,
    /// The same for each network that registered any.
    networks: BTreeMap<Prefix, BTreeMap<u64, Token>>,
    /// Networks by number of tokens.
    by_size: BTreeSet<(usize, Prefix)>,
    turns: u64,
    mailboxes: Mailboxes,
    pairs: Pairs,
    counters: RelayCounters,
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay")
            .field("tokens", &self.entries.len())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Relay {
    /// Starts empty, with a random key for its cookies.
    pub fn new(limits: RelayLimits, rng: &mut Rng) -> Self {
        Self {
            limits,
            cookies: Cookies::new(rng),
            entries: BTreeMap::new(),
            by_use: BTreeMap::new(),
            networks: BTreeMap::new(),
            by_size: BTreeSet::new(),
            turns: 0,
            mailboxes: Mailboxes::default(),
            pairs: Pairs::default(),
            counters: RelayCounters::default(),
        }
    }

    /// Number of known connections.
    pub fn tokens(&self) -> usize {
        self.entries.len()
    }

    /// Number of mailboxes, those included that were closed less than a minute ago.
    pub fn mailboxes(&self) -> usize {
        self.mailboxes.len()
    }

    /// Number of pairs of ends between which it relays.
    pub fn pairs(&self) -> usize {
        self.pairs.len()
    }

    /// What becomes of a packet, which is a datagram or a record of other contents: it goes unchanged to the other end
    /// of its sender, if both have asked for that and are within the limits. `from` has the address of the sender as
    /// its remote one. Costs O(log pairs).
    pub fn forward(&mut self, now: Instant, from: FourTuple, packet: &[u8]) -> Forwarding {
        let limits = self.limits.forwarding.as_ref().filter(|_| !Message::is_meant(packet));
        let Some(limits) = limits else { return Forwarding::Nowhere };
        let forwarding = self.pairs.forward(now, limits, from, packet.len());
        if let Forwarding::To(_) = forwarding {
            self.counters.forwarded += 1;
            self.counters.forwarded_bytes += packet.len() as u64;
        }
        forwarding
    }

    /// A TCP connection has ended. Returns the one to which its records went, which is to be closed (spec 10.51):
    /// nothing is relayed between the two any more.
    pub fn on_carrier_closed(&mut self, from: FourTuple) -> Option<FourTuple> {
        self.pairs.release(from)
    }

    /// The counters.
    pub fn counters(&self) -> RelayCounters {
        self.counters
    }

    /// Handles a datagram and writes the answer into `answer`, which is cleared first; false if there is none. The
    /// answer goes back to the remote address of `tuple`, and is never longer than the datagram. Costs O(log tokens),
    /// and as much for each expired token.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        datagram: &[u8],
        answer: &mut Vec<u8>,
    ) -> bool {
        let from = tuple.remote;
        answer.clear();
        self.expire(now);
        let Ok(Message { token, body }) = Message::decode(datagram) else {
            self.counters.refused += 1;
            return false;
        };
        let writer = &mut Writer::new(answer, MAX_LEN);
        if let Some(nonce) = self.nonce_without_proof(from, &body) {
            let cookie = self.cookies.of(from);
            Message { token, body: Body::Retry { nonce, cookie } }.encode(writer);
            self.counters.retried += 1;
            return true;
        }
        let body = match body {
            Body::Request { side, nonce, sealed, .. } => {
                let other = self.exchange(now, (token, Prefix::of(from)), side, sealed).copied();
                self.counters.matched += u64::from(other.is_some());
                let sealed = other.as_ref();
                Message { token, body: Body::Answer { nonce, seen: from, sealed } }.encode(writer);
                self.counters.answered += 1;
                return true;
            }
            Body::Ask(ask) => self.mailboxes.ask(now, &self.limits, (token, from), &ask).map(Body::State),
            Body::Leave { nonce, .. } => {
                self.mailboxes.leave(now, &self.limits, (token, from), nonce).map(Body::State)
            }
            Body::Observe { nonce } => Some(Body::Answer { nonce, seen: from, sealed: None }),
            Body::Bind { nonce, number, .. } => {
                let tokens = self.mailboxes.tokens(token, number);
                let limits = self.limits.forwarding.as_ref();
                let is_bound =
                    limits.is_some_and(|limits| self.pairs.bind(now, limits, (token, tuple), tokens));
                Some(Body::Bound { nonce, is_bound })
            }
            Body::Retry { .. } | Body::Answer { .. } | Body::Knock | Body::State(_) | Body::Bound { .. } => {
                self.counters.refused += 1;
                return false;
            }
        };
        match body {
            Some(body) => Message { token, body }.encode(writer),
            None => self.counters.limited += 1,
        }
        self.counters.answered += u64::from(!answer.is_empty());
        !answer.is_empty()
    }

    /// The nonce of a request whose sender has not shown yet that it receives at this address.
    fn nonce_without_proof(&self, from: SocketAddr, body: &Body<'_>) -> Option<u64> {
        let (nonce, cookie) = match body {
            Body::Request { nonce, cookie, .. }
            | Body::Leave { nonce, cookie }
            | Body::Bind { nonce, cookie, .. } => (nonce, cookie),
            Body::Ask(ask) => (&ask.nonce, &ask.cookie),
            // The answer to `Observe` tells nothing but the address, is shorter than the request and keeps nothing.
            Body::Observe { .. }
            | Body::Retry { .. }
            | Body::Answer { .. }
            | Body::Knock
            | Body::State(_)
            | Body::Bound { .. } => return None,
        };
        (!self.cookies.is_of(from, cookie)).then_some(*nonce)
    }

    /// Stores the addresses of one end, and looks up those of the other.
    fn exchange(
        &mut self,
        now: Instant,
        (token, network): (Token, Prefix),
        side: Side,
        sealed: &Sealed,
    ) -> Option<&Sealed> {
        let (mut both, network) = match self.remove(&token) {
            Some(entry) => (entry.sealed, entry.network),
            None => {
                self.make_room(network);
                ([None, None], network)
            }
        };
        let [client, server] = &mut both;
        let own = match side {
            Side::Client => client,
            Side::Server => server,
        };
        match own {
            Some(before) => **before = *sealed,
            None => *own = Some(Box::new(*sealed)),
        }
        self.insert(now, token, both, network);
        let [client, server] = &self.entries.get(&token)?.sealed;
        match side {
            Side::Client => server.as_deref(),
            Side::Server => client.as_deref(),
        }
    }

    fn insert(&mut self, now: Instant, token: Token, sealed: [Option<Box<Sealed>>; 2], network: Prefix) {
        self.turns += 1;
        let turn = self.turns;
        self.by_use.insert(turn, token);
        let tokens = self.networks.entry(network).or_default();
        self.by_size.remove(&(tokens.len(), network));
        tokens.insert(turn, token);
        self.by_size.insert((tokens.len(), network));
        self.entries.insert(token, Entry { sealed, used_at: now, turn, network });
    }

    fn remove(&mut self, token: &Token) -> Option<Entry> {
        let entry = self.entries.remove(token)?;
        self.by_use.remove(&entry.turn);
        if let Some(tokens) = self.networks.get_mut(&entry.network) {
            self.by_size.remove(&(tokens.len(), entry.network));
            tokens.remove(&entry.turn);
            if tokens.is_empty() {
                self.networks.remove(&entry.network);
            } else {
                self.by_size.insert((tokens.len(), entry.network));
            }
        }
        Some(entry)
    }

    fn expire(&mut self, now: Instant) {
        while let Some((_, token)) = self.by_use.first_key_value() {
            let token = *token;
            let stale = |entry: &Entry| now - entry.used_at >= self.limits.lifetime;
            if !self.entries.get(&token).is_none_or(stale) || self.remove(&token).is_none() {
                return;
            }
        }
    }

    /// Makes space for one more token of a network.
    fn make_room(&mut self, network: Prefix) {
        let own = self.networks.get(&network).map_or(0, BTreeMap::len);
        let loser = if own >= self.limits.tokens_of_network.max(1) {
            Some(network)
        } else if self.entries.len() >= self.limits.tokens.max(1) {
            self.by_size.last().map(|(_, largest)| *largest)
        } else {
            None
        };
        let oldest = loser.and_then(|loser| self.networks.get(&loser)?.first_key_value());
        if let Some(token) = oldest.map(|(_, token)| *token) {
            self.remove(&token);
            self.counters.evicted += 1;
        }
    }
}
