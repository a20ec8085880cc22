//! Two endpoints and the datagrams between them, in virtual time; laws that always hold.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_proto::fuzzing::EstablishedEnd;
use manyway_proto::{
    Connection, ConnectionError, ConnectionHandle, Ecn, Endpoint, EndpointConfig, Event, FourTuple, Instant,
    LocalAddress, ReadOutcome, Rng, Side, StreamId,
};

use crate::material::{
    INTERFACES, KEYS, MMSP1, RESET_KEYS, SETTINGS, client_addresses, client_config, endpoint_config,
    mmsp1_endpoint_config, server_address,
};

/// One of the two ends, as an index.
pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

/// Delay of a datagram.
const DELAY: Duration = Duration::from_millis(10);
/// Datagrams that an end sends at one instant; its window allows far fewer.
const MOST_AT_ONCE: usize = 2_000;
/// Events that are queued for an application.
const MOST_EVENTS: usize = 10_000;
/// Longest run of deadlines in the past after the timer has fired and everything was sent.
const MOST_LATE: u32 = 16;
/// Datagrams that an honest network carries until everything is delivered.
const MOST_IN_PEACE: usize = 20_000;
/// Most datagrams in flight; beyond it the oldest is lost.
const MOST_FLYING: usize = 256;

/// A datagram in flight.
#[derive(Debug, Clone)]
pub(crate) struct Flying {
    pub(crate) to: usize,
    /// The addresses as the receiver sees them.
    pub(crate) tuple: FourTuple,
    pub(crate) data: Vec<u8>,
}

/// Bytes between the server and one foreign address.
#[derive(Debug, Clone, Copy, Default)]
struct Traffic {
    received: usize,
    sent: usize,
}

/// The state of an end.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Standing {
    pub(crate) connected: bool,
    pub(crate) closed: Option<ConnectionError>,
    /// Bytes read on each stream.
    pub(crate) read: BTreeMap<StreamId, u64>,
    pub(crate) accepted: Vec<StreamId>,
    pub(crate) opened: Vec<StreamId>,
}

pub(crate) struct Lab {
    pub(crate) now: Instant,
    pub(crate) ends: [Endpoint; 2],
    pub(crate) handles: [Option<ConnectionHandle>; 2],
    pub(crate) standing: [Standing; 2],
    pub(crate) flying: Vec<Flying>,
    /// At the server, by address, without the client's own.
    strangers: BTreeMap<SocketAddr, Traffic>,
    /// Whether the server is one end of a simultaneous open: as a client it probes the addresses that its peer names.
    connects_back: bool,
    /// Bytes that count for each datagram beside its own.
    overhead: usize,
    late: [u32; 2],
    /// Whether the applications read.
    pub(crate) reading: bool,
}

impl Lab {
    /// A server and a client without a connection.
    pub(crate) fn strangers() -> Self {
        Self::new([false, true].map(endpoint_config))
    }

    fn new(configs: [EndpointConfig; 2]) -> Self {
        let mut seed = 0;
        let ends = configs.map(|config| {
            seed += 1;
            Endpoint::new(config, Rng::from_seed([seed; 32]))
        });
        Self {
            now: Instant::from_nanos(1_000_000_000),
            ends,
            handles: [None; 2],
            standing: Default::default(),
            flying: Vec::new(),
            strangers: BTreeMap::new(),
            connects_back: false,
            overhead: 0,
            late: [0; 2],
            reading: true,
        }
    }

    /// A client that begins to connect.
    pub(crate) fn connecting() -> Self {
        let mut lab = Self::strangers();
        let remotes = [server_address().address];
        let locals = client_addresses(INTERFACES);
        let handle = lab.ends[CLIENT].connect(lab.now, &client_config(), &locals, &remotes).unwrap();
        lab.handles[CLIENT] = Some(handle);
        lab.collect();
        lab
    }

    /// A client that begins to connect over MMSP/1; with `both`, the server connects to it as well.
    pub(crate) fn connecting_mmsp1(both: bool) -> Self {
        // spec 3.57: the headers of IP and UDP count
        let mut lab =
            Self { overhead: 28, connects_back: both, ..Self::new([false, true].map(mmsp1_endpoint_config)) };
        let (server, clients) = (server_address(), client_addresses(INTERFACES));
        let handle = lab.ends[CLIENT].connect_mmsp1(lab.now, &MMSP1, &clients, &[server.address]).unwrap();
        lab.handles[CLIENT] = Some(handle);
        if both {
            let there =
                [manyway_proto::LocalCandidate { address: server, role: manyway_proto::Role::Primary }];
            let remotes = clients.iter().take(1).map(|local| local.address.address).collect::<Vec<_>>();
            let handle = lab.ends[SERVER].connect_mmsp1(lab.now, &MMSP1, &there, &remotes).unwrap();
            lab.handles[SERVER] = Some(handle);
        }
        lab.collect();
        lab
    }

