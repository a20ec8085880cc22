//! Connections of the simulator, as captured at the server.

use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use manyway_inspect::capture::{self, Item};
use manyway_inspect::{Inspector, KeyLog, Packet};
use manyway_proto::{
    ByteCount, ConnectionConfig, ConnectionError, Ecn, FourTuple, IdLayout, Instant, LocalAddress, StreamId,
    Transmit,
};
use manyway_sim::scenario::{MINUTE, MS, SECOND, mbit};
use manyway_sim::traffic::Streams;
use manyway_sim::{EndpointPeer, Node, Pair, PairBuilder, Pattern, Peer, Side};

/// A datagram at the server.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) at: Duration,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) payload: Vec<u8>,
}

/// An endpoint whose datagrams are captured.
#[derive(Debug)]
pub(crate) struct Tap {
    pub(crate) inner: EndpointPeer,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Tap {
    fn note(&self, now: Instant, (from, to): (SocketAddr, SocketAddr), payload: &[u8]) {
        let at = Duration::from_nanos(now.as_nanos());
        self.seen.lock().unwrap().push(Seen { at, from, to, payload: payload.to_vec() });
    }
}

impl Node for Tap {
    fn handle_datagram(&mut self, now: Instant, tuple: FourTuple, ecn: Ecn, datagram: &mut [u8]) {
        self.note(now, (tuple.remote, tuple.local.address), datagram);
        self.inner.handle_datagram(now, tuple, ecn, datagram);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let transmit = self.inner.poll_transmit(now, buffer)?;
        for datagram in buffer[..transmit.length].chunks(transmit.segment) {
            self.note(now, (transmit.tuple.local.address, transmit.tuple.remote), datagram);
        }
        Some(transmit)
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
    }

    fn handle_send_error(&mut self, now: Instant, local: LocalAddress) {
        self.inner.handle_send_error(now, local);
    }
}

impl Peer for Tap {
    fn connect(
        &mut self,
        now: Instant,
        locals: &[LocalAddress],
        remotes: &[SocketAddr],
    ) -> Result<(), String> {
        self.inner.connect(now, locals, remotes)
    }

    fn absorb_events(&mut self, now: Instant) {
        self.inner.absorb_events(now);
    }

    fn streams(&mut self) -> Option<&mut dyn Streams> {
        self.inner.streams()
    }

    fn ended(&self) -> Option<&ConnectionError> {
        self.inner.ended()
    }

    fn figures(&self, now: Instant, out: &mut Vec<manyway_sim::PathFigures>) {
        self.inner.figures(now, out);
    }

    fn set_addresses(&mut self, now: Instant, locals: &[LocalAddress]) {
        self.inner.set_addresses(now, locals);
    }
}

/// Records secrets in the format of `SSLKEYLOGFILE`.
#[derive(Debug, Default)]
pub(crate) struct Secrets(Mutex<String>);

impl rustls::KeyLog for Secrets {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let line = format!("{label} {} {}\n", hex(client_random), hex(secret));
        self.0.lock().unwrap().push_str(&line);
    }
}

/// The capture of a connection, and its secrets.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) seen: Vec<Seen>,
    pub(crate) key_log: String,
    /// What the client wrote to its first stream.
    pub(crate) written: Pattern,
}

/// A connection over two paths that carries this much from the client to the server, with a key update every 100
/// packets, and is closed.
pub(crate) fn connection(seed: u64, total: ByteCount) -> Recorded {
    connection_with_ids(seed, total, IdLayout::default())
}

