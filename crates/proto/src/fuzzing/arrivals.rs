//! The receiver's half of MMSP/1: DATA blocks become messages and bytes of streams.

use bytes::Bytes;
use manyway_wire::mmsp1::{Data, Opening, Tag, Tseq};
use manyway_wire::{Side, StreamId, Writer};

use crate::mmsp1::fuzzing::{Streams, Taken};
use crate::{MessageOutcome, Misuse, ReadOutcome, StreamConfig, StreamEvent};

/// The streams of a server whose client sends DATA.
#[derive(Debug)]
pub struct Arrivals(Streams);

/// What became of a DATA block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataFate {
    /// It counts as arrived.
    Taken,
    /// It had arrived before.
    Duplicate,
    /// It is too far ahead, or there is no memory for it: the peer sends it again.
    Dropped,
    /// It counts as arrived, and an ERROR answers it.
    Reported,
    /// The connection cannot go on.
    Broken,
}

impl Arrivals {
    /// Starts with the initial TSEQ of the client and so many streams each way.
    pub fn new(config: &StreamConfig, initial: Tseq, streams: u16) -> Self {
        let window = u32::try_from(config.connection_receive_window).unwrap_or(u32::MAX);
        let opening =
            |tag, tseq| Opening { tag: Tag(tag), window, outgoing: streams, incoming: streams, tseq };
        let (own, peer) = (opening(2, Tseq(1)), opening(1, initial));
        let mut set = Streams::new(Side::Server, config, &own);
        set.set_peer(&own, &peer);
        Self(set)
    }

    /// Takes a DATA block.
    pub fn on_data(&mut self, data: &Data<'_>) -> DataFate {
        let Ok(heard) = self.0.on_data(data) else { return DataFate::Broken };
        match heard.taken {
            _ if heard.error.is_some() => DataFate::Reported,
            Taken::Duplicate => DataFate::Duplicate,
            Taken::TooFar => DataFate::Dropped,
            Taken::InOrder | Taken::FillsGap | Taken::BeyondGap => DataFate::Taken,
        }
    }

    /// The SACK that is due, as it stands in a packet with this much room.
    pub fn sack(&mut self, room: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.0.write_sack(&mut Writer::new(&mut bytes, room));
        bytes
    }

    /// Memory for what waits for earlier data or for other fragments, in bytes.
    pub fn ahead(&self) -> u64 {
        self.0.tally().ahead
    }

    /// Takes the next stream of the peer.
    pub fn accept(&mut self) -> Option<StreamId> {
        self.0.accept()
    }

    /// Takes a message.
    ///
    /// # Errors
    /// If there will be no more.
    pub fn receive_message(&mut self, stream: StreamId) -> Result<MessageOutcome, Misuse> {
        self.0.receive_message(stream)
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// If there will be nothing more to read.
    pub fn read(&mut self, stream: StreamId, max: usize) -> Result<ReadOutcome, Misuse> {
        self.0.read(stream, max)
    }

    /// Stops the receiving half.
    ///
    /// # Errors
    /// If it has ended.
    pub fn stop(&mut self, stream: StreamId) -> Result<(), Misuse> {
        self.0.stop(stream, 0)
    }

    /// Writes bytes to the other half of a stream.
    pub fn write(&mut self, stream: StreamId, data: Bytes) {
        let _ = self.0.write(stream, data);
    }

    /// Ends the other half of a stream.
    pub fn finish(&mut self, stream: StreamId) {
        let _ = self.0.finish(stream);
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        self.0.poll_event()
    }
}
