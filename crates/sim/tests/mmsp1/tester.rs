//! One endpoint of the product, and a peer that a test plays by hand: packet by packet, at any time.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use manyway_proto::{
    AddressFilter, Connection, ConnectionConfig, ConnectionError, ConnectionHandle, Ecn, Endpoint,
    EndpointConfig, Event, FourTuple, Instant, LocalAddress, LocalCandidate, Message, MessageOptions,
    MessageOutcome, Mmsp1Server, Rng, Role, StreamId,
};
use manyway_wire::mmsp1::{
    Block, Data, Fragment, Header, Opening, Packet, Ping, ProbeAck, Sseq, Syn, SynAck, Tag, Tseq,
    encode_sack, seal,
};
use manyway_wire::{DecodeError, Writer};

pub(crate) const PEER: &str = "10.0.0.2:4000";
/// In this time a sender has sent its first congestion window.
/// IGNORE
const PACING: Duration = Duration::from_millis(20);
const OWN: &str = "10.0.0.1:4433";

/// A packet that the endpoint sent.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) tuple: FourTuple,
    pub(crate) bytes: Vec<u8>,
}

impl Sent {
    pub(crate) fn packet(&self) -> Packet<'_> {
        Packet::decode(&self.bytes).unwrap()
    }

    pub(crate) fn header(&self) -> Header {
        self.packet().header
    }

    pub(crate) fn blocks(&self) -> Vec<Block<'_>> {
        self.packet().blocks().collect::<Result<_, DecodeError>>().unwrap()
    }

    /// The names of the blocks.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.blocks().iter().map(Block::name).collect()
    }

    /// The codes of RST or ERROR.
    pub(crate) fn codes(&self) -> Vec<u16> {
        let codes = |block: &Block<'_>| -> Vec<u16> {
            if let Block::Rst(rst) = block {
                rst.causes.iter().map(|cause| cause.code.0).collect()
            } else if let Block::Error(error) = block {
                error.causes.iter().map(|cause| cause.code.0).collect()
            } else {
                Vec::new()
            }
        };
        self.blocks().iter().flat_map(codes).collect()
    }
}

/// What a SACK of the endpoint says; TSEQs are counted from the peer's first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// How many blocks arrived before the first gap.
    pub(crate) blocks: u32,
    pub(crate) window: u32,
    pub(crate) ranges: Vec<(u16, u16)>,
    pub(crate) duplicates: Vec<u32>,
}

/// A DATA block that the endpoint sent; its TSEQ is counted from the first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnData {
    pub(crate) tseq: u32,
    pub(crate) stream: u16,
    pub(crate) sseq: u16,
    pub(crate) protocol: u32,
    pub(crate) unordered: bool,
    pub(crate) fragment: Fragment,
    pub(crate) data: Vec<u8>,
}

impl OwnData {
    fn new(block: &Data<'_>, first: Tseq) -> Self {
        let Data { tseq, stream, sseq, protocol, unordered, fragment, data } = *block;
        Self {
            tseq: tseq.since(first),
            stream,
            sseq: sseq.0,
            protocol,
            unordered,
            fragment,
            data: data.to_vec(),
        }
    }
}

/// An endpoint and the peer.
pub(crate) struct Tester {
    pub(crate) endpoint: Endpoint,
    pub(crate) now: Instant,
    pub(crate) handle: Option<ConnectionHandle>,
    pub(crate) events: Vec<Event>,
    own: LocalAddress,
    /// What the peer says of itself, and what the endpoint said.
    pub(crate) peer: Opening,
    pub(crate) told: Option<Opening>,
    /// The ports in the header of the peer's packets.
    pub(crate) ports: [u16; 2],
    sent: VecDeque<Sent>,
}

/// What a peer says of itself by default.
pub(crate) fn opening(tag: u32) -> Opening {
    Opening { tag: Tag(tag), window: 100_000, outgoing: 10, incoming: 10, tseq: Tseq(1000) }
}

/// A packet under a header.
pub(crate) fn packet(header: Header, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, 9000);
    header.encode(&mut writer);
    write(&mut writer);
    seal(&mut bytes);
    bytes
}

