//! The blocks of MMSP/1, and the walk over those of a packet (spec 3.9 to 3.12).

use super::{Data, ErrorReport, Fin, FinAck, FinDone, Ping, Pong, Probe, ProbeAck, Rst, Sack, Syn, SynAck};
use crate::block_list::block_list;
use crate::decode_error::DecodeError;
use crate::frame::{RawBlock, RawBlocks};

/// Set in the type of a block that a receiver without knowledge of it skips.
pub const SKIPPABLE: u8 = 0x80;

block_list! {
    /// One block of an MMSP/1 packet.
    pub enum Block;

    /// A piece of a message.
    Data(Data<'a>),
    /// Acknowledges DATA blocks.
    Sack(Sack<'a>),
    /// Requests a connection.
    Syn(Syn<'a>),
    /// Answers SYN with the server's INFO.
    SynAck(SynAck<'a>),
    /// Returns the server's INFO.
    Ping(Ping<'a>),
    /// Tells that all DATA of its sender are acknowledged, and asks the peer to close, too.
    Fin(Fin),
    /// Completes the close.
    FinDone(FinDone),
    /// Aborts the connection.
    Rst(Rst<'a>),
    /// Reports errors that do not end the connection.
    Error(ErrorReport<'a>),
    /// Asks whether an address answers.
    Probe(Probe),
    /// Answers PROBE.
    ProbeAck(ProbeAck),
    ---
    /// Confirms the handshake.
    Pong,
    /// Answers FIN.
    FinAck,
}

impl<'a> Block<'a> {
    /// Reads a block; `None` if its type is unknown and it may be skipped.
    ///
    /// # Errors
    /// [`DecodeError`]; [`Response`](crate::mmsp1::Response) tells what the receiver does about it.
    pub fn decode(frame: RawBlock<'a>) -> Result<Option<Self>, DecodeError> {
        let (kind, offset) = (frame.kind, frame.offset);
        match Self::decode_known(frame)? {
            None if kind & SKIPPABLE == 0 => Err(DecodeError::UnknownBlock { kind, offset }),
            block => Ok(block),
        }
    }

    /// The first unknown parameter in the block that may not be skipped. It earns ERROR with
    /// [`ErrorCode::UNRECOGNISED_FIELD`](crate::mmsp1::ErrorCode::UNRECOGNISED_FIELD), while the rest of the block
    /// counts (spec 3.16).
    pub fn unrecognised(&self) -> Option<u16> {
        match self {
            Self::Syn(block) => block.unrecognised,
            Self::SynAck(block) => block.unrecognised,
            Self::Ping(block) => block.unrecognised,
            Self::Probe(block) => block.unrecognised,
            Self::ProbeAck(block) => block.unrecognised,
            Self::Data(_)
            | Self::Sack(_)
            | Self::Fin(_)
            | Self::FinDone(_)
            | Self::Rst(_)
            | Self::Error(_)
            | Self::Pong
            | Self::FinAck => None,
        }
    }
}

/// Iterates over the blocks of a packet in order, without those that may be skipped.
///
/// After an error it goes on behind the block, unless the error is about a type that may not be skipped, or about a
/// length: then it ends (spec 3.10, 3.11). Blocks before the error stay valid.
///
/// # Example
///
/// ```
/// use manyway_wire::Writer;
/// use manyway_wire::mmsp1::{Block, Blocks, Fin, Tseq};
///
/// let mut payload = vec![0xee, 0, 0, 4]; // unknown, and may be skipped
/// Fin { ack: Tseq(9) }.encode(&mut Writer::new(&mut payload, 1200));
/// let blocks: Result<Vec<_>, _> = Blocks::new(&payload).collect();
/// assert_eq!(blocks, Ok(vec![Block::Fin(Fin { ack: Tseq(9) })]));
/// ```
#[derive(Debug, Clone)]
pub struct Blocks<'a> {
    frames: RawBlocks<'a>,
    kind: u8,
}

impl<'a> Blocks<'a> {
    /// Walks over `payload`, the whole inside of a packet.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { frames: RawBlocks::new(payload), kind: 0 }
    }

    /// The type of the block that was read last, also if it could not be read: ERROR names it (spec 3.71). 0 before the
    /// first one.
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// Where the next block begins; after the last one, where the trailing filler begins.
    pub fn offset(&self) -> usize {
        self.frames.offset()
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Result<Block<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let frame = self.frames.next()?.inspect(|frame| self.kind = frame.kind);
            match frame.and_then(Block::decode) {
                Ok(Some(block)) => return Some(Ok(block)),
                Ok(None) => {}
                Err(error) => {
                    if matches!(error, DecodeError::UnknownBlock { .. }) {
                        self.frames.stop();
                    }
                    return Some(Err(error));
                }
            }
        }
    }
}

impl std::iter::FusedIterator for Blocks<'_> {}

#[cfg(test)]
#[path = "block/tests.rs"]
mod tests;
