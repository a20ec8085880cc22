//! Generators for every block and for the parameters.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail as tests do")]

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use manyway_wire::mmsp2::{
    AddAddress, Block, Blocked, BlockedBy, Close, CloseStep, Crypto, EcnCounts, Liveness, MaxData,
    MaxStreamData, MaxStreams, MessageData, MessageId, MessagePlace, NewCid, Parameters, PathAvailability,
    PathClose, PathLimit, PathStatus, Ping, Probe, ProbeAck, ReceiveLimit, RemoveAddress, ResetStream,
    RetireCid, Skipped, StopSending, StreamData, Syn, SynAck, TcpConnections, encode_path_ack, encode_skip,
};
use manyway_wire::{ConnectionId, PathId, StreamId, VARINT_MAX, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

/// A block with the bytes it needs; [`Sample::block`] lends it.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    payload: Vec<u8>,
    block: fn(&[u8], Values) -> Block<'_>,
    values: Values,
}

/// Numbers and choices from which any block can be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Values {
    pub(crate) numbers: [u64; 3],
    pub(crate) path: PathId,
    pub(crate) address: SocketAddr,
    pub(crate) token: [u8; 16],
    pub(crate) choice: u8,
    pub(crate) duration: Duration,
}

impl Sample {
    pub(crate) fn block(&self) -> Block<'_> {
        (self.block)(&self.payload, self.values)
    }
}

/// Any block but PATH-ACK, which is made by [`any_ack`].
pub(crate) fn any_block() -> impl Strategy<Value = Sample> {
    (any_values(), vec(any::<u8>(), 0..300), proptest::sample::select(&MAKERS[..]))
        .prop_map(|(values, payload, block)| Sample { payload, block, values })
}

type Maker = fn(&[u8], Values) -> Block<'_>;

