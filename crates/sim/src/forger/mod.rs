//! An attacker with the keys: it replaces one end after a real handshake and sends arbitrary packets.
//!
//! A [`Duel`] is a victim, which is a real endpoint, and a forger that writes packets block by block. There is no
//! network between them; the test gets the decrypted packets of the victim.
//!
//! ```
//! use manyway_sim::forger::Duel;
//! use manyway_wire::mmsp2::{Block, MaxData};
//! use manyway_proto::Side;
//!
//! let mut duel = Duel::new(Side::Server, &Default::default());
//! duel.send(&[Block::MaxData(MaxData { credit: 1 })]);
//! assert_eq!(duel.ended(), None);
//! ```

mod keys;
mod stranger;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use manyway_proto::identity::{AuthorisedKeys, client_config, server_config};
use manyway_proto::{
    ClientConfig, Connection, ConnectionConfig, ConnectionError, ConnectionHandle, ConnectionId, Ecn,
    Endpoint, EndpointConfig, Event, FourTuple, Instant, LocalAddress, LocalCandidate, PathId, Rng, Role,
    ServerConfig, Side,
};
use manyway_wire::Writer;
use manyway_wire::mmsp2::{Block, Blocks, HeaderForm, encode_path_ack, encode_short};

pub use self::keys::{Cipher, Keys, Opened};
pub use self::stranger::{Stranger, first_flight};

use crate::{client_identity, server_identity};

/// The client's address.
pub const CLIENT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 1)), 1000);
/// The server's address.
pub const SERVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1)), 4433);
/// From one to the other.
const WAY: Duration = Duration::from_millis(5);

/// A datagram that the victim sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// When.
    pub at: Instant,
    /// To where.
    pub to: SocketAddr,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its 1-RTT packet, if there is one and the forger has the keys.
    pub opened: Option<Opened>,
}

impl Sent {
    /// Calls `look` with every block of the packet.
    pub fn for_each_block(&self, look: impl FnMut(Block<'_>)) {
        let payload = self.opened.as_ref().map_or(&[][..], |opened| &opened.payload);
        Blocks::new(payload).filter_map(Result::ok).for_each(look);
    }

    /// How many of its blocks pass the test.
    pub fn count(&self, mut test: impl FnMut(&Block<'_>) -> bool) -> usize {
        let mut count = 0;
        self.for_each_block(|block| count += usize::from(test(&block)));
        count
    }
}

/// The state of one direction of the connection.
#[derive(Debug)]
struct Direction {
    keys: Keys,
    /// The IDs of the receiving end, with their paths and sequences.
    ids: BTreeMap<ConnectionId, (PathId, u64)>,
    /// One above the largest number of each path.
    next: BTreeMap<PathId, u64>,
    /// The tokens that came with ids.
    tokens: Vec<[u8; 16]>,
    /// The numbers of each path that were seen.
    seen: BTreeMap<PathId, BTreeSet<u64>>,
}

/// A victim and a forger.
#[derive(Debug)]
pub struct Duel {
    /// The victim.
    pub victim: Endpoint,
    /// Its connection with the forger.
    pub handle: ConnectionHandle,
    /// The current time.
    pub now: Instant,
    /// Source of the forger's packets.
    pub source: SocketAddr,
    /// Events of the victim's application.
    pub events: Vec<Event>,
    /// Every datagram of the handshake: its sender, and its bytes.
    pub handshake_datagrams: Vec<(Side, Vec<u8>)>,
    watch: Watch,
    local: LocalAddress,
    to_victim: Direction,
    from_victim: Direction,
}

/// Called with true before and with false after the victim acts, so that a test can count its allocations.
pub type Watch = fn(bool);

/// Keeps the TLS secrets.
#[derive(Debug, Default)]
struct Secrets(Mutex<BTreeMap<String, Vec<u8>>>);

impl rustls::KeyLog for Secrets {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(label.to_owned(), secret.to_vec());
    }
}

/// The settings of a client that logs its secrets, and of the server that accepts it.
fn settings(config: &ConnectionConfig, secrets: &Arc<Secrets>) -> (ClientConfig, EndpointConfig) {
    let connection = Arc::new(config.clone());
    let mut tls = (*client_config(server_identity().public_key().hash(), &client_identity())).clone();
    tls.key_log = Arc::clone(secrets) as Arc<dyn rustls::KeyLog>;
    #[expect(clippy::expect_used, reason = "a fixed name")]
    let server_name = rustls::pki_types::ServerName::try_from("server.invalid").expect("a domain name");
    let client = ClientConfig { tls: Arc::new(tls), server_name, connection: Arc::clone(&connection) };
    let clients = AuthorisedKeys::from_iter([*client_identity().public_key()]);
    let mut server = EndpointConfig::default();
    server.server = Some(ServerConfig {
        tls: server_config(&server_identity(), Arc::new(clients)),
        certificate: None,
        connection,
    });
    server.reset_key = Some([3; 32]);
    (client, server)
}

fn local(address: SocketAddr) -> LocalAddress {
    LocalAddress { interface: 1, address }
}

impl Duel {
    /// Establishes a connection, and replaces the end that is not the victim by the forger.
    ///
    /// # Panics
    /// If the handshake fails.
    pub fn new(victim: Side, config: &ConnectionConfig) -> Self {
        Self::watched(victim, config, |_| {})
    }

