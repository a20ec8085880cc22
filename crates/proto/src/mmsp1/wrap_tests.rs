//! The own TSEQs wrap while a connection sends: with losses on both sides of the wrap (spec 3.31).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use manyway_wire::Writer;
use manyway_wire::mmsp1::{Block, HEADER_LEN, Header, Info, Opening, Packet, Tag, Tseq, encode_sack, seal};

use super::{PacketArrival, Start};
use crate::connection::Connection;
use crate::path::InterfaceMtus;
use crate::{ConnectionConfig, FourTuple, Instant, LocalAddress, MessageOptions, Rng, SealJobs, StreamId};

/// Three TSEQs before the wrap.
const INITIAL: Tseq = Tseq(u32::MAX - 2);
const MESSAGES: u32 = 12;

/// A connection and the time.
struct Sender {
    connection: Connection,
    tuple: FourTuple,
    now: Instant,
}

impl Sender {
    fn new() -> Self {
        let local = LocalAddress { interface: 1, address: ([10, 0, 0, 1], 4433).into() };
        let tuple = FourTuple::udp(local, ([10, 0, 0, 2], 4000).into());
        let opening = |tag, tseq| Opening { tag: Tag(tag), window: 100_000, outgoing: 4, incoming: 4, tseq };
        let info = Info {
            key: 0,
            made_at_millis: 0,
            lifetime: Duration::ZERO,
            client: opening(7, Tseq(1000)),
            server: opening(9, INITIAL),
            ports: [2000, 5001],
            address: tuple.remote,
            ipv4: &[],
            ipv6: &[],
        };
        let now = Instant::from_nanos(1_000_000_000);
        let config = Arc::new(ConnectionConfig::mmsp1());
        let start = Start { now, config, interfaces: InterfaceMtus::default(), rng: Rng::from_seed([3; 32]) };
        Self { connection: Connection::mmsp1_server(start, tuple, &info), tuple, now }
    }

    /// The TSEQs of all DATA that it sends within this time.
    fn sent(&mut self, within: Duration) -> Vec<Tseq> {
        let (mut tseqs, end) = (Vec::new(), self.now + within);
        loop {
            let (mut buffer, mut jobs) = (Vec::new(), SealJobs::default());
            while let Some(transmit) = self.connection.poll_transmit(self.now, &mut buffer, &mut jobs) {
                tseqs.extend(buffer.chunks(transmit.segment).flat_map(tseqs_in));
                buffer.clear();
            }
            match self.connection.poll_timeout().filter(|at| *at <= end) {
                Some(at) => {
                    self.now = at.max(self.now);
                    self.connection.handle_timeout(self.now);
                }
                None => {
                    self.now = end;
                    return tseqs;
                }
            }
        }
    }

    fn sack(&mut self, ack: Tseq, ranges: &[(u16, u16)], duplicates: &[Tseq]) {
        let header = Header { source_port: 2000, destination_port: 5001, connection: Tag(9) };
        let mut datagram = Vec::new();
        header.encode(&mut Writer::new(&mut datagram, HEADER_LEN));
        let ranges = ranges.iter().map(|(start, end)| *start..=*end);
        let mut writer = Writer::new(&mut datagram, 1200);
        encode_sack(&mut writer, ack, 100_000, ranges, duplicates.iter().copied()).unwrap();
        seal(&mut datagram);
        let packet = Packet::decode(&datagram).unwrap();
        let arrival = PacketArrival { tuple: self.tuple, packet, size: datagram.len(), has_own_info: false };
        self.connection.handle_packet(self.now, &arrival);
    }

    fn send_messages(&mut self) -> StreamId {
        let stream = self.connection.open_stream().unwrap();
        for number in 0..MESSAGES {
            let message = vec![number.to_be_bytes()[3]; 1000];
            let options = MessageOptions::default();
            self.connection.send_message(self.now, stream, message.into(), options).unwrap();
        }
        stream
    }
}

/// The TSEQs of DATA in a packet.
fn tseqs_in(datagram: &[u8]) -> Vec<Tseq> {
    let packet = Packet::decode(datagram).unwrap();
    let blocks = packet.blocks();
    blocks
        .filter_map(|block| if let Ok(Block::Data(data)) = block { Some(data.tseq) } else { None })
        .collect()
}

// spec 3.31
#[test]
fn a_sender_whose_tseqs_wrap_repeats_what_was_lost_on_both_sides_and_nothing_else() {
    let mut sender = Sender::new();
    sender.send_messages();
    let first: Vec<u32> = sender.sent(Duration::from_millis(50)).iter().map(|tseq| tseq.0).collect();
    let expected: Vec<u32> = (0..MESSAGES).map(|ahead| INITIAL.plus(ahead).0).collect();
    assert_eq!(first[..], expected[..first.len()], "they count through the wrap");
    assert!(first.contains(&u32::MAX) && first.contains(&0) && first.len() >= 8, "{first:?}");
    // The second block, before the wrap, and the fifth, behind it, are lost.
    let last = u16::try_from(first.len()).unwrap() - 1;
    sender.sack(INITIAL, &[(2, 3), (5, last)], &[]);
    let mut again: BTreeSet<u32> =
        sender.sent(Duration::from_millis(300)).iter().map(|tseq| tseq.0).collect();
    let lost = BTreeSet::from([INITIAL.plus(1).0, INITIAL.plus(4).0]);
    again.retain(|tseq| first.contains(tseq));
    assert_eq!(again, lost);
    // An old SACK of before the wrap takes nothing back, and one of everything ends it.
    sender.sack(INITIAL.minus(1), &[], &[]);
    sender.sack(INITIAL.plus(MESSAGES - 1), &[], &[INITIAL.plus(1), INITIAL.plus(4)]);
    assert_eq!(sender.connection.unacknowledged().get(), 0);
    assert_eq!(sender.connection.statistics().duplicate_bytes_sent.get(), 2000);
    assert_eq!(sender.sent(Duration::from_millis(300)), []);
    assert!(sender.connection.is_established());
}
