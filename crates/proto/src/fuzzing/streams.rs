//! The streams of one end.

use bytes::Bytes;
use manyway_wire::mmsp2::{Block, Blocks};
use manyway_wire::{Side, StreamId, Writer};

use std::time::Duration;

use crate::mmsp2::stream::set::StreamSet;
use crate::packet::content::Contents;
use crate::scheduler::Source;
use crate::stream::priority::ClassFilter;
use crate::{
    Instant, MessageOptions, MessageOutcome, MessageToken, Misuse, ReadOutcome, SendError, StreamConfig,
    StreamEvent, Violation, WriteError,
};

/// All streams of an end of a connection, without the connection.
#[derive(Debug)]
pub struct Streams(StreamSet);

/// The payload of a packet, and its contents for recovery.
#[derive(Debug, Clone)]
pub struct StreamPacket {
    payload: Vec<u8>,
    contents: Contents,
}

impl StreamPacket {
    /// The blocks.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }
}

impl Streams {
    /// Starts with the limits of both ends.
    pub fn new(side: Side, own: &StreamConfig, peer: &StreamConfig) -> Self {
        let mut streams = StreamSet::new(side, own);
        streams.set_peer_limits(
            peer.connection_receive_window,
            peer.stream_receive_window,
            peer.peer_streams,
        );
        streams.set_peer_message_limit(peer.max_message);
        Self(streams)
    }

    /// Writes a packet; `None` if there is nothing to send.
    pub fn packet(&mut self, size: usize) -> Option<StreamPacket> {
        let mut packet = StreamPacket { payload: Vec::new(), contents: Contents::new() };
        let mut writer = Writer::new(&mut packet.payload, size);
        self.0.write_control(&mut writer, &mut packet.contents);
        self.0.write_data(&mut writer, &mut packet.contents, Source::Next, ClassFilter::All);
        (!packet.payload.is_empty()).then_some(packet)
    }

    /// Handles the blocks of a packet.
    ///
    /// # Errors
    /// The violation of the peer; blocks that belong to no stream count as unexpected.
    pub fn take(&mut self, payload: &[u8]) -> Result<(), Violation> {
        for block in Blocks::new(payload) {
            let block = block.map_err(Violation::Decode)?;
            #[expect(clippy::wildcard_enum_match_arm, reason = "all others are wrong here")]
            match &block {
                Block::Stream(block) => self.0.on_stream(block)?,
                Block::Message(block) => self.0.on_message(block)?,
                Block::Skip(block) => self.0.on_skip(block)?,
                Block::MaxData(block) => self.0.on_max_data(block),
                Block::MaxStreamData(block) => self.0.on_max_stream_data(block)?,
                Block::MaxStreams(block) => self.0.on_max_streams(block),
                Block::ResetStream(block) => self.0.on_reset_stream(block)?,
                Block::StopSending(block) => self.0.on_stop_sending(block)?,
                Block::Blocked(block) => self.0.on_blocked(block)?,
                _ => return Err(Violation::UnexpectedBlock { kind: block.kind() }),
            }
        }
        Ok(())
    }

    /// A packet arrived.
    pub fn on_delivered(&mut self, packet: &StreamPacket) {
        packet.contents.iter().for_each(|content| self.0.on_delivered(content));
    }

    /// A packet was lost, or its path is suspect.
    pub fn on_lost(&mut self, packet: &StreamPacket) {
        packet.contents.iter().for_each(|content| self.0.on_lost(content));
    }

    /// Sets time and RTT.
    pub fn on_rtt(&mut self, now: Instant, rtt: Duration) {
        self.0.on_rtt(now, rtt);
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// If the peer allows no more.
    pub fn open(&mut self) -> Result<StreamId, Misuse> {
        self.0.open()
    }

    /// Takes the next stream of the peer.
    pub fn accept(&mut self) -> Option<StreamId> {
        self.0.accept()
    }

    /// Writes bytes to a stream.
    ///
    /// # Errors
    /// If it accepts none.
    pub fn write(&mut self, stream: StreamId, data: Bytes) -> Result<usize, WriteError> {
        self.0.write(stream, data)
    }

    /// Ends a stream.
    ///
    /// # Errors
    /// If it has ended.
    pub fn finish(&mut self, stream: StreamId) -> Result<(), WriteError> {
        self.0.finish(stream)
    }

    /// Abandons the sending half.
    ///
    /// # Errors
    /// If it has ended.
    pub fn reset(&mut self, stream: StreamId, code: u64) -> Result<(), Misuse> {
        self.0.reset(stream, code)
    }

    /// Stops the receiving half.
    ///
    /// # Errors
    /// If it has ended.
    pub fn stop(&mut self, stream: StreamId, code: u64) -> Result<(), Misuse> {
        self.0.stop(stream, code)
    }

    /// Sets the priority of a stream.
    ///
    /// # Errors
    /// If there is no such stream.
    pub fn set_priority(&mut self, stream: StreamId, priority: i8) -> Result<(), Misuse> {
        self.0.set_priority(stream, priority)
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// If there will be nothing more to read.
    pub fn read(&mut self, stream: StreamId, max: usize) -> Result<ReadOutcome, Misuse> {
        self.0.read(stream, max)
    }

    /// Sends a message on a stream.
    ///
    /// # Errors
    /// If the stream does not accept it.
    pub fn send_message(
        &mut self,
        now: Instant,
        stream: StreamId,
        data: Bytes,
        options: MessageOptions,
    ) -> Result<MessageToken, SendError> {
        self.0.send_message(now, stream, data, options)
    }

    /// Takes a message.
    ///
    /// # Errors
    /// If there will be no more.
    pub fn receive_message(&mut self, stream: StreamId) -> Result<MessageOutcome, Misuse> {
        self.0.receive_message(stream)
    }

    /// Gives up messages that expire before that time.
    pub fn expire(&mut self, until: Instant) {
        self.0.on_time(until);
        self.0.expire_messages(until);
    }

    /// Credit of the connection: used by this end, and received.
    pub fn connection_credit(&self) -> (u64, u64) {
        (self.0.sent(), self.0.received())
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        self.0.poll_event()
    }

    /// Whether all written data has arrived.
    pub fn is_idle(&self) -> bool {
        self.0.is_idle()
    }
}
