//! The event loop: finds the next event, calls the machines, sends their packets; until nothing happens or the time is
//! over.

use std::collections::BTreeMap;

use manyway_proto::{Ecn, FourTuple, Instant, LocalAddress, Rng, Transmit};

use crate::clock::Clock;
use crate::ids::HostId;
use crate::invariants::{BrokenLaw, Law, Laws, Limits};
use crate::network::{Arrival, Network, SendError};
use crate::record::{Record, What};

/// A protocol machine in a world: the calls that every driver makes, on real sockets too.
pub trait Node {
    /// Takes one datagram.
    fn handle_datagram(&mut self, now: Instant, tuple: FourTuple, ecn: Ecn, datagram: &mut [u8]);

    /// Returns the next datagrams to send in `buffer`, which is empty at the call. Called until `None`.
    fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit>;

    /// When to call [`handle_timeout`](Self::handle_timeout).
    fn poll_timeout(&mut self) -> Option<Instant>;

    /// Fires the timers that are due.
    fn handle_timeout(&mut self, now: Instant);

    /// Reports that the system refused to send from this address.
    fn handle_send_error(&mut self, now: Instant, local: LocalAddress);
}

/// Datagrams that wait for a stopped machine: about as many as fit into a socket buffer.
const MOST_WAITING: usize = 3000;

/// Hosts with a protocol machine each, on one network, with one clock.
#[derive(Debug)]
pub struct World<N> {
    clock: Clock,
    network: Network,
    nodes: Vec<N>,
    laws: Laws,
    record: Record,
    rng: Rng,
    buffer: Vec<u8>,
    stopped: BTreeMap<HostId, Vec<Arrival>>,
    /// By host: whether its machine was called, or sent something, since [`World::take_active`].
    active: Vec<bool>,
}

/// What a [step](World::step) did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Something happened.
    Acted,
    /// Nothing happens before the given time; the clock shows that now.
    Waited,
}

impl<N: Node> World<N> {
    /// Makes an empty world. Everything random in it follows from the seed.
    pub fn new(seed: u64) -> Self {
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(seed.to_be_bytes()) {
            *to = from;
        }
        let mut rng = Rng::from_seed(bytes);
        Self {
            clock: Clock::new(),
            network: Network::new(rng.fork()),
            nodes: Vec::new(),
            laws: Laws::new(seed, Limits::default()),
            record: Record::default(),
            rng,
            buffer: Vec::new(),
            stopped: BTreeMap::new(),
            active: Vec::new(),
        }
    }

    /// Adds a host with its machine.
    pub fn add_node(&mut self, node: N) -> HostId {
        self.nodes.push(node);
        self.active.push(true);
        self.network.add_host()
    }

    /// A random generator for a machine or an application, independent of all others.
    pub fn fork_rng(&mut self) -> Rng {
        self.rng.fork()
    }

    /// The current time.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The network, to read.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The network, to change.
    pub fn network_mut(&mut self) -> &mut Network {
        &mut self.network
    }

    /// The machine of a host.
    pub fn node(&self, host: HostId) -> Option<&N> {
        self.nodes.get(host.0)
    }

    /// The machine of a host, to call. Its packets leave with the next [`step`](Self::step).
    pub fn node_mut(&mut self, host: HostId) -> Option<&mut N> {
        set_active(&mut self.active, host);
        self.nodes.get_mut(host.0)
    }

    /// As [`node_mut`](Self::node_mut), for calls that change nothing which [`take_active`](Self::take_active) tells.
    pub(crate) fn node_at_rest(&mut self, host: HostId) -> Option<&mut N> {
        self.nodes.get_mut(host.0)
    }

    /// Makes the next [`take_active`](Self::take_active) true.
    pub(crate) fn set_active(&mut self, host: HostId) {
        set_active(&mut self.active, host);
    }

    /// Whether something may have changed at a machine since the last call: a datagram, a timer, a transmission, or a
    /// call from outside.
    pub(crate) fn take_active(&mut self, host: HostId) -> bool {
        self.active.get_mut(host.0).is_some_and(std::mem::take)
    }

    /// Stops a machine, as a suspend or a signal stops a process: its timers do not fire, it sends nothing, and
    /// arriving packets wait.
    pub fn stop(&mut self, host: HostId) {
        self.stopped.entry(host).or_default();
    }

    /// Whether a machine is stopped.
    pub fn is_stopped(&self, host: HostId) -> bool {
        self.stopped.contains_key(&host)
    }

    /// Resumes a stopped machine: first it receives the waiting packets.
    pub fn resume(&mut self, host: HostId) {
        set_active(&mut self.active, host);
        let now = self.clock.now();
        for arrival in self.stopped.remove(&host).into_iter().flatten() {
            self.hand_over(now, arrival);
        }
    }

    /// The record of events.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The record of events, to set its length.
    pub fn record_mut(&mut self) -> &mut Record {
        &mut self.record
    }

