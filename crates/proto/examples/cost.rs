//! What the protocol machine costs without sockets: one connection moves bytes between two endpoints in memory, and
//! the time that each end computes is printed per packet and per gigabyte.
//!
//! ```console
//! $ cargo run --release -p manyway-proto --example cost -- [MEGABYTES [PATHS]]
//! ```
//!
//! A path has 10 Gbit/s and 1 ms in virtual time, a batch of datagrams arrives as a row, as segmentation offload
//! delivers it, and the application reads at once. Compare figures of one machine and one hour only; `valgrind
//! --tool=callgrind` counts instructions, which do not vary: all of them, or with `--toggle-collect='cost::sender*'`
//! (or `receiver*`) those of one end.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a measurement reads the clock and prints; it may panic, and looks only at the events that it is about"
)]

use std::collections::VecDeque;
use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_proto::identity::{self, AuthorisedKeys, Identity};
use manyway_proto::{
    ClientConfig, Connection, ConnectionConfig, ConnectionHandle, Ecn, Endpoint, EndpointConfig, Event,
    FourTuple, Instant, LocalAddress, LocalCandidate, ReadOutcome, Rng, Role, ServerConfig, StreamId,
    Transmit,
};

const DELAY: Duration = Duration::from_micros(500);
/// Time that 10 bytes take at the rate of a path.
const NANOS_PER_TEN_BYTES: u64 = 8;
/// Bytes that the application writes before earlier ones have arrived.
const AHEAD: u64 = 128 << 20;
/// Time between two turns of a driver at least.
const TURN: Duration = Duration::from_micros(20);

/// One end with the time that it took, and what is on its way to it.
struct End {
    endpoint: Endpoint,
    sends: bool,
    spent: Duration,
    rows: VecDeque<(Instant, FourTuple, usize, Vec<u8>)>,
    packets: u64,
}

impl End {
    fn new(config: EndpointConfig, seed: u8, sends: bool) -> Self {
        let endpoint = Endpoint::new(config, Rng::from_seed([seed; 32]));
        Self { endpoint, sends, spent: Duration::ZERO, rows: VecDeque::new(), packets: 0 }
    }

    fn timed<T>(&mut self, work: impl FnOnce(&mut Endpoint) -> T) -> T {
        let begun = std::time::Instant::now();
        let work = || work(&mut self.endpoint);
        let result = if self.sends { sender(work) } else { receiver(work) };
        self.spent += begun.elapsed();
        result
    }
}

/// What the sending end does, by a name that a profiler can tell from [`receiver`].
#[inline(never)]
fn sender<T>(work: impl FnOnce() -> T) -> T {
    let result = work();
    black_box("Functions that are equal become one");
    result
}

/// What the receiving end does.
#[inline(never)]
fn receiver<T>(work: impl FnOnce() -> T) -> T {
    let result = work();
    black_box("and a last call becomes a jump.");
    result
}

/// The address that the other end sees.
fn turned(transmit: &Transmit) -> FourTuple {
    let interface = match transmit.tuple.remote {
        SocketAddr::V4(address) if address.ip().octets()[1] == 0 => address.ip().octets()[3].into(),
        _ => 0,
    };
    FourTuple::udp(LocalAddress { interface, address: transmit.tuple.remote }, transmit.tuple.local.address)
}

/// Moves what `from` has to send onto the link, at the link's rate.
fn send(now: Instant, from: &mut End, to: &mut End, free_at: &mut [Instant], spare: &mut Vec<Vec<u8>>) {
    for _ in 0..16 {
        let mut buffer = spare.pop().unwrap_or_else(|| Vec::with_capacity(1 << 16));
        let Some(transmit) = from.timed(|endpoint| endpoint.poll_transmit(now, &mut buffer)) else {
            spare.push(buffer);
            return;
        };
        from.packets += transmit.length.div_ceil(transmit.segment) as u64;
        let interface = transmit.tuple.local.interface.max(turned(&transmit).local.interface);
        let free = &mut free_at[interface as usize % 8];
        *free = (*free).max(now) + Duration::from_nanos(transmit.length as u64 * NANOS_PER_TEN_BYTES / 10);
        to.rows.push_back((*free + DELAY, turned(&transmit), transmit.segment, buffer));
    }
}

fn receive(now: Instant, end: &mut End, spare: &mut Vec<Vec<u8>>) {
    while end.rows.front().is_some_and(|(at, ..)| *at <= now) {
        let (_, tuple, segment, mut row) = end.rows.pop_front().unwrap();
        end.timed(|endpoint| endpoint.handle_datagrams(now, tuple, Ecn::NotEct, &mut row, segment));
        spare.push(row);
    }
    end.timed(|endpoint| endpoint.handle_timeout(now));
}