/// The same, with this form of the server's connection IDs.
pub(crate) fn connection_with_ids(seed: u64, total: ByteCount, ids: IdLayout) -> Recorded {
    let mut config = ConnectionConfig::default();
    config.key_limits.update_after_packets = 100;
    let config = Arc::new(config);
    let (secrets, seen) = (Arc::new(Secrets::default()), Arc::new(Mutex::new(Vec::new())));
    let builder = PairBuilder::new().seed(seed).path(mbit(20), 10 * MS).path(mbit(20), 15 * MS);
    let mut pair: Pair<Tap> = builder.build(
        |rng| {
            let mut inner = EndpointPeer::client(Arc::clone(&config), rng);
            inner.set_key_log(secrets.clone());
            Tap { inner, seen: Arc::default() }
        },
        |mut rng| {
            let inner = EndpointPeer::server(Arc::clone(&config), rng.fork());
            Tap { inner: inner.configured(rng, |config| config.ids = ids), seen: Arc::clone(&seen) }
        },
    );
    pair.connect(10 * SECOND).unwrap();
    pair.transfer(Side::Client, total, MINUTE).unwrap();
    let now = pair.now();
    let connection = pair.peer(Side::Client).unwrap().inner.connection().unwrap();
    connection.close(now, 0, "done");
    pair.run_for(SECOND).unwrap();
    let seen = seen.lock().unwrap().clone();
    let key_log = secrets.0.lock().unwrap().clone();
    let written = Pattern::new(pair.host(Side::Client), StreamId::new(Side::Client, 0));
    Recorded { seen, key_log, written }
}

/// The IP packet around a datagram.
pub(crate) fn ip_packet(seen: &Seen) -> Vec<u8> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (seen.from.ip(), seen.to.ip()) else { panic!("IPv4 only") };
    let length = |headers: usize| u16::try_from(headers + seen.payload.len()).unwrap().to_be_bytes();
    let mut packet = vec![0x45, 0];
    packet.extend(length(28));
    packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(seen.from.port().to_be_bytes());
    packet.extend(seen.to.port().to_be_bytes());
    packet.extend(length(8));
    packet.extend([0, 0]);
    packet.extend(&seen.payload);
    packet
}

/// A pcap file of raw IP packets.
pub(crate) fn pcap(seen: &[Seen]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        file.extend(word.to_le_bytes());
    }
    for datagram in seen {
        let packet = ip_packet(datagram);
        let seconds = u32::try_from(datagram.at.as_secs()).unwrap();
        let length = u32::try_from(packet.len()).unwrap();
        for word in [seconds, datagram.at.subsec_micros(), length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

/// A pcapng file of raw IP packets, with a key log inside.
pub(crate) fn pcapng(seen: &[Seen], key_log: &str) -> Vec<u8> {
    let mut file = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let padded = body.len().next_multiple_of(4);
        let length = u32::try_from(padded + 12).unwrap().to_le_bytes();
        file.extend(kind.to_le_bytes());
        file.extend(length);
        file.extend(body);
        file.resize(file.len() + padded - body.len(), 0);
        file.extend(length);
    };
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    block(1, &words(&[101, 0]));
    let secrets = words(&[0x544c_534b, u32::try_from(key_log.len()).unwrap()]);
    block(10, &[&secrets[..], key_log.as_bytes()].concat());
    for datagram in seen {
        let packet = ip_packet(datagram);
        let micros = u64::try_from(datagram.at.as_micros()).unwrap();
        let (high, low) =
            (u32::try_from(micros >> 32).unwrap(), u32::try_from(micros & 0xffff_ffff).unwrap());
        let length = u32::try_from(packet.len()).unwrap();
        block(6, &[&words(&[0, high, low, length, length])[..], &packet].concat());
    }
    file
}

/// All packets of a capture.
pub(crate) fn inspect(file: &[u8], key_log: &str) -> Vec<Packet> {
    let mut log = KeyLog::default();
    log.add(key_log.as_bytes());
    let mut inspector = Inspector::new(log);
    let mut packets = Vec::new();
    let read = capture::read(file, &mut |item| {
        match item {
            Item::Datagram(datagram) => packets.extend(inspector.datagram(datagram.payload)),
            Item::KeyLog(text) => {
                inspector.add_keys(text);
            }
            Item::Skipped { .. } | _ => {}
        }
        ControlFlow::Continue(())
    });
    // Truncated and damaged files are read as far as possible.
    drop(read);
    packets
}
