//! The relay of last resort: forwards sealed packets between the two ends of a code that reach each other by no other
//! way, datagrams to datagrams and records to records. It cannot read them, and sends one for each that came, between
//! two addresses that are proven.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::Side;
use manyway_wire::rendezvous::Token;

use super::limits::ForwardLimits;
use crate::{ByteCount, Carrier, FourTuple, Instant, LocalAddress};

/// An end that neither binds nor sends is forgotten after this time (spec 10.28): its address may be another's by then.
const SILENCE: Duration = Duration::from_secs(60);
/// So that a time that was rounded down is not too early.
const INSTANT: Duration = Duration::from_nanos(1);
/// Part of a second's bytes that may pass at once.
const BURST_DIVISOR: u64 = 4;
/// What may pass at once at any rate.
const LEAST_BURST: u64 = 64 * 1024;

/// What becomes of a packet that came to a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forwarding {
    /// It goes on, from the local address to the remote one.
    To(FourTuple),
    /// The pair is at its rate until then: a datagram is dropped, a record waits.
    Later(Instant),
    /// It is of no pair, or of one that is beyond its limits.
    Nowhere,
}

/// All pairs.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pairs: BTreeMap<u64, Pair>,
    by_token: BTreeMap<Token, Place>,
    by_address: BTreeMap<Address, Place>,
    next: u64,
}

/// Where an end is: over UDP its address, from which it may send to any address of the server; over TCP the addresses
/// of the connection, since another one may come from the same address and port.
type Address = (SocketAddr, Option<LocalAddress>);

fn address(tuple: &FourTuple) -> Address {
    (tuple.remote, (tuple.carrier == Carrier::Tcp).then_some(tuple.local))
}

/// An end of a pair.
type Place = (u64, Side);

#[derive(Debug)]
struct Pair {
    tokens: [Token; 2],
    /// Where the ends are, and when each was last heard: first the places of the fetching end.
    ends: [Option<(FourTuple, Instant)>; 2 * PLACES],
    began_at: Instant,
    left: u64,
    /// Bytes that may pass at once, and since when.
    credit: (u64, Instant),
}

/// An end may be at one address of each: UDP over IPv4, UDP over IPv6, and TCP.
const PLACES: usize = 3;
const OVER_TCP: usize = 2;

/// The place of an address among those of an end.
fn place(tuple: &FourTuple) -> usize {
    match tuple.carrier {
        Carrier::Udp => usize::from(tuple.remote.is_ipv6()),
        Carrier::Tcp => OVER_TCP,
    }
}

impl Pair {
    fn end(&mut self, side: Side, place: usize) -> Option<&mut Option<(FourTuple, Instant)>> {
        let of_side = match side {
            Side::Client => 0,
            Side::Server => PLACES,
        };
        self.ends.get_mut(of_side + place)
    }

    /// Where packets from this place of the other end go: over the same IP family if possible, else over the other one.
    /// Records go to records. A place that was silent for too long is left out.
    fn counterpart(&mut self, now: Instant, side: Side, from: usize) -> Option<FourTuple> {
        let other = if from == OVER_TCP { from } else { 1 - from };
        let mut heard = [from, other].into_iter().filter_map(|place| *self.end(side, place)?);
        heard.find(|(_, at)| now - *at < SILENCE).map(|(tuple, _)| tuple)
    }
}

impl Pairs {
    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    /// An end is at that address, which is proven. `tokens` are those of the fetching and of the offering end, if they
    /// have a mailbox; they are needed for the first time only. Returns false if there is no relay for it, and over TCP
    /// as long as the other end is not there (spec 10.49).
    pub(super) fn bind(
        &mut self,
        now: Instant,
        limits: &ForwardLimits,
        (token, from): (Token, FourTuple),
        tokens: Option<[Token; 2]>,
    ) -> bool {
        self.sweep(now, limits);
        if !self.by_token.contains_key(&token) {
            let Some(tokens) = tokens.filter(|_| self.pairs.len() < limits.pairs.max(1)) else {
                return false;
            };
            self.begin(now, limits, tokens);
        }
        let Some(&(id, side)) = self.by_token.get(&token) else { return false };
        let (place, known) = (place(&from), self.by_address.insert(address(&from), (id, side)));
        // One address is an end of one pair.
        if let Some((other, side)) = known.filter(|known| *known != (id, side))
            && let Some(end) = self.pairs.get_mut(&other).and_then(|pair| pair.end(side, place))
        {
            *end = None;
        }
        let Some(pair) = self.pairs.get_mut(&id) else { return false };
        let Some(end) = pair.end(side, place) else { return false };
        let before = end.replace((from, now));
        let is_met = place != OVER_TCP || pair.counterpart(now, side.other(), place).is_some();
        if let Some((before, _)) = before.filter(|(before, _)| address(before) != address(&from)) {
            self.by_address.remove(&address(&before));
        }
        is_met
    }

