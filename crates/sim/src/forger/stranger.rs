//! A sender without keys: everything that anyone who knows the protocol can send.

use std::net::SocketAddr;
use std::sync::Arc;

use manyway_proto::{
    ConnectionConfig, ConnectionId, Endpoint, EndpointConfig, FourTuple, Instant, LocalCandidate, PathId,
    Rng, Role, Side,
};
use manyway_wire::Writer;
use manyway_wire::mmsp2::{Block, Blocks, HeaderForm, LongHeader, LongKind, Padding, patch_length};

use super::{CLIENT, Keys, SERVER, Secrets, keys, local, settings};

/// The server that such a sender meets: that of every [`Duel`](super::Duel).
fn server(config: &ConnectionConfig) -> Endpoint {
    let (_, server) = settings(config, &Arc::default());
    Endpoint::new(server, Rng::from_seed([2; 32]))
}

/// The first datagrams of a client that the server would accept, with their IDs.
///
/// # Panics
/// If a client cannot begin.
#[expect(clippy::expect_used, reason = "a failed beginning is a failed test")]
pub fn first_flight(number: u64, config: &ConnectionConfig) -> Vec<Vec<u8>> {
    let (client, _) = settings(config, &Arc::<Secrets>::default());
    let mut seed = [9; 32];
    seed.iter_mut().zip(number.to_be_bytes()).for_each(|(to, from)| *to = from);
    let mut endpoint = Endpoint::new(EndpointConfig::default(), Rng::from_seed(seed));
    let locals = [LocalCandidate { address: local(CLIENT), role: Role::Primary }];
    let now = Instant::from_nanos(0);
    endpoint.connect(now, &client, &locals, &[SERVER]).expect("the addresses fit each other");
    let (mut flight, mut buffer) = (Vec::new(), Vec::new());
    while endpoint.poll_transmit(now, &mut buffer).is_some() {
        flight.push(buffer.clone());
    }
    flight
}

/// Writes Initial packets around one real `ClientHello`, as cheaply as an attacker can.
#[derive(Debug)]
pub struct Stranger {
    hello: Vec<u8>,
}

impl Default for Stranger {
    fn default() -> Self {
        Self::new()
    }
}

impl Stranger {
    /// Takes a `ClientHello` from a real client.
    pub fn new() -> Self {
        let flight = first_flight(0, &ConnectionConfig::default());
        let packets = flight.iter().flat_map(|datagram| keys::packets(datagram));
        let payloads = packets.filter_map(|(form, offset, bytes)| {
            let HeaderForm::Long { destination, .. } = form else { return None };
            Keys::initial(&destination, Side::Client).open(PathId::FIRST, offset, 0, bytes)
        });
        let mut hello = Vec::new();
        for opened in payloads {
            for block in Blocks::new(&opened.payload).filter_map(Result::ok) {
                let Block::Crypto(bytes) = block else { continue };
                hello.extend_from_slice(bytes.data);
            }
        }
        Self { hello }
    }

    /// The `ClientHello`, as far as it fits into one packet.
    pub fn hello(&self) -> &[u8] {
        self.hello.get(..self.hello.len().min(1000)).unwrap_or_default()
    }

    /// A server for unknown senders.
    pub fn server(config: &ConnectionConfig) -> Endpoint {
        server(config)
    }

    /// Its address for unknown senders.
    pub fn tuple(from: SocketAddr) -> FourTuple {
        FourTuple::udp(local(SERVER), from)
    }

    /// The ID number `n` of an unknown sender.
    pub fn id(number: u64) -> ConnectionId {
        ConnectionId::from_u64(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// An Initial packet in a datagram of 1200 bytes.
    pub fn open_packet(ids: (ConnectionId, ConnectionId), number: u64, blocks: &[Block<'_>]) -> Vec<u8> {
        let header = LongHeader { kind: LongKind::Initial, destination: ids.0, source: ids.1 };
        let mut buffer = Vec::new();
        let mut writer = Writer::new(&mut buffer, 1200 - 16);
        let field = header.encode(&mut writer, number, 4);
        let offset = writer.position() - 4;
        for block in blocks {
            block.encode(&mut writer);
        }
        let left = writer.remaining();
        Padding { length: left }.encode(&mut writer);
        let end = buffer.len() + 16;
        patch_length(&mut buffer, field, end);
        Keys::initial(&ids.0, Side::Client).seal(PathId::FIRST, number, offset, &mut buffer);
        buffer
    }

    /// The blocks of the server's open answer to an unknown sender.
    pub fn open_answer(original_destination: &ConnectionId, datagram: &[u8]) -> Option<super::Opened> {
        let packets = keys::packets(datagram);
        let (HeaderForm::Long { .. }, offset, bytes) = packets.first()? else { return None };
        Keys::initial(original_destination, Side::Server).open(PathId::FIRST, *offset, 0, bytes)
    }
}
