//! The blocks of MMSP/2, and the walk over those of a packet (spec 2.6 to 2.9).

use super::{
    AckNow, AddAddress, Blocked, Close, Crypto, Liveness, MaxData, MaxStreamData, MaxStreams, MessageData,
    NewCid, Padding, PathAck, PathClose, PathLimit, PathStatus, Ping, Pong, Probe, ProbeAck, ReceiveLimit,
    RemoveAddress, ResetStream, RetireCid, Skip, StopSending, StreamData, Syn, SynAck, TcpConnections,
};
use crate::block_list::block_list;
use crate::decode_error::DecodeError;
use crate::frame::{RawBlock, RawBlocks};

block_list! {
    /// One block of an MMSP/2 packet. PADDING is encoded in its shortest form (for more see [`Padding`]).
    pub enum Block;

    /// Requests a connection.
    Syn(Syn<'a>),
    /// Answers SYN.
    SynAck(SynAck<'a>),
    /// Returns the server's INFO.
    Ping(Ping<'a>),
    /// Path challenge: asks whether an address answers.
    Probe(Probe),
    /// Path response.
    ProbeAck(ProbeAck),
    /// Acknowledges packets of a path.
    PathAck(PathAck<'a>),
    /// TLS bytes.
    Crypto(Crypto<'a>),
    /// Bytes of a stream.
    Stream(StreamData<'a>),
    /// A piece of a message.
    Message(MessageData<'a>),
    /// Lists abandoned messages.
    Skip(Skip<'a>),
    /// Credit of the connection.
    MaxData(MaxData),
    /// Credit of a stream.
    MaxStreamData(MaxStreamData),
    /// How many streams the peer may open.
    MaxStreams(MaxStreams),
    /// Abandons the sending half of a stream.
    ResetStream(ResetStream),
    /// Asks to stop sending on a stream.
    StopSending(StopSending),
    /// Names the limit that blocks the sender.
    Blocked(Blocked),
    /// Issues a connection ID for a path.
    NewCid(NewCid),
    /// Retires a connection ID.
    RetireCid(RetireCid),
    /// Names an address of the sender.
    AddAddress(AddAddress),
    /// Withdraws an address.
    RemoveAddress(RemoveAddress),
    /// The sender's view of a path.
    PathStatus(PathStatus),
    /// Ends a path.
    PathClose(PathClose),
    /// Queries or reports the last packet received on a path.
    Liveness(Liveness),
    /// How much its receiver wants in flight on a path.
    ReceiveLimit(ReceiveLimit),
    /// Ends the connection, in steps.
    Close(Close<'a>),
    /// Highest path id the peer may use.
    PathLimit(PathLimit),
    /// How many TCP connections the server wants.
    TcpConnections(TcpConnections),
    ---
    /// Confirms the handshake.
    Pong,
    /// Asks for an immediate acknowledgement.
    AckNow,
    /// Filler that makes the packet larger.
    Padding,
}

impl<'a> Block<'a> {
    /// Reads the body of a block by its type.
    ///
    /// # Errors
    /// [`DecodeError`] if there is no such type, or the body is none of this type.
    #[inline]
    pub fn decode(frame: RawBlock<'a>) -> Result<Self, DecodeError> {
        let (kind, offset) = (frame.kind, frame.offset);
        Self::decode_known(frame)?.ok_or(DecodeError::UnknownBlock { kind, offset })
    }

    /// Whether the block is ack-eliciting.
    pub fn is_ack_eliciting(&self) -> bool {
        // spec 2.8
        !matches!(self, Self::SynAck(_) | Self::PathAck(_) | Self::Padding | Self::Close(_))
    }

    /// Whether a packet of such blocks alone leaves the peer's choice of address unchanged: a probing frame of RFC
    /// 9000, section 9.1.
    pub fn is_probing(&self) -> bool {
        // spec 2.9
        matches!(self, Self::Probe(_) | Self::ProbeAck(_) | Self::NewCid(_) | Self::Padding)
    }
}

/// Iterates over the blocks of a decrypted packet, in order. After an error it ends.
///
/// # Example
///
/// ```
/// use manyway_wire::Writer;
/// use manyway_wire::mmsp2::{Block, Blocks, MaxData};
///
/// let mut payload = Vec::new();
/// let mut w = Writer::new(&mut payload, 1200);
/// MaxData { credit: 4096 }.encode(&mut w);
/// let blocks: Result<Vec<_>, _> = Blocks::new(&payload).collect();
/// assert_eq!(blocks, Ok(vec![Block::MaxData(MaxData { credit: 4096 })]));
/// ```
#[derive(Debug, Clone)]
pub struct Blocks<'a> {
    frames: RawBlocks<'a>,
}

impl<'a> Blocks<'a> {
    /// Walks over `payload`, the whole inside of a packet.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { frames: RawBlocks::new(payload) }
    }

    /// Where the next block begins; after the last one, where the trailing filler begins.
    pub fn offset(&self) -> usize {
        self.frames.offset()
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Result<Block<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let block = self.frames.next()?.and_then(Block::decode);
        if block.is_err() {
            self.frames.stop();
        }
        Some(block)
    }
}

impl std::iter::FusedIterator for Blocks<'_> {}

#[cfg(test)]
#[path = "block/tests.rs"]
mod tests;