    /// The TCP connection of an end is gone: forgets that of the other end, too, and returns it.
    pub(super) fn release(&mut self, from: FourTuple) -> Option<FourTuple> {
        let (id, side) = self.by_address.remove(&address(&from))?;
        let pair = self.pairs.get_mut(&id)?;
        *pair.end(side, OVER_TCP)? = None;
        let (other, _) = pair.end(side.other(), OVER_TCP)?.take()?;
        self.by_address.remove(&address(&other));
        Some(other)
    }

    fn begin(&mut self, now: Instant, limits: &ForwardLimits, tokens: [Token; 2]) {
        let [client, server] = tokens;
        self.next += 1;
        self.by_token.insert(client, (self.next, Side::Client));
        self.by_token.insert(server, (self.next, Side::Server));
        let (left, credit) = (limits.bytes.get(), (burst(limits), now));
        self.pairs.insert(self.next, Pair { tokens, ends: [None; 2 * PLACES], began_at: now, left, credit });
    }

    /// Where a packet from that address goes.
    pub(super) fn forward(
        &mut self,
        now: Instant,
        limits: &ForwardLimits,
        from: FourTuple,
        length: usize,
    ) -> Forwarding {
        let pair = self.by_address.get(&address(&from)).and_then(|(id, side)| {
            let pair = self.pairs.get_mut(id)?;
            let to = pair.counterpart(now, side.other(), place(&from))?;
            Some((pair, *side, to))
        });
        let Some((pair, side, to)) = pair else { return Forwarding::Nowhere };
        let is_over = now - pair.began_at >= limits.time;
        let Some(length) = u64::try_from(length).ok().filter(|length| !is_over && *length <= pair.left)
        else {
            return Forwarding::Nowhere;
        };
        if let Some(end) = pair.end(side, place(&from)) {
            *end = Some((from, now));
        }
        let (credit, since) = pair.credit;
        let gained = u128::from(limits.rate.bytes_per_second()) * (now - since).as_nanos() / 1_000_000_000;
        let credit = credit.saturating_add(u64::try_from(gained).unwrap_or(u64::MAX)).min(burst(limits));
        pair.credit = (credit, now);
        let Some(rest) = credit.checked_sub(length) else {
            return Forwarding::Later(now + ByteCount(length - credit) / limits.rate + INSTANT);
        };
        pair.credit.0 = rest;
        pair.left -= length;
        Forwarding::To(to)
    }

    fn sweep(&mut self, now: Instant, limits: &ForwardLimits) {
        let is_old = |pair: &Pair| {
            let is_silent = pair.ends.iter().flatten().all(|(_, heard_at)| now - *heard_at >= SILENCE);
            now - pair.began_at >= limits.time || is_silent && now - pair.began_at >= SILENCE
        };
        let old: Vec<_> = self.pairs.iter().filter(|(_, pair)| is_old(pair)).map(|(id, _)| *id).collect();
        for pair in old.iter().filter_map(|id| self.pairs.remove(id)) {
            for token in &pair.tokens {
                self.by_token.remove(token);
            }
            for (tuple, _) in pair.ends.iter().flatten() {
                self.by_address.remove(&address(tuple));
            }
        }
    }
}

fn burst(limits: &ForwardLimits) -> u64 {
    (limits.rate.bytes_per_second() / BURST_DIVISOR).max(LEAST_BURST)
}