impl Tester {
    fn new(config: EndpointConfig) -> Self {
        let own = LocalAddress { interface: 1, address: OWN.parse().unwrap() };
        Self {
            endpoint: Endpoint::new(config, Rng::from_seed([5; 32])),
            now: Instant::from_nanos(1_000_000_000),
            handle: None,
            events: Vec::new(),
            own,
            peer: opening(77),
            told: None,
            ports: [2000, 5001],
            sent: VecDeque::new(),
        }
    }

    /// A server that takes MMSP/1 from any address.
    pub(crate) fn server(config: ConnectionConfig) -> Self {
        Self::server_for(config, AddressFilter::all())
    }

    pub(crate) fn server_for(config: ConnectionConfig, from: AddressFilter) -> Self {
        let mut endpoint = EndpointConfig::default();
        endpoint.mmsp1 = Some(Mmsp1Server { connection: Arc::new(config), from });
        Self::new(endpoint)
    }

    /// A client that connects to the peer.
    pub(crate) fn client(config: ConnectionConfig) -> Self {
        Self::client_to(config, &[PEER])
    }

    pub(crate) fn client_to(config: ConnectionConfig, servers: &[&str]) -> Self {
        let mut tester = Self::new(EndpointConfig::default());
        let local = LocalCandidate { address: tester.own, role: Role::Primary };
        let servers: Vec<SocketAddr> = servers.iter().map(|server| server.parse().unwrap()).collect();
        let config = Arc::new(config);
        let handle = tester.endpoint.connect_mmsp1(tester.now, &config, &[local], &servers).unwrap();
        tester.handle = Some(handle);
        tester.poll();
        tester
    }

    /// A server with a connection of the peer.
    pub(crate) fn accepted() -> Self {
        Self::accepted_with(ConnectionConfig::mmsp1())
    }

    pub(crate) fn accepted_with(config: ConnectionConfig) -> Self {
        let mut tester = Self::server(config);
        tester.open();
        tester
    }

    /// A server with a connection of a peer that says this of itself.
    pub(crate) fn accepted_from(peer: Opening) -> Self {
        let mut tester = Self::server(ConnectionConfig::mmsp1());
        tester.peer = peer;
        tester.open();
        tester
    }

    /// A client with a connection to the peer.
    pub(crate) fn connected() -> Self {
        let mut tester = Self::client(ConnectionConfig::mmsp1());
        let syn = tester.take();
        assert_eq!(syn.names(), ["SYN"]);
        tester.answer_syn(&syn, PEER);
        let ping = tester.take();
        assert_eq!(ping.names(), ["PING"]);
        tester.deliver(|w| Block::Pong.encode(w));
        assert!(tester.is_established());
        tester.discard();
        tester
    }

    /// Answers a SYN of the endpoint from this address.
    pub(crate) fn answer_syn(&mut self, syn: &Sent, from: &str) {
        let header = syn.header();
        let [Block::Syn(asked)] = syn.blocks()[..] else { panic!("{:?}", syn.names()) };
        self.told = Some(asked.opening);
        self.ports = [header.destination_port, header.source_port];
        let (opening, addresses) = (self.peer, manyway_wire::mmsp1::Addresses::default());
        let answer = SynAck { opening, addresses, info: b"whatever the server likes", unrecognised: None };
        self.deliver_from(from, self.header(), |w| answer.encode(w));
    }

    /// SYN, and what answers it.
    pub(crate) fn ask(&mut self) -> Sent {
        let header = Header { connection: self.peer.tag, ..self.header_with(self.peer.tag) };
        let syn = Syn {
            opening: self.peer,
            addresses: manyway_wire::mmsp1::Addresses::default(),
            unrecognised: None,
        };
        self.deliver_from(PEER, header, |w| syn.encode(w));
        self.take()
    }

    /// The handshake as a client.
    pub(crate) fn open(&mut self) {
        let answer = self.ask();
        let info = self.note_syn_ack(&answer);
        self.ping(&info);
        let pong = self.take();
        assert_eq!(pong.names(), ["PONG"]);
        assert!(self.is_established());
        // After the handshake a PROBE measures the RTT.
        let probe = self.take();
        assert_eq!(probe.names(), ["PROBE"]);
        self.now += Duration::from_millis(20);
        self.answer_probe(&probe);
        self.discard();
    }

