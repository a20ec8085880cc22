//! When a client opens TCP connections: on each interface, as the only carrier or while UDP does not work there.
//!
//! A [`TcpSlot`] is one TCP connection of a client on an interface, or the attempts to open it: a state machine whose input
//! is the time and the state of the paths, and whose output are steps for the driver. An interface has one slot until a
//! path uses its TCP connection, and then as many as are wanted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{FourTuple, Instant, LocalAddress, PairMode, Rate};

use super::pair_attempts::{PairAttempts, Repetition};
use super::peer::ClientId;
use crate::carriers::CarrierChoice;

/// UDP has this head start, at the beginning of a connection and when it stops working on an interface.
const HEAD_START: Duration = Duration::from_millis(250);
/// A TCP connection ends when UDP has worked on its interface for so long.
const UDP_STABLE: Duration = Duration::from_secs(5);
/// Shortest and longest time between two attempts, and the longest one where there is no UDP.
const AGAIN: Duration = Duration::from_millis(250);
const AGAIN_AT_MOST: Duration = Duration::from_secs(10);
const AGAIN_AT_MOST_ALONE: Duration = Duration::from_secs(2);
/// A TCP connection that lasted for so long is replaced at once when it ends.
const LASTED: Duration = Duration::from_secs(5);
/// Interval at which a TCP connection is offered that no path can use yet.
const OFFER_AGAIN: Duration = Duration::from_millis(100);

/// The slots of all clients.
#[derive(Debug)]
pub(super) struct Dialler {
    choice: CarrierChoice,
    /// Whether each address is used by one TCP connection at most.
    is_disjoint: bool,
    /// The port of servers for TLS.
    tls_port: Option<u16>,
    clients: BTreeMap<ClientId, Client>,
    next_slot: TcpSlotId,
}

/// The slots of a client, and how their address pairs are chosen if no address may be used twice.
#[derive(Debug, Default)]
struct Client {
    slots: Vec<TcpSlot>,
    attempts: Option<PairAttempts>,
    /// The addresses of both ends at the last attempts between all pairs.
    attempted: (Vec<LocalAddress>, Vec<SocketAddr>),
    repetition: Repetition,
}

/// Identifies a slot among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TcpSlotId(u64);

/// The addresses and paths of a client, as its slots need them.
#[derive(Debug, Default)]
pub(super) struct Situation {
    /// The local addresses that lead to the peer.
    pub(super) locals: Vec<LocalAddress>,
    /// The addresses of the peer.
    pub(super) remotes: Vec<SocketAddr>,
    /// Local addresses of paths over UDP that work.
    pub(super) working: Vec<LocalAddress>,
    /// Local addresses of paths over UDP that do not work, and those without UDP.
    pub(super) failing: Vec<LocalAddress>,
    /// TCP connections whose path is dead.
    pub(super) dead: Vec<FourTuple>,
    /// Wanted TCP connections on each interface that uses TCP.
    pub(super) wanted: usize,
    /// How many more paths may be opened.
    pub(super) room: usize,
    /// Whether the handshake is complete.
    pub(super) is_connected: bool,
    /// What each TCP connection delivers.
    pub(super) rates: BTreeMap<FourTuple, Rate>,
}

/// Where to connect: to an address of the server, or to its port for TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) remote: SocketAddr,
    pub(super) is_tls: bool,
}

/// What is to be done for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Connect by TCP; [`Dialler::on_dialled`] tells the result.
    Dial(TcpSlotId, LocalAddress, Target),
    /// Connect by TCP to measure how long that takes; [`Dialler::on_attempted`] tells the result.
    AttemptPair(LocalAddress, SocketAddr),
    /// End a TCP connection that no path uses.
    Discard(FourTuple),
    /// Use a TCP connection for a path, if possible; [`Dialler::on_used`] tells that.
    Offer(FourTuple),
    /// End a TCP connection, and the path that uses it.
    Close(FourTuple),
    /// The same, after what is on its way there has arrived.
    Retire(FourTuple),
}

