//! The frame around every block, and the walk over the blocks of a packet (spec 2.1 to 2.7).
//!
//! ```text
//!  0        1        2                 4
//! | type 8 | flags 8 |    length 16    | body … | 0-3 zero bytes to a multiple of 4 |
//! ```
//! `length` counts header and body, not the padding.

use crate::decode_error::{DecodeError, Part};
use crate::mmsp2::{
    AckNow, AddAddress, Blocked, Close, HandshakeBytes, Liveness, MessageData, NewCid, Pad, PathAck,
    PathClose, PathLimit, PathStatus, Ping, Pong, Probe, ProbeAck, RemoveAddress, RetireCid, Skip,
    StreamData, StreamLimit, StreamReset, StreamStop, StreamWindow, Syn, SynAck, Window,
};
use crate::reader::Reader;
use crate::writer::Writer;

/// Bytes of a block's header.
pub const BLOCK_HEADER_LEN: usize = 4;

/// One block of an MMSP/2 packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block<'a> {
    /// Asks for a connection.
    Syn(Syn<'a>),
    /// Answers it.
    SynAck(SynAck<'a>),
    /// Brings the server's INFO back.
    Ping(Ping<'a>),
    /// Confirms the set-up.
    Pong,
    /// Asks whether an address answers.
    Probe(Probe),
    /// Answers it.
    ProbeAck(ProbeAck),
    /// Tells which packets of a path arrived.
    PathAck(PathAck<'a>),
    /// TLS bytes.
    Handshake(HandshakeBytes<'a>),
    /// Bytes of a stream.
    Stream(StreamData<'a>),
    /// A piece of a message.
    Message(MessageData<'a>),
    /// Tells which messages are abandoned.
    Skip(Skip<'a>),
    /// Credit of the connection.
    Window(Window),
    /// Credit of a stream.
    StreamWindow(StreamWindow),
    /// How many streams the peer may open.
    StreamLimit(StreamLimit),
    /// Abandons the sending half of a stream.
    StreamReset(StreamReset),
    /// Asks to stop sending on a stream.
    StreamStop(StreamStop),
    /// Tells which limit holds the sender back.
    Blocked(Blocked),
    /// Gives an id for a path.
    NewCid(NewCid),
    /// Gives an id back.
    RetireCid(RetireCid),
    /// Names an address of the sender.
    AddAddress(AddAddress),
    /// Takes it back.
    RemoveAddress(RemoveAddress),
    /// State of a path as its sender sees it.
    PathStatus(PathStatus),
    /// Ends a path.
    PathClose(PathClose),
    /// Asks or tells what arrived last on a path.
    Liveness(Liveness),
    /// Asks for an acknowledgement at once.
    AckNow,
    /// Ends the connection, in steps.
    Close(Close<'a>),
    /// Nothing, to make the packet larger.
    Pad,
    /// Highest path id the peer may use.
    PathLimit(PathLimit),
}

impl Block<'_> {
    /// Type of the block on the wire.
    pub fn kind(&self) -> u8 {
        match self {
            Self::Syn(_) => Syn::KIND,
            Self::SynAck(_) => SynAck::KIND,
            Self::Ping(_) => Ping::KIND,
            Self::Pong => Pong::KIND,
            Self::Probe(_) => Probe::KIND,
            Self::ProbeAck(_) => ProbeAck::KIND,
            Self::PathAck(_) => PathAck::KIND,
            Self::Handshake(_) => HandshakeBytes::KIND,
            Self::Stream(_) => StreamData::KIND,
            Self::Message(_) => MessageData::KIND,
            Self::Skip(_) => Skip::KIND,
            Self::Window(_) => Window::KIND,
            Self::StreamWindow(_) => StreamWindow::KIND,
            Self::StreamLimit(_) => StreamLimit::KIND,
            Self::StreamReset(_) => StreamReset::KIND,
            Self::StreamStop(_) => StreamStop::KIND,
            Self::Blocked(_) => Blocked::KIND,
            Self::NewCid(_) => NewCid::KIND,
            Self::RetireCid(_) => RetireCid::KIND,
            Self::AddAddress(_) => AddAddress::KIND,
            Self::RemoveAddress(_) => RemoveAddress::KIND,
            Self::PathStatus(_) => PathStatus::KIND,
            Self::PathClose(_) => PathClose::KIND,
            Self::Liveness(_) => Liveness::KIND,
            Self::AckNow => AckNow::KIND,
            Self::Close(_) => Close::KIND,
            Self::Pad => Pad::KIND,
            Self::PathLimit(_) => PathLimit::KIND,
        }
    }

    /// Whether its sender wants to hear that it arrived.
    pub fn asks_for_ack(&self) -> bool {
        // spec 2.8
        !matches!(self, Self::SynAck(_) | Self::PathAck(_) | Self::Pad | Self::Close(_))
    }

    /// Whether a packet of nothing but such blocks leaves the peer's choice of address alone (as in RFC 9000,
    /// section 9.1).
    pub fn is_probing(&self) -> bool {
        // spec 2.9
        matches!(self, Self::Probe(_) | Self::ProbeAck(_) | Self::NewCid(_) | Self::Pad)
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Syn(block) => block.encoded_len(),
            Self::SynAck(block) => block.encoded_len(),
            Self::Ping(block) => block.encoded_len(),
            Self::Pong => Pong.encoded_len(),
            Self::Probe(block) => block.encoded_len(),
            Self::ProbeAck(block) => block.encoded_len(),
            Self::PathAck(block) => block.encoded_len(),
            Self::Handshake(block) => block.encoded_len(),
            Self::Stream(block) => block.encoded_len(),
            Self::Message(block) => block.encoded_len(),
            Self::Skip(block) => block.encoded_len(),
            Self::Window(block) => block.encoded_len(),
            Self::StreamWindow(block) => block.encoded_len(),
            Self::StreamLimit(block) => block.encoded_len(),
            Self::StreamReset(block) => block.encoded_len(),
            Self::StreamStop(block) => block.encoded_len(),
            Self::Blocked(block) => block.encoded_len(),
            Self::NewCid(block) => block.encoded_len(),
            Self::RetireCid(block) => block.encoded_len(),
            Self::AddAddress(block) => block.encoded_len(),
            Self::RemoveAddress(block) => block.encoded_len(),
            Self::PathStatus(block) => block.encoded_len(),
            Self::PathClose(block) => block.encoded_len(),
            Self::Liveness(block) => block.encoded_len(),
            Self::AckNow => AckNow.encoded_len(),
            Self::Close(block) => block.encoded_len(),
            Self::Pad => Pad::default().encoded_len(),
            Self::PathLimit(block) => block.encoded_len(),
        }
    }

    /// Appends the block; PAD in its shortest form (for more see [`Pad`]).
    pub fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::Syn(block) => block.encode(w),
            Self::SynAck(block) => block.encode(w),
            Self::Ping(block) => block.encode(w),
            Self::Pong => Pong.encode(w),
            Self::Probe(block) => block.encode(w),
            Self::ProbeAck(block) => block.encode(w),
            Self::PathAck(block) => block.encode(w),
            Self::Handshake(block) => block.encode(w),
            Self::Stream(block) => block.encode(w),
            Self::Message(block) => block.encode(w),
            Self::Skip(block) => block.encode(w),
            Self::Window(block) => block.encode(w),
            Self::StreamWindow(block) => block.encode(w),
            Self::StreamLimit(block) => block.encode(w),
            Self::StreamReset(block) => block.encode(w),
            Self::StreamStop(block) => block.encode(w),
            Self::Blocked(block) => block.encode(w),
            Self::NewCid(block) => block.encode(w),
            Self::RetireCid(block) => block.encode(w),
            Self::AddAddress(block) => block.encode(w),
            Self::RemoveAddress(block) => block.encode(w),
            Self::PathStatus(block) => block.encode(w),
            Self::PathClose(block) => block.encode(w),
            Self::Liveness(block) => block.encode(w),
            Self::AckNow => AckNow.encode(w),
            Self::Close(block) => block.encode(w),
            Self::Pad => Pad::default().encode(w),
            Self::PathLimit(block) => block.encode(w),
        }
    }
}

fn decode_body(kind: u8, flags: u8, body: Reader<'_>) -> Result<Block<'_>, DecodeError> {
    Ok(match kind {
        Syn::KIND => Block::Syn(Syn::decode(flags, body)?),
        SynAck::KIND => Block::SynAck(SynAck::decode(flags, body)?),
        Ping::KIND => Block::Ping(Ping::decode(flags, body)?),
        Pong::KIND => Pong::decode(flags, body).map(|Pong| Block::Pong)?,
        Probe::KIND => Block::Probe(Probe::decode(flags, body)?),
        ProbeAck::KIND => Block::ProbeAck(ProbeAck::decode(flags, body)?),
        PathAck::KIND => Block::PathAck(PathAck::decode(flags, body)?),
        HandshakeBytes::KIND => Block::Handshake(HandshakeBytes::decode(flags, body)?),
        StreamData::KIND => Block::Stream(StreamData::decode(flags, body)?),
        MessageData::KIND => Block::Message(MessageData::decode(flags, body)?),
        Skip::KIND => Block::Skip(Skip::decode(flags, body)?),
        Window::KIND => Block::Window(Window::decode(flags, body)?),
        StreamWindow::KIND => Block::StreamWindow(StreamWindow::decode(flags, body)?),
        StreamLimit::KIND => Block::StreamLimit(StreamLimit::decode(flags, body)?),
        StreamReset::KIND => Block::StreamReset(StreamReset::decode(flags, body)?),
        StreamStop::KIND => Block::StreamStop(StreamStop::decode(flags, body)?),
        Blocked::KIND => Block::Blocked(Blocked::decode(flags, body)?),
        NewCid::KIND => Block::NewCid(NewCid::decode(flags, body)?),
        RetireCid::KIND => Block::RetireCid(RetireCid::decode(flags, body)?),
        AddAddress::KIND => Block::AddAddress(AddAddress::decode(flags, body)?),
        RemoveAddress::KIND => Block::RemoveAddress(RemoveAddress::decode(flags, body)?),
        PathStatus::KIND => Block::PathStatus(PathStatus::decode(flags, body)?),
        PathClose::KIND => Block::PathClose(PathClose::decode(flags, body)?),
        Liveness::KIND => Block::Liveness(Liveness::decode(flags, body)?),
        AckNow::KIND => AckNow::decode(flags, body).map(|AckNow| Block::AckNow)?,
        Close::KIND => Block::Close(Close::decode(flags, body)?),
        Pad::KIND => Pad::decode(flags, body).map(|_| Block::Pad)?,
        PathLimit::KIND => Block::PathLimit(PathLimit::decode(flags, body)?),
        _ => {
            let offset = body.offset().saturating_sub(BLOCK_HEADER_LEN);
            return Err(DecodeError::UnknownBlock { kind, offset });
        }
    })
}

/// The blocks of an opened packet, in their order. After an error nothing more comes.
///
/// # Example
///
/// ```
/// use manyway_wire::{Block, Blocks, Window, Writer};
///
/// let mut payload = Vec::new();
/// let mut w = Writer::new(&mut payload, 1200);
/// Window { credit: 4096 }.encode(&mut w);
/// let blocks: Result<Vec<_>, _> = Blocks::new(&payload).collect();
/// assert_eq!(blocks, Ok(vec![Block::Window(Window { credit: 4096 })]));
/// ```
#[derive(Debug, Clone)]
pub struct Blocks<'a> {
    reader: Reader<'a>,
}

impl<'a> Blocks<'a> {
    /// Walks over `payload`, the whole inside of a packet.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { reader: Reader::new(payload) }
    }

    /// Where the next block begins; after the last one, where the filling behind it does.
    pub fn offset(&self) -> usize {
        self.reader.offset()
    }

    fn take(&mut self) -> Result<Block<'a>, DecodeError> {
        let offset = self.reader.offset();
        let left = self.reader.remaining();
        let kind = self.reader.u8()?;
        let flags = self.reader.u8()?;
        let length = usize::from(self.reader.u16()?);
        // spec 2.2
        let Some(body_len) = length.checked_sub(BLOCK_HEADER_LEN).filter(|_| length <= left) else {
            return Err(DecodeError::BlockLength { kind, offset, length, left });
        };
        let body_offset = self.reader.offset();
        let body = Reader::within(Part::Block(kind), body_offset, self.reader.bytes(body_len)?);
        // spec 2.4: the last one may lack its padding, and what the padding holds does not matter
        let padding = padded(length).saturating_sub(length).min(self.reader.remaining());
        self.reader.bytes(padding)?;
        decode_body(kind, flags, body)
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Result<Block<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        // spec 2.5: fewer bytes than a header are filling
        if self.reader.remaining() < BLOCK_HEADER_LEN {
            return None;
        }
        let block = self.take();
        if block.is_err() {
            self.reader.rest();
        }
        Some(block)
    }
}

impl std::iter::FusedIterator for Blocks<'_> {}

/// Appends the 0 to 3 zero bytes that belong behind a block of `block_len` bytes (header and body), or nothing
/// if there is no room for them: then it was the last block.
pub fn encode_padding(w: &mut Writer<'_>, block_len: usize) {
    let padding = padded(block_len) - block_len;
    if padding <= w.remaining() {
        w.zeros(padding);
    }
}

/// `length` rounded up to a multiple of 4.
pub(crate) fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// Bytes of a block whose body has `body_len`, with padding.
pub(crate) fn padded_block_len(body_len: usize) -> usize {
    padded(BLOCK_HEADER_LEN + body_len)
}

/// Appends type, flags and length of a block whose body has `body_len` bytes.
pub(crate) fn encode_header(w: &mut Writer<'_>, kind: u8, flags: u8, body_len: usize) {
    w.u8(kind);
    w.u8(flags);
    w.u16(u16::try_from(BLOCK_HEADER_LEN + body_len).unwrap_or(u16::MAX));
}

/// Appends a whole block: header, what `body` writes (`body_len` bytes), padding.
pub(crate) fn encode_block(
    w: &mut Writer<'_>,
    kind: u8,
    flags: u8,
    body_len: usize,
    body: impl FnOnce(&mut Writer<'_>),
) {
    encode_header(w, kind, flags, body_len);
    let start = w.position();
    body(w);
    debug_assert_eq!(w.position() - start, body_len, "block {kind:#04x} is not as long as it said");
    encode_padding(w, BLOCK_HEADER_LEN + body_len);
}

/// Refuses flags other than `known` (spec 2.3).
pub(crate) fn check_flags(flags: u8, known: u8, body: &Reader<'_>) -> Result<(), DecodeError> {
    let Part::Block(kind) = body.part() else { return Ok(()) };
    if flags & !known == 0 {
        return Ok(());
    }
    Err(DecodeError::UnknownFlags { kind, offset: body.offset(), flags })
}

#[cfg(test)]
#[path = "block/tests.rs"]
mod tests;
