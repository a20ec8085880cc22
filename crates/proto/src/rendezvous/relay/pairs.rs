//! The relay of last resort: forwards sealed packets between the two ends of a code that reach each other by no other
//! way. It cannot read them, and sends one datagram for each that came, between two addresses that are proven.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::Side;
use manyway_wire::rendezvous::Token;

use super::limits::ForwardLimits;
use crate::Instant;

/// An end that neither binds nor sends is forgotten after this time (spec 10.28): its address may be another's by then.
const SILENCE: Duration = Duration::from_secs(60);
/// Part of a second's bytes that may pass at once.
const BURST_DIVISOR: u64 = 4;
/// What may pass at once at any rate.
const LEAST_BURST: u64 = 64 * 1024;

/// All pairs.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pairs: BTreeMap<u64, Pair>,
    by_token: BTreeMap<Token, Place>,
    by_address: BTreeMap<SocketAddr, Place>,
    next: u64,
}

/// An end of a pair.
type Place = (u64, Side);

#[derive(Debug)]
struct Pair {
    tokens: [Token; 2],
    /// Where the ends are, and when each was last heard: of the fetching end, then of the offering one, each over IPv4
    /// and over IPv6.
    ends: [Option<(SocketAddr, Instant)>; 4],
    began_at: Instant,
    left: u64,
    /// Bytes that may pass at once, and since when.
    credit: (u64, Instant),
}

/// The place of an end among those of a pair. Packets go between addresses of one family.
fn index(side: Side, address: SocketAddr) -> usize {
    let of_side = match side {
        Side::Client => 0,
        Side::Server => 2,
    };
    of_side + usize::from(address.is_ipv6())
}

impl Pair {
    fn end(&mut self, side: Side, address: SocketAddr) -> Option<&mut Option<(SocketAddr, Instant)>> {
        self.ends.get_mut(index(side, address))
    }
}

impl Pairs {
    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    /// An end is at that address, which is proven. `tokens` are those of the fetching and of the offering end, if they
    /// have a mailbox; they are needed for the first time only. Returns false if there is no relay for it.
    pub(super) fn bind(
        &mut self,
        now: Instant,
        limits: &ForwardLimits,
        (token, from): (Token, SocketAddr),
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
        let known = self.by_address.insert(from, (id, side));
        // One address is an end of one pair.
        if let Some((other, side)) = known.filter(|known| *known != (id, side))
            && let Some(end) = self.pairs.get_mut(&other).and_then(|pair| pair.end(side, from))
        {
            *end = None;
        }
        let Some(end) = self.pairs.get_mut(&id).and_then(|pair| pair.end(side, from)) else { return false };
        if let Some((before, _)) = end.replace((from, now)).filter(|(before, _)| *before != from) {
            self.by_address.remove(&before);
        }
        true
    }

    fn begin(&mut self, now: Instant, limits: &ForwardLimits, tokens: [Token; 2]) {
        let [client, server] = tokens;
        self.next += 1;
        self.by_token.insert(client, (self.next, Side::Client));
        self.by_token.insert(server, (self.next, Side::Server));
        let (left, credit) = (limits.bytes.get(), (burst(limits), now));
        self.pairs.insert(self.next, Pair { tokens, ends: [None; 4], began_at: now, left, credit });
    }

    /// Where a datagram from that address goes; `None` if it goes nowhere.
    pub(super) fn forward(
        &mut self,
        now: Instant,
        limits: &ForwardLimits,
        from: SocketAddr,
        length: usize,
    ) -> Option<SocketAddr> {
        let (id, side) = *self.by_address.get(&from)?;
        let pair = self.pairs.get_mut(&id)?;
        let (to, heard_at) = (*pair.end(side.other(), from)?)?;
        let is_over = now - pair.began_at >= limits.time || now - heard_at >= SILENCE;
        let length = u64::try_from(length).ok().filter(|length| !is_over && *length <= pair.left)?;
        *pair.end(side, from)? = Some((from, now));
        let (credit, since) = pair.credit;
        let gained = u128::from(limits.rate.bytes_per_second()) * (now - since).as_nanos() / 1_000_000_000;
        let credit = credit.saturating_add(u64::try_from(gained).unwrap_or(u64::MAX)).min(burst(limits));
        pair.credit = (credit, now);
        pair.credit.0 = credit.checked_sub(length)?;
        pair.left -= length;
        Some(to)
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
            for (address, _) in pair.ends.iter().flatten() {
                self.by_address.remove(address);
            }
        }
    }
}

fn burst(limits: &ForwardLimits) -> u64 {
    (limits.rate.bytes_per_second() / BURST_DIVISOR).max(LEAST_BURST)
}
