//! A packet of MMSP/1: the common header with its checksum, and the blocks behind it (spec 3.1 to 3.8).
//!
//! ```text
//! | source port 16 | destination port 16 | Adler-32 32 | connection id 32 | blocks …
//! ```

use std::fmt;

use super::block::Blocks;
use super::{Fin, FinAck, FinDone, Rst, Syn, SynAck, Tag};
use crate::decode_error::{DecodeError, Part};
use crate::frame::RawBlocks;
use crate::reader::Reader;
use crate::writer::Writer;

/// Bytes of the common header.
pub const HEADER_LEN: usize = 12;

/// Highest inner port; the lowest is 1.
pub const MAX_PORT: u16 = 16_383;

const CHECKSUM_AT: usize = 4;
const CHECKSUM_LEN: usize = 4;

/// The common header without its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Inner port of the sender, 1 to [`MAX_PORT`].
    pub source_port: u16,
    /// Inner port of the receiver, 1 to [`MAX_PORT`].
    pub destination_port: u16,
    /// Tag of the receiver; in a packet with SYN, and with a reflecting RST or FIN-DONE, that of the sender (spec 3.5).
    pub connection: Tag,
}

impl Header {
    /// Appends the header with the checksum 0. [`seal`] writes the checksum when the packet is complete.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.u16(self.source_port);
        w.u16(self.destination_port);
        w.zeros(CHECKSUM_LEN);
        w.u32(self.connection.0);
    }

    /// Reads the header of a datagram, and the checksum that it names, without checking it.
    ///
    /// # Errors
    /// [`DecodeError`] if the datagram is shorter than a header, or a port is out of range.
    pub fn decode(datagram: &[u8]) -> Result<(Self, u32), DecodeError> {
        let mut reader = Reader::within(Part::Header, 0, datagram);
        let source_port = take_port(&mut reader, "source port")?;
        let destination_port = take_port(&mut reader, "destination port")?;
        let checksum = reader.u32()?;
        let connection = Tag(reader.u32()?);
        Ok((Self { source_port, destination_port, connection }, checksum))
    }

    /// The header of an answer to the same connection's peer, whose tag is `connection`: the ports change places.
    #[must_use]
    pub fn answer(&self, connection: Tag) -> Self {
        Self { source_port: self.destination_port, destination_port: self.source_port, connection }
    }
}

fn take_port(reader: &mut Reader<'_>, field: &'static str) -> Result<u16, DecodeError> {
    let offset = reader.offset();
    let port = reader.u16()?;
    // spec 3.4: the first byte of a datagram tells the protocols that share a UDP port apart
    if (1..=MAX_PORT).contains(&port) {
        return Ok(port);
    }
    Err(reader.out_of_range(offset, field, u64::from(port)))
}

/// Writes the checksum into a complete packet. Bytes shorter than a header stay as they are.
///
/// # Example
///
/// ```
/// use manyway_wire::Writer;
/// use manyway_wire::mmsp1::{Block, Header, Packet, Tag, seal};
///
/// let header = Header { source_port: 5001, destination_port: 5001, connection: Tag(7) };
/// let mut packet = Vec::new();
/// let mut w = Writer::new(&mut packet, 1200);
/// header.encode(&mut w);
/// Block::Pong.encode(&mut w);
/// seal(&mut packet);
/// assert_eq!(Packet::decode(&packet).map(|packet| packet.header), Ok(header));
/// ```
pub fn seal(packet: &mut [u8]) {
    let sum = checksum(packet);
    if let Some(field) = packet.get_mut(CHECKSUM_AT..CHECKSUM_AT + CHECKSUM_LEN) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

/// Adler-32 (RFC 1950, section 8.2) of a whole packet, with zeros in the place of the checksum (spec 3.3). Costs one
/// pass over the bytes.
pub fn checksum(packet: &[u8]) -> u32 {
    let mut sum = adler2::Adler32::new();
    let (ports, rest) = packet.split_at(CHECKSUM_AT.min(packet.len()));
    let (field, rest) = rest.split_at(CHECKSUM_LEN.min(rest.len()));
    sum.write_slice(ports);
    sum.write_slice([0; CHECKSUM_LEN].get(..field.len()).unwrap_or_default());
    sum.write_slice(rest);
    sum.checksum()
}

/// A packet whose checksum is right and in which no block is bundled that travels alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The common header.
    pub header: Header,
    /// What follows the header.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a datagram, which is one packet. Costs one pass over the bytes; allocates nothing.
    ///
    /// # Errors
    /// [`PacketError`]: the receiver drops the whole datagram without an answer.
    pub fn decode(datagram: &'a [u8]) -> Result<Self, PacketError> {
        let (header, written) = Header::decode(datagram).map_err(PacketError::Header)?;
        let computed = checksum(datagram);
        if written != computed {
            return Err(PacketError::Checksum { written, computed });
        }
        let payload = datagram.get(HEADER_LEN..).unwrap_or_default();
        check_bundling(payload)?;
        Ok(Self { header, payload })
    }

    /// Iterates over the blocks.
    pub fn blocks(&self) -> Blocks<'a> {
        Blocks::new(self.payload)
    }
}

/// Whether a block of this type travels alone (spec 3.7).
pub fn travels_alone(kind: u8) -> bool {
    matches!(kind, Syn::KIND | SynAck::KIND | Fin::KIND | FinAck::KIND | FinDone::KIND | Rst::KIND)
}

/// Refuses a payload in which a block that travels alone is bundled with another, be that unknown or unreadable.
fn check_bundling(payload: &[u8]) -> Result<(), PacketError> {
    let mut alone = None;
    for (count, frame) in RawBlocks::new(payload).enumerate() {
        let kind = frame.ok().map(|frame| frame.kind).filter(|kind| travels_alone(*kind));
        alone = alone.or(kind);
        if let Some(kind) = alone.filter(|_| count > 0) {
            return Err(PacketError::Bundled { kind });
        }
    }
    Ok(())
}

/// Why a datagram is no packet. It is dropped without an answer (spec 3.3, 3.4, 3.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketError {
    /// The header is cut, or has a port out of range.
    Header(DecodeError),
    /// The checksum is wrong.
    Checksum {
        /// As it stands in the header.
        written: u32,
        /// Of the bytes that arrived.
        computed: u32,
    },
    /// A block of this type must travel alone and does not.
    Bundled {
        /// Type of the block.
        kind: u8,
    },
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => write!(f, "{error}"),
            Self::Checksum { written, computed } => {
                write!(f, "the checksum is {written:#010x}, that of the bytes {computed:#010x}")
            }
            Self::Bundled { kind } => write!(f, "block {kind:#04x} must travel alone and does not"),
        }
    }
}

impl std::error::Error for PacketError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Header(error) => Some(error),
            Self::Checksum { .. } | Self::Bundled { .. } => None,
        }
    }
}

#[cfg(test)]
#[path = "packet/tests.rs"]
mod tests;
