//! Mailboxes of a rendezvous server: two ends that share a code exchange letters there before they have a connection.
//!
//! The end that offers opens one and gets its number, the end that has the code is its only guest. Each end leaves one
//! letter at a time and asks for that of the other. The server can read none of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::Side;
use manyway_wire::rendezvous::Token;
use manyway_wire::rendezvous::mailbox::{Ask, Letter, State, Status};

use super::limits::RelayLimits;
use crate::Instant;
use crate::collections::buckets::Buckets;
use crate::prefix::Prefix;

/// Requests that a network may send at once, and time for one more (spec 10.37).
const REQUESTS: u32 = 256;
const ONE_REQUEST_FOR: Duration = Duration::from_millis(8);
/// Mailboxes in which a network may take the guest's place at once, or look for one, and time for one more. So it cannot
/// spoil codes at a high rate.
const CLAIMS: u32 = 10;
const ONE_CLAIM_FOR: Duration = Duration::from_secs(6);
/// A mailbox whose owner asks for nothing is forgotten after this time, and so is the number of a closed one: a late guest
/// must not meet the next code of that number.
const SILENCE: Duration = Duration::from_secs(60);
/// Time between two searches for mailboxes that are to be forgotten.
const SWEEP: Duration = Duration::from_secs(1);

/// All mailboxes, by their numbers.
#[derive(Default)]
pub(super) struct Mailboxes {
    boxes: BTreeMap<u32, Mailbox>,
    /// By owner.
    numbers: BTreeMap<Token, u32>,
    /// How many each network opened.
    networks: BTreeMap<Prefix, usize>,
    rates: Rates,
    swept_at: Option<Instant>,
}

struct Rates {
    requests: Buckets<Prefix>,
    claims: Buckets<Prefix>,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            requests: Buckets::new(REQUESTS, ONE_REQUEST_FOR),
            claims: Buckets::new(CLAIMS, ONE_CLAIM_FOR),
        }
    }
}

struct Mailbox {
    owner: Token,
    guest: Option<Token>,
    network: Prefix,
    opened_at: Instant,
    /// When the owner asked last.
    used_at: Instant,
    is_open: bool,
    /// Of the guest, and of the owner.
    letters: [Slot; 2],
}

/// The newest letter of an end.
#[derive(Default)]
struct Slot {
    index: u8,
    letter: Option<Box<Letter>>,
}

impl Slot {
    /// A letter replaces earlier ones only: datagrams overtake each other.
    fn put(&mut self, ask: &Ask<'_>) {
        if let Some(letter) = ask.letter.filter(|_| ask.posted > self.index) {
            *self = Self { index: ask.posted, letter: Some(Box::new(*letter)) };
        }
    }
}

impl Mailboxes {
    pub(super) fn len(&self) -> usize {
        self.boxes.len()
    }