#[derive(Debug)]
struct TcpSlot {
    id: TcpSlotId,
    /// The addresses of the interface.
    locals: Vec<LocalAddress>,
    state: State,
    /// Successive attempts without success.
    failures: u32,
    /// A TCP connection whose path is dead or leads elsewhere: the next one replaces it.
    replaced: Option<FourTuple>,
    /// What the last attempts between all pairs decided.
    allowed: AllowedRemote,
    /// Whether its last connection was within TLS.
    used_tls: bool,
    /// How many targets there were at the last attempt.
    targets: u32,
}

/// To which address of the peer a slot may connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AllowedRemote {
    /// To any.
    Any,
    /// To this one, as long as the peer has it.
    Only(SocketAddr),
    /// To none: others use all addresses of the peer.
    NoRemote,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// UDP works here.
    Idle,
    /// The next attempt begins at this time.
    Waiting(Instant),
    Dialling(Target),
    /// Connected, and offered at this time.
    Held {
        tuple: FourTuple,
        offer_at: Instant,
    },
    /// A path has used the connection since this time.
    Open {
        tuple: FourTuple,
        since: Instant,
    },
    /// As [`Self::Open`], but UDP works again: the connection ends at this time.
    Leaving {
        tuple: FourTuple,
        since: Instant,
        at: Instant,
    },
}

impl Dialler {
    pub(super) fn new(choice: CarrierChoice, pairs: PairMode, tls_port: Option<u16>) -> Self {
        let is_disjoint = pairs == PairMode::Disjoint;
        Self { choice, is_disjoint, tls_port, clients: BTreeMap::new(), next_slot: TcpSlotId::default() }
    }

    /// Whether paths may go over UDP.
    pub(super) fn uses_udp(&self) -> bool {
        self.choice.uses_udp()
    }

    /// Whether paths may go over TCP.
    pub(super) fn uses_tcp(&self) -> bool {
        self.choice.uses_tcp()
    }

    /// Begins to look after a client.
    pub(super) fn add(&mut self, client: ClientId) {
        self.clients.insert(client, Client::default());
    }

    pub(super) fn remove(&mut self, client: ClientId) {
        self.clients.remove(&client);
    }

    /// The clients of which a slot is due.
    pub(super) fn due(&self, now: Instant) -> Vec<ClientId> {
        let is_due = |client: &Client| client.deadline().is_some_and(|at| at <= now);
        self.clients.iter().filter(|(_, client)| is_due(client)).map(|(id, _)| *id).collect()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.clients.values().filter_map(Client::deadline).min()
    }

    /// Advances the slots of a client.
    pub(super) fn advance(&mut self, now: Instant, client: ClientId, situation: &Situation) -> Vec<Step> {
        let uses_udp = self.uses_udp();
        let compares_pairs = self.is_disjoint && !uses_udp;
        let Self { clients, next_slot, tls_port, .. } = self;
        let Some(client) = clients.get_mut(&client) else { return Vec::new() };
        let mut steps = Vec::new();
        if compares_pairs {
            client.choose_pairs(now, situation, &mut steps);
        }
        let Client { slots, attempts, .. } = client;
        slots.retain_mut(|slot| {
            slot.locals.retain(|local| situation.locals.contains(local));
            let is_there =
                |tuple: FourTuple| slot.locals.iter().any(|local| is_same_host(local, &tuple.local));
            let lost = slot.tuple().filter(|tuple| !is_there(*tuple));
            steps.extend(lost.map(Step::Close));
            lost.is_none() && !slot.locals.is_empty()
        });
        for local in &situation.locals {
            let mut is_known = false;
            for slot in slots.iter_mut().filter(|slot| slot.is_of(local)) {
                is_known = true;
                if !slot.locals.contains(local) {
                    slot.locals.push(*local);
                }
            }
            if !is_known {
                slots.push(TcpSlot::new(next_slot, vec![*local]));
            }
        }
        let taken = slots.iter().filter(|slot| slot.needs_path()).count();
        let mut room = situation.room.saturating_sub(taken);
        for local in &situation.locals {
            end_surplus(slots, local, situation, &mut steps);
            add_missing(slots, local, (situation.wanted, room), next_slot);
        }
        for at in 0..slots.len() {
            let used: Vec<_> = slots.iter().filter_map(TcpSlot::remote).collect();
            if let Some(slot) = slots.get_mut(at) {
                slot.update(now, uses_udp, situation);
                // The attempts between all pairs include those of the slot.
                if attempts.is_none() || !matches!(slot.state, State::Waiting(_)) {
                    slot.act(now, (&situation.remotes, &used, *tls_port), &mut room, &mut steps);
                }
            }
        }
        steps
    }