    /// As [`new`](Self::new), and calls `watch` whenever the victim acts, from the beginning.
    ///
    /// # Panics
    /// If the handshake fails.
    #[expect(clippy::expect_used, reason = "a failed handshake is a failed test")]
    pub fn watched(victim: Side, config: &ConnectionConfig, watch: Watch) -> Self {
        let watched = |side: Side| if side == victim { watch } else { |_: bool| {} };
        let secrets = Arc::new(Secrets::default());
        let (client_config, server_config) = settings(config, &secrets);
        let (of_client, of_server) = (watched(Side::Client), watched(Side::Server));
        let mut client = Endpoint::new(EndpointConfig::default(), Rng::from_seed([1; 32]));
        let mut server = Endpoint::new(server_config, Rng::from_seed([2; 32]));
        let mut now = Instant::from_nanos(1_000_000_000);
        let locals = [LocalCandidate { address: local(CLIENT), role: Role::Primary }];
        of_client(true);
        let client_handle = client.connect(now, &client_config, &locals, &[SERVER]);
        of_client(false);
        let client_handle = client_handle.expect("the addresses fit each other");
        let (mut server_handle, mut handshake_datagrams) = (None, Vec::new());
        for _ in 0..100 {
            carry(
                now,
                Side::Client,
                (&mut client, of_client),
                (&mut server, of_server),
                &mut handshake_datagrams,
            );
            now += WAY;
            carry(
                now,
                Side::Server,
                (&mut server, of_server),
                (&mut client, of_client),
                &mut handshake_datagrams,
            );
            now += WAY;
            for (end, watch) in [(&mut client, of_client), (&mut server, of_server)] {
                watch(true);
                end.handle_timeout(now);
                watch(false);
            }
            while let Some((handle, _)) = server.poll_event() {
                server_handle = Some(handle);
            }
            while client.poll_event().is_some() {}
        }
        let server_handle = server_handle.expect("the handshake is complete");
        let secret = |label: &str| {
            let secrets = secrets.0.lock().unwrap_or_else(PoisonError::into_inner);
            secrets.get(label).cloned().unwrap_or_default()
        };
        let secrets = [secret("CLIENT_TRAFFIC_SECRET_0"), secret("SERVER_TRAFFIC_SECRET_0")];
        let direction = |secret: &[u8], cipher| Direction {
            keys: Keys::from_secret(secret, cipher),
            ids: BTreeMap::new(),
            next: BTreeMap::new(),
            tokens: Vec::new(),
            seen: BTreeMap::new(),
        };
        let make = |cipher| secrets.each_ref().map(|secret| direction(secret, cipher));
        let [[mut up, mut down], other] = [Cipher::Aes, Cipher::ChaCha].map(make);
        learn(&mut up, &mut down, &handshake_datagrams);
        if up.next.is_empty() {
            [up, down] = other;
            learn(&mut up, &mut down, &handshake_datagrams);
        }
        let (victim, handle, local, source, to_victim, from_victim) = match victim {
            Side::Client => (client, client_handle, local(CLIENT), SERVER, down, up),
            Side::Server => (server, server_handle, local(SERVER), CLIENT, up, down),
        };
        let events = Vec::new();
        Self {
            victim,
            handle,
            now,
            source,
            events,
            handshake_datagrams,
            watch,
            local,
            to_victim,
            from_victim,
        }
    }