const MAKERS: [Maker; 28] = [
    |bytes, _| Block::Syn(Syn { info: bytes }),
    |bytes, _| Block::SynAck(SynAck { info: bytes }),
    |bytes, _| Block::Ping(Ping { info: bytes }),
    |_, _| Block::Pong,
    |_, v| Block::Probe(Probe { nonce: v.numbers[0] }),
    |_, v| Block::ProbeAck(ProbeAck { nonce: v.numbers[0], observed: v.address }),
    |bytes, v| Block::Crypto(Crypto { offset: v.numbers[0] / 2, data: bytes }),
    |bytes, v| {
        let stream = StreamId(v.numbers[1]);
        Block::Stream(StreamData { stream, offset: v.numbers[0] / 2, end: v.choice & 1 == 1, data: bytes })
    },
    |bytes, v| {
        let [number, stream, place] = v.numbers;
        let (message, bits) = (MessageId { number, unordered: v.choice & 2 == 2 }, place.to_le_bytes());
        let value = u32::from_le_bytes([bits[0], bits[1], bits[2], bits[3]]);
        let protocol = u32::from_le_bytes(v.token[..4].try_into().unwrap());
        let place = MessagePlace::new(if v.choice & 4 == 4 { 0 } else { value / 2 }, protocol);
        let (stream, end) = (StreamId(stream), v.choice & 1 == 1);
        Block::Message(MessageData { stream, message, place, end, data: bytes })
    },
    |_, v| Block::MaxData(MaxData { credit: v.numbers[0] }),
    |_, v| Block::MaxStreamData(MaxStreamData { stream: StreamId(v.numbers[0]), credit: v.numbers[1] }),
    |_, v| Block::MaxStreams(MaxStreams { count: v.numbers[0].min(MaxStreams::MAX) }),
    |_, v| {
        let [stream, code, final_size] = v.numbers;
        Block::ResetStream(ResetStream { stream: StreamId(stream), code, final_size })
    },
    |_, v| Block::StopSending(StopSending { stream: StreamId(v.numbers[0]), code: v.numbers[1] }),
    |_, v| {
        let [limit, stream, _] = v.numbers;
        let by = match v.choice % 3 {
            0 => BlockedBy::Connection { limit },
            1 => BlockedBy::Stream { stream: StreamId(stream), limit },
            _ => BlockedBy::Streams { limit },
        };
        Block::Blocked(Blocked { by })
    },
    |_, v| {
        let id = ConnectionId::from_slice(
            &[&v.numbers[2].to_be_bytes()[..], &v.token].concat()[..8 + usize::from(v.choice) % 13],
        )
        .unwrap();
        let (sequence, retire_prior_to) = (v.numbers[0], v.numbers[1].min(v.numbers[0]));
        Block::NewCid(NewCid { path: v.path, sequence, retire_prior_to, id, reset_token: v.token })
    },
    |_, v| Block::RetireCid(RetireCid { path: v.path, sequence: v.numbers[0] }),
    |_, v| {
        let [id, sequence, _] = v.numbers;
        let (priority, cost) = (v.choice, v.token[0]);
        Block::AddAddress(AddAddress { id, sequence, priority, cost, address: v.address })
    },
    |_, v| Block::RemoveAddress(RemoveAddress { id: v.numbers[0], sequence: v.numbers[1] }),
    |_, v| {
        let state = match v.choice % 4 {
            0 => PathAvailability::Available,
            1 => PathAvailability::Backup,
            2 => PathAvailability::Suspect,
            _ => PathAvailability::Dead,
        };
        let rate = (v.choice & 4 == 4).then_some(v.numbers[1]);
        Block::PathStatus(PathStatus { path: v.path, sequence: v.numbers[0], state, cost: v.token[0], rate })
    },
    |_, v| Block::PathClose(PathClose { path: v.path, code: v.numbers[0] }),
    |_, v| {
        Block::Liveness(match v.choice % 3 {
            0 => Liveness::Query { path: v.path },
            1 => Liveness::Answer { path: v.path, largest: None, age: Duration::ZERO },
            _ => Liveness::Answer { path: v.path, largest: Some(v.numbers[0]), age: v.duration },
        })
    },
    |_, v| {
        let rate = (v.choice & 1 == 1).then_some(v.numbers[1]);
        let window = if v.choice & 2 == 2 { ReceiveLimit::UNLIMITED } else { v.numbers[1] };
        Block::ReceiveLimit(ReceiveLimit { path: v.path, sequence: v.numbers[0], window, rate })
    },
    |_, _| Block::AckNow,
    |bytes, v| {
        let step = match v.choice % 4 {
            0 => CloseStep::Fin,
            1 => CloseStep::FinAck,
            2 => CloseStep::FinDone,
            _ => CloseStep::Abort,
        };
        Block::Close(Close { step, code: v.numbers[0], text: bytes })
    },
    |_, _| Block::Padding,
    |_, v| Block::PathLimit(PathLimit { limit: v.path.0 }),
    |_, v| Block::TcpConnections(TcpConnections { sequence: v.numbers[0], count: v.numbers[1] }),
];

/// Numbers of every length, up to the largest that a varint holds.
pub(crate) fn any_number() -> impl Strategy<Value = u64> {
    (0..=62_u32, any::<u64>()).prop_map(|(bits, value)| (value & VARINT_MAX) >> (62 - bits))
}

fn any_values() -> impl Strategy<Value = Values> {
    let numbers = [any_number(), any_number(), any_number()];
    (numbers, any::<u32>(), any_address(), any::<[u8; 16]>(), any::<u8>(), any_number()).prop_map(
        |(numbers, path, address, token, choice, micros)| {
            let duration = Duration::from_micros(micros);
            Values { numbers, path: PathId(path), address, token, choice, duration }
        },
    )
}

/// Any address, IPv4 and IPv6.
pub(crate) fn any_address() -> impl Strategy<Value = SocketAddr> {
    let v4 = any::<[u8; 4]>().prop_map(IpAddr::from);
    let v6 = any::<[u8; 16]>().prop_map(|octets| IpAddr::from(octets).to_canonical());
    (prop_oneof![v4, v6], any::<u16>()).prop_map(SocketAddr::from)
}