    /// An attempt between two addresses succeeded in this time, or failed. False if it is not needed.
    pub(super) fn on_attempted(
        &mut self,
        now: Instant,
        client: ClientId,
        pair: (&LocalAddress, SocketAddr),
        result: Option<(FourTuple, Duration)>,
    ) -> bool {
        let attempts = self.clients.get_mut(&client).and_then(|client| client.attempts.as_mut());
        attempts.is_some_and(|attempts| attempts.on_result(now, pair, result))
    }

    /// An attempt has succeeded or failed. False if its result is not needed any more.
    pub(super) fn on_dialled(
        &mut self,
        now: Instant,
        client: ClientId,
        (slot, local): (TcpSlotId, &LocalAddress),
        result: Option<FourTuple>,
    ) -> bool {
        let uses_udp = self.uses_udp();
        let is_meant = |other: &&mut TcpSlot| other.id == slot && other.locals.contains(local);
        let slot = self.clients.get_mut(&client).and_then(|client| client.slots.iter_mut().find(is_meant));
        let Some(slot) = slot else { return false };
        let State::Dialling(target) = slot.state else { return false };
        match result {
            Some(tuple) => {
                slot.used_tls = target.is_tls;
                slot.state = State::Held { tuple, offer_at: now };
            }
            None => slot.try_again(now, uses_udp),
        }
        true
    }

    /// A path uses a TCP connection. Returns the one that it replaces.
    pub(super) fn on_used(&mut self, now: Instant, client: ClientId, tuple: FourTuple) -> Option<FourTuple> {
        let mut slots = self.clients.get_mut(&client)?.slots.iter_mut();
        let slot = slots.find(|slot| slot.tuple() == Some(tuple))?;
        slot.state = State::Open { tuple, since: now };
        slot.replaced.take()
    }

    /// A TCP connection has ended. Returns its client.
    pub(super) fn on_ended(&mut self, now: Instant, tuple: &FourTuple) -> Option<ClientId> {
        let uses_udp = self.uses_udp();
        self.clients.iter_mut().find_map(|(id, client)| {
            if let Some(attempts) = &mut client.attempts {
                attempts.on_ended(tuple);
            }
            let slot = client.slots.iter_mut().find(|slot| slot.tuple() == Some(*tuple))?;
            slot.on_ended(now, uses_udp);
            Some(*id)
        })
    }

    /// Whether nothing is under way for a client: all attempts of every slot have failed, or it has none because it does
    /// not use TCP.
    pub(super) fn has_failed(&self, client: ClientId) -> bool {
        let has_failed = |slot: &TcpSlot| matches!(slot.state, State::Waiting(_)) && slot.has_tried_all();
        self.clients
            .get(&client)
            .is_none_or(|client| !client.slots.is_empty() && client.slots.iter().all(has_failed))
    }

    /// UDP has failed for a client: its head start ends.
    pub(super) fn on_udp_failed(&mut self, now: Instant, client: ClientId) {
        let slots = self.clients.get_mut(&client).into_iter().flat_map(|client| &mut client.slots);
        for slot in slots {
            if matches!(slot.state, State::Waiting(_)) && slot.failures == 0 {
                slot.state = State::Waiting(now);
            }
        }
    }
}