    /// A connection right after its handshake.
    pub(crate) fn established() -> Self {
        let mut lab = Self::strangers();
        let (now, settings) = (lab.now, &*SETTINGS);
        let server = server_address();
        let locals = client_addresses(INTERFACES);
        let client = EstablishedEnd {
            side: Side::Client,
            config: Arc::clone(settings),
            peer: Arc::clone(settings),
            locals: &locals,
            remotes: &[server.address],
            peer_reset_key: RESET_KEYS[SERVER],
        };
        lab.handles[CLIENT] = lab.ends[CLIENT].add_established(now, &client, &KEYS).ok();
        let there = [manyway_proto::LocalCandidate { address: server, role: manyway_proto::Role::Primary }];
        let server = EstablishedEnd {
            side: Side::Server,
            locals: &there,
            remotes: &locals.iter().take(1).map(|local| local.address.address).collect::<Vec<_>>(),
            peer_reset_key: RESET_KEYS[CLIENT],
            ..client
        };
        lab.handles[SERVER] = lab.ends[SERVER].add_established(now, &server, &KEYS).ok();
        assert!(lab.handles.iter().all(Option::is_some));
        lab.collect();
        lab
    }

    pub(crate) fn connection(&mut self, end: usize) -> Option<&mut Connection> {
        self.ends[end].connection(self.handles[end]?)
    }

    /// Collects the datagrams and events of both ends.
    pub(crate) fn collect(&mut self) {
        for end in [CLIENT, SERVER] {
            self.events(end);
            let mut buffer = Vec::new();
            let mut count = 0;
            while let Some(transmit) = self.ends[end].poll_transmit(self.now, &mut buffer) {
                let whole = transmit.segment > 0 && transmit.segment <= transmit.length;
                assert!(whole && transmit.length == buffer.len(), "{transmit:?} of {}", buffer.len());
                count += transmit.length.div_ceil(transmit.segment);
                assert!(count < MOST_AT_ONCE, "an end sends without end");
                for datagram in buffer.chunks(transmit.segment) {
                    self.send(end, transmit.tuple, datagram);
                }
            }
            self.events(end);
        }
    }

    fn send(&mut self, from: usize, tuple: FourTuple, datagram: &[u8]) {
        let to = 1 - from;
        let known = client_addresses(INTERFACES).into_iter().map(|local| local.address);
        let receiver = match from {
            CLIENT => Some(server_address()).filter(|server| server.address == tuple.remote),
            _ => known.into_iter().find(|local| local.address == tuple.remote),
        };
        let Some(receiver) = receiver else {
            if from == SERVER && !self.connects_back {
                let traffic = self.strangers.entry(tuple.remote).or_default();
                traffic.sent += self.overhead + datagram.len();
                // spec 4.14, 3.57
                assert!(traffic.sent <= 3 * traffic.received, "{} was flooded: {traffic:?}", tuple.remote);
            }
            return;
        };
        let tuple = FourTuple::udp(receiver, tuple.local.address);
        self.put(Flying { to, tuple, data: datagram.to_vec() });
    }

    /// Sends a datagram.
    pub(crate) fn put(&mut self, datagram: Flying) {
        self.flying.push(datagram);
        if self.flying.len() > MOST_FLYING {
            self.flying.remove(0);
        }
    }

    /// Delivers a datagram to its receiver, now.
    pub(crate) fn deliver(&mut self, mut datagram: Flying) {
        let Flying { to, tuple, data } = &mut datagram;
        let foreign = !client_addresses(INTERFACES).iter().any(|local| local.address.address == tuple.remote);
        if *to == SERVER && foreign {
            self.strangers.entry(tuple.remote).or_default().received += self.overhead + data.len();
        }
        self.ends[*to].handle_datagram(self.now, *tuple, Ecn::NotEct, data);
        self.collect();
    }

    /// Delivers everything in flight; the responses stay in flight.
    pub(crate) fn deliver_all(&mut self) {
        for datagram in std::mem::take(&mut self.flying) {
            self.deliver(datagram);
        }
    }

