//! Two sets of streams and a network that loses, copies and reorders packets.

mod credit;
mod disorder;
mod lives;
mod memory;
mod messages;
mod sources;
mod transfer;

use std::collections::BTreeMap;

use bytes::Bytes;
use manyway_wire::mmsp2::{Block, Blocks};
use manyway_wire::{Side, StreamId, Writer};

use super::StreamSet;
use crate::packet::content::Contents;
use crate::scheduler::Source;
use crate::stream::event::{ReadOutcome, StreamEvent};
use crate::stream::priority::ClassFilter;
use crate::{Instant, StreamConfig, Violation};

/// Size of a packet.
const PACKET: usize = 1_200;

/// One end and what its application saw.
struct Peer {
    streams: StreamSet,
    events: Vec<StreamEvent>,
    received: BTreeMap<StreamId, Vec<u8>>,
    ended: BTreeMap<StreamId, ReadOutcome>,
}

/// A packet in the network.
#[derive(Clone)]
struct Packet {
    payload: Vec<u8>,
    contents: Contents,
}

impl Peer {
    fn new(side: Side, own: &StreamConfig, other: &StreamConfig) -> Self {
        let mut streams = StreamSet::new(side, own);
        streams.set_peer_limits(
            other.connection_receive_window,
            other.stream_receive_window,
            other.peer_streams,
        );
        streams.set_peer_message_limit(other.message_limit());
        Self { streams, events: Vec::new(), received: BTreeMap::new(), ended: BTreeMap::new() }
    }

    /// Fills a packet with control blocks and data; `None` if there is nothing to send.
    fn packet(&mut self) -> Option<Packet> {
        self.packet_of(PACKET)
    }

    fn packet_of(&mut self, size: usize) -> Option<Packet> {
        self.packet_from(size, Source::Next)
    }

    fn packet_from(&mut self, size: usize, source: Source) -> Option<Packet> {
        let mut packet = Packet { payload: Vec::new(), contents: Contents::new() };
        let mut writer = Writer::new(&mut packet.payload, size);
        self.streams.write_control(&mut writer, &mut packet.contents);
        let promised =
            source == Source::Next && self.streams.wants_data(ClassFilter::All) && writer.remaining() > 100;
        let wrote = self.streams.write_data(&mut writer, &mut packet.contents, source, ClassFilter::All);
        assert!(wrote || !promised, "a set that wants to send can do so in an empty packet");
        assert!(packet.payload.len() <= size);
        (!packet.payload.is_empty()).then_some(packet)
    }

    fn take(&mut self, packet: &Packet) -> Result<(), Violation> {
        for block in Blocks::new(&packet.payload) {
            let Ok(block) = block else { panic!("what a peer writes can be read: {block:?}") };
            #[expect(clippy::wildcard_enum_match_arm, reason = "all others are wrong here")]
            match block {
                Block::Stream(block) => self.streams.on_stream(&block)?,
                Block::Message(block) => self.streams.on_message(&block)?,
                Block::Skip(block) => self.streams.on_skip(&block)?,
                Block::MaxData(block) => self.streams.on_max_data(&block),
                Block::MaxStreamData(block) => self.streams.on_max_stream_data(&block)?,
                Block::MaxStreams(block) => self.streams.on_max_streams(&block),
                Block::ResetStream(block) => self.streams.on_reset_stream(&block)?,
                Block::StopSending(block) => self.streams.on_stop_sending(&block)?,
                Block::Blocked(block) => self.streams.on_blocked(&block)?,
                other => panic!("no stream block: {other:?}"),
            }
        }
        while let Some(event) = self.streams.poll_event() {
            self.events.push(event);
        }
        Ok(())
    }

    fn settle(&mut self, packet: &Packet) {
        for content in &packet.contents {
            self.streams.on_delivered(content);
        }
    }

    fn lose(&mut self, packet: &Packet) {
        for content in &packet.contents {
            self.streams.on_lost(content);
        }
    }

    /// Accepts all streams; returns how many.
    fn accept_all(&mut self) -> usize {
        std::iter::from_fn(|| self.streams.accept()).count()
    }

    /// Reads until no data is left.
    fn read(&mut self, id: StreamId) {
        loop {
            match self.streams.read(id, 3_000) {
                Ok(ReadOutcome::Data(bytes)) => self.received.entry(id).or_default().extend(bytes),
                Ok(ReadOutcome::Blocked) | Err(_) => return,
                Ok(end) => {
                    self.ended.insert(id, end);
                }
            }
        }
    }

    fn write(&mut self, id: StreamId, data: &[u8]) -> usize {
        self.streams.write(id, Bytes::copy_from_slice(data)).unwrap()
    }

    fn saw(&mut self, event: StreamEvent) -> bool {
        while let Some(event) = self.streams.poll_event() {
            self.events.push(event);
        }
        self.events.contains(&event)
    }
}

/// A client and a server with equal limits.
fn pair(config: &StreamConfig) -> (Peer, Peer) {
    (Peer::new(Side::Client, config, config), Peer::new(Side::Server, config, config))
}

/// Small windows, so that credit matters.
fn small() -> StreamConfig {
    StreamConfig {
        stream_receive_window: 16 << 10,
        connection_receive_window: 24 << 10,
        max_window: 64 << 10,
        peer_streams: 4,
        send_buffer: 16 << 10,
        message_buffer: 16 << 10,
        max_send_buffer: 64 << 10,
        send_memory: 128 << 20,
        max_message: 8 << 10,
    }
}

/// Carries packets both ways over a perfect network until neither side has any.
fn exchange(left: &mut Peer, right: &mut Peer) {
    loop {
        let there = left.packet();
        if let Some(packet) = &there {
            right.take(packet).unwrap();
            left.settle(packet);
        }
        let back = right.packet();
        if let Some(packet) = &back {
            left.take(packet).unwrap();
            right.settle(packet);
        }
        if there.is_none() && back.is_none() {
            return;
        }
    }
}

/// Bytes that differ from stream to stream and from offset to offset.
fn pattern(id: StreamId, length: usize) -> Vec<u8> {
    (0..length as u64).map(|offset| ((offset * 7 + offset / 256) ^ (id.0 * 31)).to_le_bytes()[0]).collect()
}

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}