    /// The victim's connection.
    ///
    /// # Panics
    /// If it has ended and was dropped.
    #[expect(clippy::expect_used, reason = "a test that asks for it needs it")]
    pub fn connection(&mut self) -> &mut Connection {
        self.victim.connection(self.handle).expect("the connection is there")
    }

    /// The error of the connection, if it has ended.
    pub fn ended(&mut self) -> Option<ConnectionError> {
        self.absorb();
        self.events.iter().find_map(
            |event| {
                if let Event::Closed(error) = event { Some(error.clone()) } else { None }
            },
        )
    }

    fn absorb(&mut self) {
        while let Some((_, event)) = self.act(Endpoint::poll_event) {
            self.events.push(event);
        }
    }

    /// Lets the victim act, under watch.
    pub fn act<T>(&mut self, act: impl FnOnce(&mut Endpoint) -> T) -> T {
        (self.watch)(true);
        let result = act(&mut self.victim);
        (self.watch)(false);
        result
    }

    /// An ID of the victim on a path, and its sequence; the newest one known.
    pub fn victim_id(&self, path: PathId) -> Option<(ConnectionId, u64)> {
        let of_path = self.to_victim.ids.iter().filter(|(_, (of, _))| *of == path);
        of_path.max_by_key(|(_, (_, sequence))| *sequence).map(|(id, (_, sequence))| (*id, *sequence))
    }

    /// The reset token of an ID that the forger's end issued to the victim during the handshake.
    pub fn reset_token(&self) -> Option<[u8; 16]> {
        self.to_victim.tokens.first().copied()
    }

    /// The number of the forger's next packet on a path.
    pub fn next_number(&self, path: PathId) -> u64 {
        self.to_victim.next.get(&path).copied().unwrap_or(0)
    }

    /// Skips numbers of a path.
    pub fn skip(&mut self, path: PathId, numbers: u64) {
        *self.to_victim.next.entry(path).or_default() += numbers;
    }

    /// The received numbers of the victim's packets on a path, as ranges, newest first.
    pub fn heard(&self, path: PathId) -> Vec<RangeInclusive<u64>> {
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        for number in self.from_victim.seen.get(&path).into_iter().flatten() {
            match ranges.last_mut() {
                Some(last) if *last.end() + 1 == *number => *last = *last.start()..=*number,
                Some(_) | None => ranges.push(*number..=*number),
            }
        }
        ranges.reverse();
        ranges
    }