    /// Handles a request from an address that is proven; `None` if its network asks too often. Costs O(log n), and O(n)
    /// for a new mailbox and once a second.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        limits: &RelayLimits,
        (token, from): (Token, SocketAddr),
        ask: &Ask<'_>,
    ) -> Option<State<'_>> {
        self.sweep(now, limits);
        let network = self.admit(now, from)?;
        let found = match ask.side {
            Side::Server => self.find_own(now, limits, (token, network), ask.number),
            Side::Client => self.find_as_guest(now, (token, network), ask.number)?,
        };
        let number = match found {
            Ok(number) => number,
            Err(status) => return Some(State { status, number: ask.number, ..nothing(ask.nonce) }),
        };
        let Some(mailbox) = self.boxes.get_mut(&number) else { return Some(nothing(ask.nonce)) };
        let [guest, owner] = &mut mailbox.letters;
        let (own, other) = match ask.side {
            Side::Server => (owner, guest),
            Side::Client => (guest, owner),
        };
        own.put(ask);
        let wanted = ask.letter.is_some() && other.index > ask.taken;
        Some(State {
            number,
            status: Status::Open,
            held: own.index,
            posted: other.index,
            letter: other.letter.as_deref().filter(|_| wanted),
            ..nothing(ask.nonce)
        })
    }

    /// The owner closes its mailbox; `None` as above.
    pub(super) fn leave(
        &mut self,
        now: Instant,
        limits: &RelayLimits,
        (token, from): (Token, SocketAddr),
        nonce: u64,
    ) -> Option<State<'_>> {
        self.sweep(now, limits);
        self.admit(now, from)?;
        let mailbox = self.numbers.get(&token).and_then(|number| self.boxes.get_mut(number));
        if let Some(mailbox) = mailbox {
            (mailbox.is_open, mailbox.used_at, mailbox.letters) = (false, now, Default::default());
        }
        Some(nothing(nonce))
    }

    /// The tokens of the guest and of the owner of an open mailbox with this number, if `token` is one of them.
    pub(super) fn tokens(&self, token: Token, number: u32) -> Option<[Token; 2]> {
        let mailbox = self.boxes.get(&number).filter(|mailbox| mailbox.is_open)?;
        let tokens = [mailbox.guest?, mailbox.owner];
        tokens.contains(&token).then_some(tokens)
    }

    /// Counts a request of a network, unless it sends too many.
    fn admit(&mut self, now: Instant, from: SocketAddr) -> Option<Prefix> {
        let network = Prefix::of(from);
        let requests = &mut self.rates.requests;
        (!requests.is_full(now, network)).then(|| {
            requests.note(now, network);
            network
        })
    }

    /// The mailbox of this owner, which is opened if there is none.
    fn find_own(
        &mut self,
        now: Instant,
        limits: &RelayLimits,
        (token, network): (Token, Prefix),
        wanted: u32,
    ) -> Result<u32, Status> {
        let number = match self.numbers.get(&token) {
            Some(number) => *number,
            None => self.open(now, limits, (token, network), wanted)?,
        };
        let mailbox = self.boxes.get_mut(&number).filter(|mailbox| mailbox.is_open);
        mailbox.ok_or(Status::Gone)?.used_at = now;
        Ok(number)
    }

    /// The mailbox of that number, if the guest's place in it is free or this guest's own; `None` if the network has
    /// taken too many.
    fn find_as_guest(
        &mut self,
        now: Instant,
        (token, network): (Token, Prefix),
        number: u32,
    ) -> Option<Result<u32, Status>> {
        let mailbox = self.boxes.get_mut(&number).filter(|mailbox| mailbox.is_open);
        let guest = mailbox.as_ref().and_then(|mailbox| mailbox.guest);
        if guest == Some(token) {
            return Some(Ok(number));
        }
        let claims = &mut self.rates.claims;
        if claims.is_full(now, network) {
            return None;
        }
        claims.note(now, network);
        let Some(mailbox) = mailbox else { return Some(Err(Status::Gone)) };
        if guest.is_some() {
            return Some(Err(Status::Taken));
        }
        mailbox.guest = Some(token);
        Some(Ok(number))
    }

    /// Opens a mailbox. An owner that had one before this server was restarted gets its number again, if that is free.
    fn open(
        &mut self,
        now: Instant,
        limits: &RelayLimits,
        (owner, network): (Token, Prefix),
        wanted: u32,
    ) -> Result<u32, Status> {
        let number = if wanted == 0 { self.free_number() } else { wanted };
        if self.boxes.contains_key(&number) {
            return Err(Status::Taken);
        }
        self.make_room(limits, network)?;
        let (opened_at, used_at, letters) = (now, now, Default::default());
        let mailbox = Mailbox { owner, guest: None, network, opened_at, used_at, is_open: true, letters };
        self.boxes.insert(number, mailbox);
        self.numbers.insert(owner, number);
        *self.networks.entry(network).or_default() += 1;
        Ok(number)
    }

    /// The smallest one: it is read out.
    fn free_number(&self) -> u32 {
        let used = self.boxes.keys().zip(1..).take_while(|(used, number)| **used == *number);
        used.last().map_or(1, |(_, number)| number + 1)
    }

    /// Where all places are taken, the network that has the most of them loses its oldest one.
    fn make_room(&mut self, limits: &RelayLimits, network: Prefix) -> Result<(), Status> {
        let own = self.networks.get(&network).copied().unwrap_or(0);
        if own >= limits.mailboxes_of_network.max(1) {
            return Err(Status::Full);
        }
        if self.boxes.len() < limits.mailboxes.max(1) {
            return Ok(());
        }
        let largest = self.networks.iter().max_by_key(|(_, count)| **count);
        let loser = largest.filter(|(_, count)| **count > own + 1).map(|(loser, _)| *loser);
        let of_loser = self.boxes.iter().filter(|(_, mailbox)| Some(mailbox.network) == loser);
        let oldest = of_loser.min_by_key(|(_, mailbox)| (mailbox.is_open, mailbox.opened_at));
        let number = *oldest.ok_or(Status::Full)?.0;
        self.remove(number);
        Ok(())
    }

    fn remove(&mut self, number: u32) {
        let Some(mailbox) = self.boxes.remove(&number) else { return };
        self.numbers.remove(&mailbox.owner);
        if let Some(count) = self.networks.get_mut(&mailbox.network) {
            *count -= 1;
            if *count == 0 {
                self.networks.remove(&mailbox.network);
            }
        }
    }

    fn sweep(&mut self, now: Instant, limits: &RelayLimits) {
        if self.swept_at.is_some_and(|at| now - at < SWEEP) {
            return;
        }
        self.swept_at = Some(now);
        let is_old = |mailbox: &Mailbox| {
            now - mailbox.opened_at >= limits.mailbox_lifetime || now - mailbox.used_at >= SILENCE
        };
        let old = self.boxes.iter().filter(|(_, mailbox)| is_old(mailbox));
        let old: Vec<u32> = old.map(|(number, _)| *number).collect();
        for number in &old {
            self.remove(*number);
        }
    }
}

/// The answer if there is no mailbox.
fn nothing<'a>(nonce: u64) -> State<'a> {
    State { nonce, number: 0, status: Status::Gone, held: 0, posted: 0, letter: None }
}