/// Any SKIP of 1 to 20 messages, as bytes, and what it names.
pub(crate) fn any_skip() -> impl Strategy<Value = (Vec<u8>, Vec<Skipped>)> {
    let messages = vec((any_number(), any::<u32>()), 1..20);
    (any_number(), any::<bool>(), messages).prop_map(|(stream, unordered, messages)| {
        let skipped: Vec<_> = messages.into_iter().map(|(number, reach)| Skipped { number, reach }).collect();
        let mut payload = Vec::new();
        let mut w = Writer::new(&mut payload, 1200);
        assert_eq!(encode_skip(&mut w, StreamId(stream), unordered, skipped.iter().copied()), skipped.len());
        (payload, skipped)
    })
}

/// The content of an acknowledgement; `ranges` newest first.
#[derive(Debug, Clone)]
pub(crate) struct Ack {
    pub(crate) path: PathId,
    pub(crate) delay: Duration,
    pub(crate) receive_time: u32,
    pub(crate) ranges: Vec<std::ops::RangeInclusive<u64>>,
    pub(crate) ecn: Option<EcnCounts>,
}

impl Ack {
    /// The block, in a packet with `room` bytes; and how many ranges went in.
    pub(crate) fn encoded(&self, room: usize) -> (usize, Vec<u8>) {
        let mut payload = Vec::new();
        let mut w = Writer::new(&mut payload, room);
        let ranges = self.ranges.iter().cloned();
        let written = encode_path_ack(&mut w, self.path, self.delay, self.receive_time, ranges, self.ecn);
        (written, payload)
    }
}

/// Any acknowledgement of 1 to 40 ranges.
pub(crate) fn any_ack() -> impl Strategy<Value = Ack> {
    let steps = vec((2..100_000_u64, 0..100_000_u64), 1..40);
    let counts = [any_number(), any_number(), any_number()];
    let ecn = proptest::option::of(counts.prop_map(|[ect0, ect1, ce]| EcnCounts { ect0, ect1, ce }));
    (any::<u32>(), any_number(), any::<u32>(), any_number(), steps, ecn).prop_map(
        |(path, micros, receive_time, base, steps, ecn)| {
            let mut start = base / 2;
            let mut ranges = Vec::new();
            for (gap, length) in steps {
                start += gap;
                ranges.push(start..=start + length);
                start += length;
            }
            ranges.reverse();
            let delay = Duration::from_micros(micros);
            Ack { path: PathId(path), delay, receive_time, ranges, ecn }
        },
    )
}

/// Any parameters within their ranges.
pub(crate) fn any_parameters() -> impl Strategy<Value = Parameters> {
    let ids = (proptest::option::of(any_id()), any_id());
    let windows = (any_number(), any_number(), 0..=MaxStreams::MAX);
    let times = (any_number(), 0..=16_000_000_u64);
    let others = (any::<u32>(), any::<u32>(), 1200..=u16::MAX);
    let tail = (proptest::option::of(any::<[u8; 16]>()), vec(any::<u8>(), 0..=64), any::<u32>());
    let tail = (tail, vec(any_address(), 0..=Parameters::MAX_RENDEZVOUS), any::<bool>());
    (ids, windows, times, others, tail).prop_map(|(ids, windows, times, others, tail)| Parameters {
        version: others.0,
        original_destination: ids.0,
        source: ids.1,
        idle_timeout: Duration::from_millis(times.0),
        initial_max_data: windows.0,
        initial_max_stream_data: windows.1,
        initial_max_streams: windows.2,
        path_limit: others.1,
        max_ack_delay: Duration::from_micros(times.1),
        max_datagram: others.2,
        reset_token: tail.0.0,
        application: tail.0.1,
        max_message: u64::from(tail.0.2),
        rendezvous: tail.1,
        rates: tail.2,
    })
}

/// Any id of 0 to 20 bytes.
pub(crate) fn any_issued_id() -> impl Strategy<Value = ConnectionId> {
    vec(any::<u8>(), 8..=20).prop_map(|bytes| ConnectionId::from_slice(&bytes).unwrap())
}

pub(crate) fn any_id() -> impl Strategy<Value = ConnectionId> {
    vec(any::<u8>(), 0..=20).prop_map(|bytes| ConnectionId::from_slice(&bytes).unwrap())
}

/// The blocks as the inside of a packet.
pub(crate) fn payload_of(samples: &[Sample]) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut w = Writer::new(&mut payload, 1 << 20);
    for sample in samples {
        sample.block().encode(&mut w);
    }
    payload
}