    /// Notes what the endpoint says of itself in a SYN-ACK, and returns its INFO.
    pub(crate) fn note_syn_ack(&mut self, answer: &Sent) -> Vec<u8> {
        assert_eq!(answer.header().connection, self.peer.tag);
        let [Block::SynAck(syn_ack)] = answer.blocks()[..] else { panic!("{:?}", answer.names()) };
        self.told = Some(syn_ack.opening);
        syn_ack.info.to_vec()
    }

    /// Sends PING with this INFO.
    pub(crate) fn ping(&mut self, info: &[u8]) {
        self.deliver(|w| Ping { info, unrecognised: None }.encode(w));
    }

    /// The header of the peer's packets for the connection.
    pub(crate) fn header(&self) -> Header {
        self.header_with(self.told.map_or(Tag(0), |told| told.tag))
    }

    pub(crate) fn header_with(&self, connection: Tag) -> Header {
        Header { source_port: self.ports[0], destination_port: self.ports[1], connection }
    }

    /// Delivers a packet of the peer for the connection.
    pub(crate) fn deliver(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        self.deliver_from(PEER, self.header(), write);
    }

    pub(crate) fn deliver_from(&mut self, from: &str, header: Header, write: impl FnOnce(&mut Writer<'_>)) {
        self.deliver_bytes(from, packet(header, write));
    }

    pub(crate) fn deliver_bytes(&mut self, from: &str, mut bytes: Vec<u8>) {
        let tuple = FourTuple::udp(self.own, from.parse().unwrap());
        self.endpoint.handle_datagram(self.now, tuple, Ecn::NotEct, &mut bytes);
        self.poll();
    }

    /// DATA of the peer: one whole ordered message on a stream.
    pub(crate) fn data(&self, tseq: u32, stream: u16, sseq: u16, data: &'static [u8]) -> Data<'static> {
        Data {
            tseq: self.peer.tseq.plus(tseq),
            stream,
            sseq: Sseq(sseq),
            protocol: 0,
            unordered: false,
            fragment: Fragment::Whole,
            data,
        }
    }

    /// Sends blocks of DATA, all in one packet.
    pub(crate) fn send(&mut self, blocks: &[Data<'_>]) {
        self.deliver(|w| blocks.iter().for_each(|block| block.encode(w)));
    }

    /// Sends a packet for the connection with exactly these bytes behind its header.
    pub(crate) fn send_raw(&mut self, payload: &[u8]) {
        self.deliver(|w| w.bytes(payload));
    }

    /// Acknowledges everything of the endpoint up to the TSEQ with this distance from the initial one.
    pub(crate) fn sack(&mut self, upto: u32, window: u32) {
        let ack = self.told.unwrap().tseq.plus(upto);
        self.deliver(|w| {
            encode_sack(w, ack, window, std::iter::empty(), std::iter::empty());
        });
    }

    /// The same, and the ranges of distances beyond it.
    pub(crate) fn sack_ranges(&mut self, blocks: u32, ranges: &[(u16, u16)], window: u32) {
        let ack = self.told.unwrap().tseq.plus(blocks).minus(1);
        let ranges = ranges.iter().map(|(start, end)| *start..=*end);
        self.deliver(|w| {
            encode_sack(w, ack, window, ranges, std::iter::empty());
        });
    }

    /// Answers a PROBE as a peer does that works.
    pub(crate) fn answer_probe(&mut self, sent: &Sent) {
        let header = self.header();
        for block in sent.blocks() {
            if let Block::Probe(probe) = block {
                let data = manyway_wire::mmsp1::ProbeData { nonce: 9, mac: 9, ..probe.data };
                let answer = ProbeAck { echo: probe.data, data, unrecognised: None };
                self.deliver_from(&sent.tuple.remote.to_string(), header, |w| answer.encode(w));
            }
        }
    }

    /// Lets time pass, in steps of what is due.
    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.endpoint.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.endpoint.handle_timeout(self.now);
            self.poll();
        }
        self.now = end;
        self.poll();
    }

    fn poll(&mut self) {
        let mut buffer = Vec::new();
        loop {
            while let Some(transmit) = self.endpoint.poll_transmit(self.now, &mut buffer) {
                for bytes in buffer.chunks(transmit.segment) {
                    self.sent.push_back(Sent { tuple: transmit.tuple, bytes: bytes.to_vec() });
                }
            }
            let Some((handle, event)) = self.endpoint.poll_event() else { break };
            self.handle.get_or_insert(handle);
            self.events.push(event);
        }
    }

    /// The next packet that the endpoint sent.
    pub(crate) fn take(&mut self) -> Sent {
        self.poll();
        self.sent.pop_front().unwrap()
    }

    /// All packets that the endpoint sent.
    pub(crate) fn take_all(&mut self) -> Vec<Sent> {
        self.poll();
        self.sent.drain(..).collect()
    }

    /// The names of the blocks of all packets that the endpoint sent, but for PROBE.
    pub(crate) fn take_names(&mut self) -> Vec<&'static str> {
        let sent = self.take_all();
        sent.iter().flat_map(Sent::names).filter(|name| *name != "PROBE").collect()
    }