impl Client {
    fn deadline(&self) -> Option<Instant> {
        let deadline = self.attempts.as_ref().and_then(PairAttempts::deadline);
        // Waiting slots wait for the result of attempts between all pairs.
        let slots = self
            .slots
            .iter()
            .filter(|slot| self.attempts.is_none() || !matches!(slot.state, State::Waiting(_)));
        let repeated = self.repetition.at().filter(|_| self.attempts.is_none());
        slots.filter_map(TcpSlot::deadline).chain(deadline).chain(repeated).min()
    }

    /// Connects between all pairs whenever the addresses of an end have changed, and keeps the best. Repeats that while an
    /// address of each end is left over: the peer may not listen yet at an address that it has announced.
    fn choose_pairs(&mut self, now: Instant, situation: &Situation, steps: &mut Vec<Step>) {
        if self.attempts.as_ref().is_some_and(|attempts| attempts.is_over(now))
            && let Some(mut attempts) = self.attempts.take()
        {
            let established: Vec<_> = self.slots.iter().filter_map(TcpSlot::tuple).collect();
            established.iter().for_each(|tuple| attempts.on_established(tuple));
            let most = attempts.most();
            let chosen = attempts.choose();
            self.repetition.on_end(now, chosen.kept.len() < most);
            let dropped = chosen.dropped.into_iter().filter(|tuple| !established.contains(tuple));
            steps.extend(dropped.map(Step::Discard));
            self.adopt(now, &chosen.kept, steps);
        }
        let addresses = (situation.locals.clone(), situation.remotes.clone());
        let is_changed = self.attempted != addresses;
        self.repetition.review(is_changed || !situation.is_connected);
        let is_due = is_changed || self.repetition.at().is_some_and(|at| at <= now);
        if self.attempts.is_none() && situation.is_connected && is_due {
            self.attempted = addresses;
            self.attempts = PairAttempts::new(&situation.locals, &situation.remotes);
            let pairs = self.attempts.iter().flat_map(PairAttempts::pairs);
            steps.extend(pairs.map(|(local, remote)| Step::AttemptPair(local, remote)));
        }
    }

    /// Gives each interface the connection that was chosen for it. The one before it ends when a path uses the new one.
    fn adopt(&mut self, now: Instant, chosen: &[FourTuple], steps: &mut Vec<Step>) {
        for slot in &mut self.slots {
            slot.allowed = AllowedRemote::NoRemote;
        }
        for tuple in chosen {
            let mut is_taken = false;
            for slot in self.slots.iter_mut().filter(|slot| slot.is_of(&tuple.local)) {
                slot.allowed = AllowedRemote::Only(tuple.remote);
                is_taken |= slot.tuple() == Some(*tuple);
                if slot.tuple().is_some_and(|before| before.remote == tuple.remote) {
                    continue;
                }
                // The connection before ends when a path uses the next one.
                slot.replaced = slot.tuple();
                slot.state = State::Waiting(now);
                if !is_taken {
                    is_taken = true;
                    slot.state = State::Held { tuple: *tuple, offer_at: now };
                }
            }
            // Its slot leads there already, or its interface has gone.
            steps.extend((!is_taken).then_some(Step::Discard(*tuple)));
        }
        for slot in self.slots.iter_mut().filter(|slot| slot.allowed == AllowedRemote::NoRemote) {
            steps.extend(slot.tuple().map(Step::Retire));
            slot.state = State::Idle;
        }
        if chosen.is_empty() {
            // No pair answered: each slot goes on by itself.
            self.slots.iter_mut().for_each(|slot| slot.allowed = AllowedRemote::Any);
        }
    }
}

/// Ends the slowest TCP connections of an interface that are not wanted any more.
fn end_surplus(slots: &mut Vec<TcpSlot>, local: &LocalAddress, situation: &Situation, steps: &mut Vec<Step>) {
    let rate =
        |slot: &TcpSlot| slot.tuple().map(|tuple| situation.rates.get(&tuple).copied().unwrap_or_default());
    while slots.iter().filter(|slot| slot.is_of(local)).count() > situation.wanted.max(1) {
        let of_interface = slots.iter().enumerate().filter(|(_, slot)| slot.is_of(local));
        let Some((at, _)) = of_interface.min_by_key(|(_, slot)| rate(slot)) else { return };
        let slot = slots.remove(at);
        steps.extend(slot.replaced.map(Step::Close));
        steps.extend(slot.tuple().map(Step::Retire));
    }
}

