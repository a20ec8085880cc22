//! The engine over a wire of plain counters: aggregation, loss, death and return of paths are its own work.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::net::SocketAddr;
use std::sync::Arc;

use manyway_proto::toy::ToyConnection;
use manyway_proto::{
    ByteCount, ConnectionConfig, ConnectionError, Ecn, Event, FourTuple, Instant, LocalAddress,
    LocalCandidate, PathState, Rng, Role, SendRefusal, Transmit,
};
use manyway_sim::link::{LinkConfig, LossModel, Probability};
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{MINUTE, MS, SECOND, mbit};
use manyway_sim::traffic::Streams;
use manyway_sim::{Node, Pair, PairBuilder, PathFigures, Peer, Side};

struct ToyPeer {
    rng: Rng,
    connection: Option<ToyConnection>,
    states: Vec<(u32, PathState)>,
}

impl std::fmt::Debug for ToyPeer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToyPeer").field("states", &self.states).finish_non_exhaustive()
    }
}

impl ToyPeer {
    fn new(rng: Rng) -> Self {
        Self { rng, connection: None, states: Vec::new() }
    }

    fn connection(&mut self) -> &mut ToyConnection {
        self.connection.as_mut().unwrap()
    }

    /// How often a path entered a state.
    fn came_into(&self, wanted: PathState) -> usize {
        self.states.iter().filter(|(_, state)| *state == wanted).count()
    }
}

fn candidates(locals: &[LocalAddress]) -> Vec<LocalCandidate> {
    locals.iter().map(|address| LocalCandidate { address: *address, role: Role::Primary }).collect()
}

impl Node for ToyPeer {
    fn handle_datagram(&mut self, now: Instant, tuple: FourTuple, ecn: Ecn, datagram: &mut [u8]) {
        let Self { rng, connection, .. } = self;
        let config = || Arc::new(ConnectionConfig::default());
        let connection =
            connection.get_or_insert_with(|| ToyConnection::server(now, config(), tuple, rng.fork()));
        connection.handle_datagram(now, tuple, ecn, datagram);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.connection.as_mut()?.poll_transmit(now, buffer)
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.connection.as_ref()?.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.connection().handle_timeout(now);
    }

    fn handle_send_error(&mut self, now: Instant, local: LocalAddress) {
        let connection = self.connection();
        for path in connection.paths().iter().filter(|path| path.tuple.local == local) {
            connection.on_send_refused(now, path.tuple, SendRefusal::Unreachable);
        }
    }
}

impl Peer for ToyPeer {
    fn connect(
        &mut self,
        now: Instant,
        locals: &[LocalAddress],
        remotes: &[SocketAddr],
    ) -> Result<(), String> {
        let config = Arc::new(ConnectionConfig::default());
        let rng = self.rng.fork();
        self.connection = ToyConnection::client(now, config, &candidates(locals), remotes, rng);
        self.connection.as_ref().map(|_| ()).ok_or_else(|| "no pair of addresses fits".to_owned())
    }

    fn absorb_events(&mut self, _now: Instant) {
        while let Some(event) = self.connection.as_mut().and_then(ToyConnection::poll_event) {
            if let Event::Path(path) = event {
                self.states.push((path.path.0, path.state));
            }
        }
    }

    fn streams(&mut self) -> Option<&mut dyn Streams> {
        None
    }

    fn ended(&self) -> Option<&ConnectionError> {
        None
    }

    fn figures(&self, _now: Instant, out: &mut Vec<PathFigures>) {
        let paths = self.connection.as_ref().map(ToyConnection::paths).unwrap_or_default();
        out.extend(paths.iter().map(|path| PathFigures {
            path: path.id,
            sent: path.bytes_sent,
            received: path.bytes_received,
            in_flight: path.in_flight,
            window: path.window,
            datagram: ByteCount(path.datagram.into()),
        }));
    }

    fn set_addresses(&mut self, now: Instant, locals: &[LocalAddress]) {
        self.connection().set_local_addresses(now, &candidates(locals));
    }
}

/// A client and a server over the toy wire; the client sends that many bytes.
fn sending(builder: PairBuilder, bytes: u64) -> Pair<ToyPeer> {
    let mut pair = builder.build(ToyPeer::new, ToyPeer::new);
    pair.begin().unwrap();
    pair.peer(Side::Client).unwrap().connection().write(bytes);
    pair
}

/// Runs until all bytes have arrived and the sender knows it; returns the duration.
fn arrive(pair: &mut Pair<ToyPeer>, bytes: u64) -> std::time::Duration {
    let start = pair.now();
    let arrived = |pair: &mut Pair<ToyPeer>| {
        let server = pair.peer(Side::Server).and_then(|peer| peer.connection.as_mut());
        server.is_some_and(|server| server.received() == (bytes, 0))
            && pair.peer(Side::Client).unwrap().connection().is_idle()
    };
    pair.run_until(MINUTE, "arrived", arrived).unwrap();
    pair.now() - start
}

#[test]
fn the_rates_of_two_paths_add_up() {
    let bytes = 20_000_000;
    let mut pair = sending(PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 30 * MS), bytes);
    let took = arrive(&mut pair, bytes);
    // 160 Mbit at 40 Mbit/s.
    assert!(took < 4600 * MS, "{took:?}");
    let sent: Vec<_> =
        pair.peer(Side::Client).unwrap().connection().paths().iter().map(|path| path.bytes_sent).collect();
    assert!(sent.len() == 2 && sent.iter().all(|bytes| *bytes > ByteCount(8_000_000)), "{sent:?}");
}

#[test]
fn every_byte_arrives_over_lossy_links() {
    let lossy =
        || LinkConfig::new(mbit(20), 10 * MS).with_loss(LossModel::Random(Probability::from_percent(2.0)));
    let bytes = 10_000_000;
    let builder = PairBuilder::new().path_with(lossy(), lossy()).path_with(lossy(), lossy());
    arrive(&mut sending(builder, bytes), bytes);
}

#[test]
fn a_dead_path_is_abandoned_and_used_again() {
    let bytes = 40_000_000;
    let mut pair = sending(PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 10 * MS), bytes);
    pair.run_for(2 * SECOND).unwrap();
    pair.cut(1, Direction::Both);
    let before = pair.peer(Side::Server).unwrap().connection().received().0;
    pair.run_for(SECOND).unwrap();
    let during = pair.peer(Side::Server).unwrap().connection().received().0 - before;
    // One path of 20 Mbit/s carries 2.5 MB in a second, less what the outage costs.
    assert!(during > 1_800_000, "{during} bytes in the second after the death");
    pair.restore(1, Direction::Both);
    arrive(&mut pair, bytes);
    let client = pair.peer(Side::Client).unwrap();
    assert_eq!((client.came_into(PathState::Dead), client.came_into(PathState::Probation)), (1, 1));
    assert_eq!(client.states.last(), Some(&(1, PathState::Active)), "{:?}", client.states);
}