fn ends(paths: u8) -> (End, End) {
    let server_identity = Identity::from_seed(&[1; 32]);
    let client_identity = Identity::from_seed(&[2; 32]);
    let authorised: AuthorisedKeys = [*client_identity.public_key()].into_iter().collect();
    let connection = Arc::new(ConnectionConfig::default());
    let mut config = EndpointConfig::default();
    config.server = Some(ServerConfig {
        tls: identity::server_config(&server_identity, Arc::new(authorised)),
        certificate: None,
        connection: Arc::clone(&connection),
    });
    let server = End::new(config, 3, false);
    let mut client = End::new(EndpointConfig::default(), 4, true);
    let config = ClientConfig {
        tls: identity::client_config(server_identity.public_key().hash(), &client_identity),
        server_name: "manyway".try_into().unwrap(),
        connection,
    };
    let local = |n: u8| LocalAddress { interface: n.into(), address: ([10, 0, 0, n], 1000).into() };
    let locals: Vec<_> =
        (1..=paths).map(|n| LocalCandidate { address: local(n), role: Role::Primary }).collect();
    let remotes = ["10.9.0.1:4455".parse().unwrap()];
    client.endpoint.connect(Instant::from_nanos(0), &config, &locals, &remotes).unwrap();
    (client, server)
}

/// Both ends of a connection in the middle of a transfer.
struct Transfer {
    now: Instant,
    client: End,
    server: End,
    /// When the links of the paths are free again, from the client and to it.
    free_at: [[Instant; 8]; 2],
    spare: Vec<Vec<u8>>,
    stream: Option<(ConnectionHandle, StreamId)>,
    accepted: Option<ConnectionHandle>,
    written: u64,
    got: u64,
}

impl Transfer {
    fn new(paths: u8) -> Self {
        let (client, server) = ends(paths);
        let now = Instant::from_nanos(0);
        let (free_at, spare) = ([[now; 8]; 2], Vec::new());
        Self { now, client, server, free_at, spare, stream: None, accepted: None, written: 0, got: 0 }
    }

    /// Handles all events that are due, and moves the clock to the next one.
    fn step(&mut self) {
        let Self { now, client, server, free_at: [up, down], spare, .. } = self;
        receive(*now, server, spare);
        receive(*now, client, spare);
        while let Some((handle, event)) = client.timed(Endpoint::poll_event) {
            if let Event::Connected = event {
                let opened = client.endpoint.connection(handle).unwrap().open_stream().unwrap();
                self.stream = Some((handle, opened));
            }
        }
        while let Some((handle, event)) = server.timed(Endpoint::poll_event) {
            if let Event::Connected = event {
                self.accepted = Some(handle);
            }
        }
        if let Some(handle) = self.accepted {
            self.got += server.timed(|endpoint| read(endpoint.connection(handle).unwrap()));
        }
        if let Some((handle, stream)) = self.stream {
            let room = (self.got + AHEAD).saturating_sub(self.written);
            self.written +=
                client.timed(|endpoint| write(endpoint.connection(handle).unwrap(), stream, room));
        }
        send(*now, client, server, up, spare);
        send(*now, server, client, down, spare);
        let timeouts = [client.endpoint.poll_timeout(), server.endpoint.poll_timeout()];
        let arrivals = [client.rows.front().map(|row| row.0), server.rows.front().map(|row| row.0)];
        let next = timeouts.into_iter().chain(arrivals).flatten().min().unwrap();
        *now = (*now).max(next) + TURN;
    }
}

fn read(connection: &mut Connection) -> u64 {
    connection.accept_stream();
    let mut got = 0;
    while let Ok(ReadOutcome::Data(bytes)) = connection.read(StreamId(0), usize::MAX) {
        got += bytes.len() as u64;
    }
    got
}

fn write(connection: &mut Connection, stream: StreamId, room: u64) -> u64 {
    static CHUNK: [u8; 64 * 1024] = [7; 64 * 1024];
    let mut written = 0;
    while written < room {
        let taken = connection.write(stream, Bytes::from_static(&CHUNK)).unwrap_or(0);
        written += taken as u64;
        if taken < CHUNK.len() {
            break;
        }
    }
    written
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let megabytes: u64 = arguments.next().map_or(2000, |text| text.parse().unwrap());
    let paths = arguments.next().map_or(1, |text| text.parse().unwrap());
    let wanted = megabytes * 1_000_000;
    let mut transfer = Transfer::new(paths);
    // By then the search for the rate is over.
    while transfer.got < wanted / 10 {
        transfer.step();
    }
    let (since, before) = (transfer.now, transfer.got);
    let (packets, answers) = (transfer.client.packets, transfer.server.packets);
    (transfer.client.spent, transfer.server.spent) = (Duration::ZERO, Duration::ZERO);
    while transfer.got < wanted {
        transfer.step();
    }
    let (client, server) = (&transfer.client, &transfer.server);
    let (bytes, packets) = (transfer.got - before, client.packets - packets);
    println!(
        "{:.2} Gbit/s in virtual time, {} packets in all, {} back for 1000",
        bytes as f64 * 8.0 / (transfer.now - since).as_nanos() as f64,
        client.packets,
        (server.packets - answers) * 1000 / packets.max(1)
    );
    for (name, end) in [("sender  ", client), ("receiver", server)] {
        let (seconds, nanos) = (end.spent.as_secs_f64(), end.spent.as_nanos() as f64);
        println!(
            "{name} {:.3} s/GB, {:.0} ns a packet",
            seconds / bytes as f64 * 1e9,
            nanos / packets as f64
        );
    }
}