    /// Lets time pass, timers fire.
    pub(crate) fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        let mut steps = 0;
        while let Some(next) = self.next_timer().filter(|next| *next <= until) {
            steps += 1;
            assert!(steps < 100_000, "timers fire without end");
            self.now = next.max(self.now);
            self.fire();
        }
        self.now = until;
        self.fire();
    }

    fn next_timer(&self) -> Option<Instant> {
        self.ends.iter().filter_map(Endpoint::poll_timeout).min()
    }

    fn fire(&mut self) {
        let mut fired = [false; 2];
        for end in [CLIENT, SERVER] {
            if self.ends[end].poll_timeout().is_some_and(|at| at <= self.now) {
                self.ends[end].handle_timeout(self.now);
                fired[end] = true;
            }
        }
        self.collect();
        for end in [CLIENT, SERVER] {
            let late = self.ends[end].poll_timeout().is_some_and(|at| at <= self.now) && fired[end];
            self.late[end] = if late { self.late[end] + 1 } else { 0 };
            assert!(self.late[end] <= MOST_LATE, "a deadline stays in the past");
        }
    }

    /// An honest network for this long, or until `done`; returns whether that was reached.
    pub(crate) fn run(&mut self, within: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let until = self.now + within;
        let (mut steps, mut datagrams) = (0, 0);
        loop {
            if done(self) {
                return true;
            }
            steps += 1;
            assert!(steps < 200_000, "virtual time stands nearly still");
            if !self.flying.is_empty() {
                self.wait(DELAY);
                datagrams += self.flying.len();
                assert!(datagrams < MOST_IN_PEACE, "both ends talk without end");
                self.deliver_all();
            } else {
                match self.next_timer() {
                    Some(next) if next <= until => self.wait(next - self.now),
                    Some(_) | None => {
                        self.now = until.max(self.now);
                        return done(self);
                    }
                }
            }
            if self.now >= until {
                return done(self);
            }
        }
    }

    fn events(&mut self, end: usize) {
        let mut count = 0;
        while let Some((handle, event)) = self.ends[end].poll_event() {
            count += 1;
            assert!(count < MOST_EVENTS, "events without end");
            let known = *self.handles[end].get_or_insert(handle);
            if known != handle {
                // Another client's.
                continue;
            }
            #[expect(clippy::wildcard_enum_match_arm, reason = "the others change nothing here")]
            match event {
                Event::Connected => self.standing[end].connected = true,
                Event::Closed(error) => {
                    let before = self.standing[end].closed.replace(error);
                    assert_eq!(before, None, "nothing follows the end");
                }
                Event::StreamOpened => self.accept(end),
                Event::StreamReadable(stream) if self.reading => {
                    self.read(end, stream);
                }
                _ => {}
            }
        }
    }

    pub(crate) fn accept(&mut self, end: usize) {
        while let Some(stream) = self.connection(end).and_then(Connection::accept_stream) {
            self.standing[end].accepted.push(stream);
        }
    }

    /// Reads all available data of a stream; returns how much.
    pub(crate) fn read(&mut self, end: usize, stream: StreamId) -> u64 {
        let mut total = 0;
        while let Some(Ok(ReadOutcome::Data(bytes))) =
            self.connection(end).map(|connection| connection.read(stream, usize::MAX))
        {
            assert!(!bytes.is_empty());
            total += bytes.len() as u64;
        }
        *self.standing[end].read.entry(stream).or_default() += total;
        total
    }

    /// Opens a stream and writes this many bytes to it.
    pub(crate) fn write_new(&mut self, end: usize, length: usize) -> Option<StreamId> {
        let connection = self.connection(end)?;
        let stream = connection.open_stream().ok()?;
        let taken = connection.write(stream, Bytes::from(vec![0x5a; length])).ok();
        assert!(taken.is_some(), "a new stream takes bytes");
        self.standing[end].opened.push(stream);
        Some(stream)
    }

    /// The addresses of a datagram from this address to this end.
    pub(crate) fn tuple(&self, to: usize, remote: SocketAddr) -> FourTuple {
        let local = match to {
            SERVER => server_address(),
            _ => client_addresses(1).first().map_or_else(server_address, |local| local.address),
        };
        FourTuple::udp(local, remote)
    }

    /// The address of an end, for forged datagrams.
    pub(crate) fn address_of(&self, end: usize, interface: u8) -> LocalAddress {
        match end {
            SERVER => server_address(),
            _ => client_addresses(INTERFACES)[usize::from(interface % INTERFACES)].address,
        }
    }
}