    /// The laws, to set their limits or to check further ones.
    pub fn laws_mut(&mut self) -> &mut Laws {
        &mut self.laws
    }

    /// Sends the packets of the machines, goes to the next event, not beyond `until`, and executes it.
    ///
    /// # Errors
    /// If a law is violated.
    pub fn step(&mut self, until: Instant) -> Result<Step, BrokenLaw> {
        self.transmit()?;
        let next = self.next_event().filter(|next| *next <= until);
        let moved = self.clock.advance_to(next.unwrap_or(until));
        if next.is_none() {
            return Ok(Step::Waited);
        }
        let now = self.clock.now();
        self.laws.on_step(now, moved)?;
        self.deliver(now);
        let fired = self.fire(now);
        self.transmit()?;
        if fired {
            self.check_deadlines(now)?;
        }
        if !self.network.balances() {
            return Err(self.laws.broken(now, Law::NetworkBooks { counters: self.network.counters() }));
        }
        Ok(Step::Acted)
    }

    /// Steps until the clock shows `until`.
    ///
    /// # Errors
    /// If a law is violated.
    pub fn run_until(&mut self, until: Instant) -> Result<(), BrokenLaw> {
        while self.step(until)? == Step::Acted {}
        Ok(())
    }

    /// When the next event is due.
    pub fn next_event(&mut self) -> Option<Instant> {
        let timers =
            running(&mut self.nodes, &self.stopped).filter_map(|(_, node)| node.poll_timeout()).min();
        let network = self.network.next_event();
        timers.into_iter().chain(network).min()
    }

    fn deliver(&mut self, now: Instant) {
        while let Some(arrival) = self.network.poll(now) {
            match self.stopped.get_mut(&arrival.host) {
                Some(waiting) if waiting.len() < MOST_WAITING => waiting.push(arrival),
                Some(_) => {}
                None => self.hand_over(now, arrival),
            }
        }
    }

    fn hand_over(&mut self, now: Instant, mut arrival: Arrival) {
        self.record.note(now, arrival.host, What::Received { tuple: arrival.tuple }, arrival.data.len());
        set_active(&mut self.active, arrival.host);
        if let Some(node) = self.nodes.get_mut(arrival.host.0) {
            node.handle_datagram(now, arrival.tuple, arrival.ecn, &mut arrival.data);
        }
    }

    /// Calls machines whose timers are due; returns whether there was any.
    fn fire(&mut self, now: Instant) -> bool {
        let mut fired = false;
        for (host, node) in running(&mut self.nodes, &self.stopped) {
            if node.poll_timeout().is_some_and(|deadline| deadline <= now) {
                node.handle_timeout(now);
                set_active(&mut self.active, host);
                self.record.note(now, host, What::Timeout, 0);
                fired = true;
            }
        }
        fired
    }

    /// After everything due was done and sent, deadlines are in the future again.
    fn check_deadlines(&mut self, now: Instant) -> Result<(), BrokenLaw> {
        for (host, node) in running(&mut self.nodes, &self.stopped) {
            self.laws.on_deadline(now, host, node.poll_timeout())?;
        }
        Ok(())
    }

    fn transmit(&mut self) -> Result<(), BrokenLaw> {
        let now = self.clock.now();
        for (host, node) in running(&mut self.nodes, &self.stopped) {
            loop {
                self.buffer.clear();
                let Some(transmit) = node.poll_transmit(now, &mut self.buffer) else { break };
                set_active(&mut self.active, host);
                self.laws.on_transmit(now, host, transmit, self.buffer.len())?;
                let sent = self.buffer.chunks(transmit.segment.max(1)).try_for_each(|datagram| {
                    send(now, &mut self.network, &mut self.record, (host, transmit), datagram)
                });
                // As in a system call: one error for all datagrams of the batch.
                if sent.is_err() {
                    node.handle_send_error(now, transmit.tuple.local);
                }
            }
        }
        Ok(())
    }
}

fn set_active(active: &mut [bool], host: HostId) {
    if let Some(active) = active.get_mut(host.0) {
        *active = true;
    }
}

/// The machines that are not stopped.
fn running<'a, N>(
    nodes: &'a mut [N],
    stopped: &'a BTreeMap<HostId, Vec<Arrival>>,
) -> impl Iterator<Item = (HostId, &'a mut N)> {
    let numbered = nodes.iter_mut().enumerate().map(|(index, node)| (HostId(index), node));
    numbered.filter(|(host, _)| !stopped.contains_key(host))
}

fn send(
    now: Instant,
    network: &mut Network,
    record: &mut Record,
    (host, transmit): (HostId, Transmit),
    datagram: &[u8],
) -> Result<(), SendError> {
    let tuple = transmit.tuple;
    let sent = network.send(now, (host, tuple), transmit.ecn, datagram.to_vec());
    let what = match sent {
        Ok(()) => What::Sent { tuple },
        Err(_) => What::Refused { tuple },
    };
    record.note(now, host, what, datagram.len());
    sent
}