/// Adds slots to an interface where a path uses TCP, up to the wanted number.
fn add_missing(
    slots: &mut Vec<TcpSlot>,
    local: &LocalAddress,
    (wanted, room): (usize, usize),
    next: &mut TcpSlotId,
) {
    let of_interface: Vec<&TcpSlot> = slots.iter().filter(|slot| slot.is_of(local)).collect();
    let open = of_interface.iter().find(|slot| matches!(slot.state, State::Open { .. }));
    let Some((locals, allowed)) = open.map(|slot| (slot.locals.clone(), slot.allowed)) else { return };
    let missing = wanted.saturating_sub(of_interface.len()).min(room);
    slots.extend((0..missing).map(|_| TcpSlot { allowed, ..TcpSlot::new(next, locals.clone()) }));
}

impl TcpSlot {
    fn new(next: &mut TcpSlotId, locals: Vec<LocalAddress>) -> Self {
        let id = *next;
        next.0 += 1;
        Self {
            id,
            locals,
            state: State::Idle,
            failures: 0,
            replaced: None,
            allowed: AllowedRemote::Any,
            used_tls: false,
            targets: 1,
        }
    }

    /// Whether each target was tried in vain.
    fn has_tried_all(&self) -> bool {
        self.failures >= self.targets.max(1)
    }

    /// Whether a path is to be opened for it.
    fn needs_path(&self) -> bool {
        matches!(self.state, State::Dialling(_) | State::Held { .. })
    }

    /// Whether an address belongs to its interface; an address without one stands for itself.
    fn is_of(&self, local: &LocalAddress) -> bool {
        let is_like = |own: &LocalAddress| {
            own.interface == local.interface && (own.interface != 0 || is_same_host(own, local))
        };
        self.locals.iter().any(is_like)
    }

    /// Follows the state of the paths.
    fn update(&mut self, now: Instant, uses_udp: bool, situation: &Situation) {
        let is_working = situation.working.iter().any(|local| self.is_of(local));
        let is_failing = situation.failing.iter().any(|local| self.is_of(local));
        let is_wanted = !is_working && is_failing && self.allowed != AllowedRemote::NoRemote;
        self.state = match self.state {
            State::Idle if is_wanted => State::Waiting(if uses_udp { now + HEAD_START } else { now }),
            State::Waiting(_) | State::Dialling(_) if !is_wanted => {
                self.failures = 0;
                State::Idle
            }
            State::Open { tuple, .. } if situation.dead.contains(&tuple) => {
                self.replaced = Some(tuple);
                State::Waiting(now)
            }
            State::Open { tuple, since } if is_working => {
                State::Leaving { tuple, since, at: now + UDP_STABLE }
            }
            State::Leaving { tuple, since, .. } if !is_working => State::Open { tuple, since },
            state @ (State::Idle
            | State::Waiting(_)
            | State::Dialling(_)
            | State::Held { .. }
            | State::Open { .. }
            | State::Leaving { .. }) => state,
        };
    }

    /// Takes the step whose time has come.
    fn act(
        &mut self,
        now: Instant,
        (remotes, used, tls_port): (&[SocketAddr], &[SocketAddr], Option<u16>),
        room: &mut usize,
        steps: &mut Vec<Step>,
    ) {
        match self.state {
            State::Waiting(at) if at <= now && *room == 0 => {
                // The dead path leaves its place to the next one.
                steps.extend(self.replaced.take().map(Step::Close));
                self.state = State::Waiting(now + AGAIN);
            }
            State::Waiting(at) if at <= now => {
                if let Some((local, target)) = self.choose(remotes, used, tls_port) {
                    *room -= 1;
                    self.state = State::Dialling(target);
                    steps.push(Step::Dial(self.id, local, target));
                } else {
                    self.failures = self.failures.saturating_add(1);
                    self.state = State::Waiting(now + AGAIN_AT_MOST);
                }
            }
            State::Held { tuple, offer_at } if offer_at <= now => {
                self.state = State::Held { tuple, offer_at: now + OFFER_AGAIN };
                steps.push(Step::Offer(tuple));
            }
            State::Leaving { tuple, at, .. } if at <= now => {
                self.state = State::Idle;
                steps.push(Step::Close(tuple));
            }
            State::Idle
            | State::Waiting(_)
            | State::Dialling(_)
            | State::Held { .. }
            | State::Open { .. }
            | State::Leaving { .. } => {}
        }
    }