    /// What the SACKs say that the endpoint sent. Everything else is dropped.
    pub(crate) fn take_sacks(&mut self) -> Vec<Acknowledged> {
        let first = self.peer.tseq;
        let sent = self.take_all();
        let blocks = sent.iter().flat_map(Sent::blocks);
        blocks
            .filter_map(|block| if let Block::Sack(sack) = block { Some(sack) } else { None })
            .map(|sack| Acknowledged {
                blocks: sack.ack.plus(1).since(first),
                window: sack.window,
                ranges: sack.ranges.offsets().map(|range| (*range.start(), *range.end())).collect(),
                duplicates: sack.duplicates.iter().map(|tseq| tseq.since(first)).collect(),
            })
            .collect()
    }

    /// Waits for what is paced, and takes the DATA that the endpoint sent, packet by packet. Everything else is dropped.
    pub(crate) fn take_data(&mut self) -> Vec<Vec<OwnData>> {
        self.poll();
        self.run_for(PACING);
        self.take_data_so_far()
    }

    /// The same without waiting.
    pub(crate) fn take_data_so_far(&mut self) -> Vec<Vec<OwnData>> {
        let first = self.told.unwrap().tseq;
        let sent = self.take_all();
        let in_packet = |sent: &Sent| {
            let blocks = sent.blocks().into_iter();
            blocks
                .filter_map(|block| {
                    if let Block::Data(data) = block { Some(OwnData::new(&data, first)) } else { None }
                })
                .collect()
        };
        sent.iter().map(in_packet).filter(|blocks: &Vec<OwnData>| !blocks.is_empty()).collect()
    }

    /// The messages that the application receives now, on all streams, with the stream of each.
    pub(crate) fn messages(&mut self) -> Vec<(u64, Message)> {
        while self.connection().accept_stream().is_some() {}
        self.poll();
        let streams: Vec<StreamId> = (0..u64::from(self.peer.outgoing)).map(StreamId).collect();
        let mut found = Vec::new();
        for stream in streams {
            while let Ok(MessageOutcome::Message(message)) = self.connection().receive_message(stream) {
                found.push((stream.0, message));
            }
        }
        self.poll();
        found
    }

    /// The same without everything but the content.
    pub(crate) fn texts(&mut self) -> Vec<String> {
        let text = |(_, message): (u64, Message)| String::from_utf8(message.data.to_vec()).unwrap();
        self.messages().into_iter().map(text).collect()
    }

    /// The application opens a stream.
    pub(crate) fn open_stream(&mut self) -> StreamId {
        self.connection().open_stream().unwrap()
    }

    /// The application sends a message.
    pub(crate) fn send_message(&mut self, stream: StreamId, data: &[u8], options: MessageOptions) {
        let (now, data) = (self.now, bytes::Bytes::copy_from_slice(data));
        self.connection().send_message(now, stream, data, options).unwrap();
        self.poll();
    }

    pub(crate) fn discard(&mut self) {
        self.take_all();
    }

    pub(crate) fn connection(&mut self) -> &mut Connection {
        self.endpoint.connection(self.handle.unwrap()).unwrap()
    }

    pub(crate) fn is_established(&mut self) -> bool {
        self.handle
            .and_then(|handle| self.endpoint.connection(handle))
            .is_some_and(|found| found.is_established())
    }

    /// How the connection ended.
    pub(crate) fn ended(&self) -> Option<&ConnectionError> {
        self.events.iter().find_map(|event| if let Event::Closed(error) = event { Some(error) } else { None })
    }
}