    /// Makes a packet of a path from its blocks.
    pub fn packet(&mut self, path: PathId, blocks: &[Block<'_>]) -> Vec<u8> {
        let mut payload = Vec::new();
        let mut writer = Writer::new(&mut payload, 60_000);
        for block in blocks {
            block.encode(&mut writer);
        }
        self.packet_of(path, &payload)
    }

    /// Makes a packet of a path from arbitrary bytes.
    pub fn packet_of(&mut self, path: PathId, payload: &[u8]) -> Vec<u8> {
        let number = self.next_number(path);
        self.skip(path, 1);
        let id = self.victim_id(path).map_or_else(|| ConnectionId::from_u64(0), |(id, _)| id);
        let mut buffer = Vec::new();
        encode_short(&mut Writer::new(&mut buffer, 100), &id, false, number, 4);
        let offset = buffer.len() - 4;
        buffer.extend_from_slice(payload);
        self.to_victim.keys.seal(path, number, offset, &mut buffer);
        buffer
    }

    /// Makes a packet with an acknowledgement of arbitrary numbers of the victim, newest first.
    pub fn acknowledgement(&mut self, path: PathId, ranges: &[RangeInclusive<u64>]) -> Vec<u8> {
        let mut payload = Vec::new();
        let mut writer = Writer::new(&mut payload, 60_000);
        encode_path_ack(&mut writer, path, Duration::ZERO, 0, ranges.iter().cloned(), None);
        self.packet_of(path, &payload)
    }

    /// Delivers a datagram from any source to the victim.
    pub fn deliver(&mut self, from: SocketAddr, mut datagram: Vec<u8>) {
        let tuple = FourTuple::udp(self.local, from);
        let now = self.now;
        self.act(|victim| victim.handle_datagram(now, tuple, Ecn::NotEct, &mut datagram));
    }

    /// Sends a packet with these blocks on path 0, and returns the victim's response.
    pub fn send(&mut self, blocks: &[Block<'_>]) -> Vec<Sent> {
        let packet = self.packet(PathId::FIRST, blocks);
        self.deliver(self.source, packet);
        self.poll()
    }

    /// Acknowledges everything that was received on a path.
    pub fn acknowledge(&mut self, path: PathId) -> Vec<Sent> {
        let ranges = self.heard(path);
        if ranges.is_empty() {
            return Vec::new();
        }
        let packet = self.acknowledgement(path, &ranges);
        self.deliver(self.source, packet);
        self.poll()
    }

    /// Takes the packets that the victim has to send now.
    pub fn poll(&mut self) -> Vec<Sent> {
        // With enough room, so that the victim need not allocate.
        let (mut sent, mut buffer, now) = (Vec::new(), Vec::with_capacity(1 << 17), self.now);
        while let Some(transmit) = self.act(|victim| victim.poll_transmit(now, &mut buffer)) {
            for datagram in buffer.chunks(transmit.segment.max(1)) {
                let opened = self.from_victim.open(datagram, &mut self.to_victim);
                let (at, to) = (self.now, transmit.tuple.remote);
                sent.push(Sent { at, to, bytes: datagram.to_vec(), opened });
            }
        }
        self.absorb();
        sent
    }

    /// Lets time pass: timers fire, and what the victim sends is collected.
    pub fn run_for(&mut self, time: Duration) -> Vec<Sent> {
        let (until, mut sent) = (self.now + time, self.poll());
        while let Some(at) = self.victim.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            let now = self.now;
            self.act(|victim| victim.handle_timeout(now));
            sent.extend(self.poll());
        }
        self.now = until;
        sent
    }

    /// As [`run_for`](Self::run_for), with a forger that acknowledges what it receives, every few milliseconds.
    pub fn converse_for(&mut self, time: Duration) -> Vec<Sent> {
        let (until, mut sent) = (self.now + time, Vec::new());
        while self.now < until {
            let heard = self.run_for(WAY);
            let asks = |sent: &Sent| sent.count(|block| block.is_ack_eliciting()) > 0;
            if heard.iter().any(asks) {
                sent.extend(self.acknowledge(PathId::FIRST));
            }
            sent.extend(heard);
        }
        sent
    }
}

impl Direction {
    /// Decrypts the 1-RTT packet of a datagram, and learns from it; `other` is the opposite direction.
    fn open(&mut self, datagram: &[u8], other: &mut Self) -> Option<Opened> {
        let packets = keys::packets(datagram);
        let (HeaderForm::Short { destination }, offset, bytes) = packets.last()? else { return None };
        let path = self.ids.get(destination).map_or(PathId::FIRST, |(path, _)| *path);
        let expected = self.next.get(&path).copied().unwrap_or(0);
        let opened = self.keys.open(path, *offset, expected, bytes)?;
        self.ids.entry(*destination).or_insert((path, 0));
        self.next.insert(path, expected.max(opened.number + 1));
        self.seen.entry(path).or_default().insert(opened.number);
        for block in Blocks::new(&opened.payload).filter_map(Result::ok) {
            if let Block::NewCid(block) = block {
                other.ids.insert(block.id, (block.path, block.sequence));
                self.tokens.push(block.reset_token);
            }
        }
        Some(opened)
    }
}

fn learn(up: &mut Direction, down: &mut Direction, handshake_datagrams: &[(Side, Vec<u8>)]) {
    for (by, datagram) in handshake_datagrams {
        match by {
            Side::Client => up.open(datagram, down),
            Side::Server => down.open(datagram, up),
        };
    }
}

/// Carries everything that one end has to send to the other.
fn carry(
    now: Instant,
    side: Side,
    (from, of_from): (&mut Endpoint, Watch),
    (to, of_to): (&mut Endpoint, Watch),
    seen: &mut Vec<(Side, Vec<u8>)>,
) {
    let mut buffer = Vec::with_capacity(1 << 17);
    let (here, there) = match side {
        Side::Client => (CLIENT, SERVER),
        Side::Server => (SERVER, CLIENT),
    };
    let tuple = FourTuple::udp(local(there), here);
    loop {
        of_from(true);
        let transmit = from.poll_transmit(now, &mut buffer);
        of_from(false);
        let Some(transmit) = transmit else { return };
        for datagram in buffer.chunks(transmit.segment.max(1)) {
            let mut datagram = datagram.to_vec();
            seen.push((side, datagram.clone()));
            of_to(true);
            to.handle_datagram(now + WAY, tuple, Ecn::NotEct, &mut datagram);
            of_to(false);
        }
    }
}