    /// The addresses to connect: to one that the fewest other slots use, and another pair after each failure.
    /// Those with TLS come behind the others, but first where TLS worked before.
    fn choose(
        &mut self,
        remotes: &[SocketAddr],
        used: &[SocketAddr],
        tls_port: Option<u16>,
    ) -> Option<(LocalAddress, Target)> {
        let all = remotes.iter().flat_map(|remote| self.locals.iter().map(|local| (*local, *remote)));
        let mut pairs: Vec<_> =
            all.filter(|(local, remote)| remote.is_ipv4() == local.address.is_ipv4()).collect();
        if let AllowedRemote::Only(chosen) = self.allowed
            && remotes.contains(&chosen)
        {
            pairs.retain(|(_, remote)| *remote == chosen);
        }
        pairs.sort_by_key(|(_, remote)| used.iter().filter(|other| *other == remote).count());
        let plain = pairs.iter().map(|(local, remote)| (*local, Target { remote: *remote, is_tls: false }));
        let within = |(local, remote): &(LocalAddress, SocketAddr), port| {
            (*local, Target { remote: SocketAddr::new(remote.ip(), port), is_tls: true })
        };
        let tls = tls_port.into_iter().flat_map(|port| pairs.iter().map(move |pair| within(pair, port)));
        let mut targets: Vec<_> = plain.chain(tls).collect();
        if self.used_tls {
            targets.reverse();
        }
        self.targets = u32::try_from(targets.len()).unwrap_or(u32::MAX);
        let turn = usize::try_from(self.failures).unwrap_or_default();
        targets.get(turn.checked_rem(targets.len())?).copied()
    }

    fn on_ended(&mut self, now: Instant, uses_udp: bool) {
        let since = match self.state {
            State::Open { since, .. } | State::Leaving { since, .. } => Some(since),
            State::Idle | State::Waiting(_) | State::Dialling(_) | State::Held { .. } => None,
        };
        if since.is_some_and(|since| now - since >= LASTED) {
            self.failures = 0;
            self.state = State::Waiting(now);
        } else {
            self.try_again(now, uses_udp);
        }
    }

    fn try_again(&mut self, now: Instant, uses_udp: bool) {
        let most = if uses_udp { AGAIN_AT_MOST } else { AGAIN_AT_MOST_ALONE };
        let wait = AGAIN.saturating_mul(1 << self.failures.min(6)).min(most);
        self.failures = self.failures.saturating_add(1);
        self.state = State::Waiting(now + wait);
    }

    fn tuple(&self) -> Option<FourTuple> {
        match self.state {
            State::Held { tuple, .. } | State::Open { tuple, .. } | State::Leaving { tuple, .. } => {
                Some(tuple)
            }
            State::Idle | State::Waiting(_) | State::Dialling(_) => None,
        }
    }

    fn remote(&self) -> Option<SocketAddr> {
        let dialled = if let State::Dialling(target) = self.state { Some(target.remote) } else { None };
        dialled.or_else(|| self.tuple().map(|tuple| tuple.remote))
    }

    fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(at) | State::Leaving { at, .. } | State::Held { offer_at: at, .. } => Some(at),
            State::Idle | State::Dialling(_) | State::Open { .. } => None,
        }
    }
}

pub(super) fn is_same_host(one: &LocalAddress, other: &LocalAddress) -> bool {
    (one.interface, one.address.ip()) == (other.interface, other.address.ip())
}

#[cfg(test)]
mod tests;
