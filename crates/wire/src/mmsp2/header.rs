//! Packet headers before and after protection (spec 4.3 to 4.5, 4.10).
//!
//! ```text
//! long:  |1|1|typ|0 0|len-1|      version 32      | dcid length 8 | dcid … | scid length 8 | scid … |
//!        | length (varint): packet number, payload and tag | packet number 8-32 | sealed blocks … tag |
//! short: |0|1|0|0 0|K|len-1| dcid 64-160 | packet number 8-32 | sealed blocks … tag |
//! version list: |1|unused 7| version 32 = 0 | dcid length 8 | dcid … | scid length 8 | scid … | version 32 … |
//! ```

use crate::decode_error::{DecodeError, Part};
use crate::ids::ConnectionId;
use crate::mmsp2::packet_number;
use crate::reader::Reader;
use crate::writer::{Gathered, Writer};

/// The version that this crate speaks: "MMS" and the number of the draft (spec 4.3).
pub const VERSION: u32 = 0x4D4D_5301;

/// Bytes that a packet must have after the start of its packet number: the sample for header protection begins 4 bytes
/// in and has 16 (spec 4.7).
pub const MIN_SEALED: usize = 20;

const LONG: u8 = 0x80;
const FIXED: u8 = 0x40;
const SHORT_UNUSED: u8 = 0x20;
const KEY_PHASE: u8 = 0x04;
const LONG_RESERVED: u8 = 0x0c;
const SHORT_RESERVED: u8 = 0x18;
const MAX_LISTED_VERSIONS: usize = 32;

/// Type of a packet with a long header; each type has its own keys and packet numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongKind {
    /// Sealed with keys that anyone can derive from the client's original destination connection ID.
    Initial,
    /// Sealed with the keys of the TLS handshake.
    Handshake,
}

impl LongKind {
    fn bits(self) -> u8 {
        match self {
            Self::Initial => 0x00,
            Self::Handshake => 0x10,
        }
    }
}

/// The clear-text form of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderForm {
    /// A packet of the handshake.
    Long {
        /// Which keys.
        kind: LongKind,
        /// Always [`VERSION`].
        version: u32,
        /// Connection ID of the receiver; the client invents the first.
        destination: ConnectionId,
        /// Connection ID under which the sender wants to be addressed.
        source: ConnectionId,
    },
    /// Any other packet.
    Short {
        /// Connection ID that the receiver issued for one of its paths.
        destination: ConnectionId,
    },
    /// A version that this crate does not implement: only the fields that no version changes (RFC 8999).
    OtherVersion {
        /// The version.
        version: u32,
        /// Id of the receiver, 0 to 255 bytes.
        destination: Vec<u8>,
        /// Id of the sender, 0 to 255 bytes.
        source: Vec<u8>,
    },
    /// Version negotiation: a server's answer to an unknown version.
    VersionList {
        /// The source ID of the client's packet.
        destination: ConnectionId,
        /// The destination ID of the client's packet.
        source: ConnectionId,
        /// The versions of the server; the first 32 entries.
        versions: Vec<u32>,
    },
}

/// A packet with header protection in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedPacket {
    /// What can be read before header protection is removed.
    pub form: HeaderForm,
    /// Where the packet number begins, from the start of the packet. At least [`MIN_SEALED`] bytes follow. Packets
    /// without a number (other versions, version lists) have `length` here.
    pub number_offset: usize,
    /// Bytes of this packet; a coalesced one may follow in the datagram.
    pub length: usize,
}

/// Reads the header of the first packet in `datagram`; a coalesced one begins at `length`. The connection ID of a short
/// header has `id_length` bytes, the length of all IDs that the receiver issues (spec 4.2).
///
/// # Errors
/// [`DecodeError`] if this is no packet; then the rest of the datagram is dropped too (spec 4.9).
pub fn decode_protected(datagram: &[u8], id_length: usize) -> Result<ProtectedPacket, DecodeError> {
    let mut reader = Reader::within(Part::Header, 0, datagram);
    let first = reader.u8()?;
    if first & LONG != 0 {
        return decode_long(first, reader, datagram.len());
    }
    // spec 4.5: bit 0x40 is set, bit 0x20 clear
    if first & (FIXED | SHORT_UNUSED) != FIXED {
        return Err(DecodeError::FirstByte { first });
    }
    let destination = take_id(&mut reader, id_length)?;
    let number_offset = reader.offset();
    reader.bytes(MIN_SEALED)?;
    Ok(ProtectedPacket { form: HeaderForm::Short { destination }, number_offset, length: datagram.len() })
}

/// The destination of a packet with a short header, an ID of `id_length` bytes. The packet number follows, and the packet
/// extends to the end of its datagram. `None` if [`decode_protected`] finds no such packet.
#[inline]
pub fn short_destination(datagram: &[u8], id_length: usize) -> Option<ConnectionId> {
    let (first, rest) = datagram.split_first()?;
    let (id, rest) = rest.split_at_checked(id_length)?;
    let is_short = first & (LONG | FIXED | SHORT_UNUSED) == FIXED && rest.len() >= MIN_SEALED;
    ConnectionId::from_slice(id).filter(|_| is_short)
}

fn decode_long(first: u8, mut reader: Reader<'_>, total: usize) -> Result<ProtectedPacket, DecodeError> {
    // spec 4.3: the version is read before any field that depends on it
    let version = reader.u32()?;
    match version {
        0 => return decode_version_list(reader, total),
        VERSION => {}
        _ => return decode_other_version(version, reader, total),
    }
    let kind = match first & 0x70 {
        0x40 => LongKind::Initial,
        0x50 => LongKind::Handshake,
        _ => return Err(DecodeError::FirstByte { first }),
    };
    let destination = take_sized_id(&mut reader)?;
    let source = take_sized_id(&mut reader)?;
    let length_offset = reader.offset();
    let claimed = reader.varint()?;
    let number_offset = reader.offset();
    let sealed =
        usize::try_from(claimed).map_err(|_| reader.out_of_range(length_offset, "length", claimed))?;
    if sealed < MIN_SEALED {
        return Err(reader.out_of_range(length_offset, "length", claimed));
    }
    reader.bytes(sealed)?;
    let form = HeaderForm::Long { kind, version, destination, source };
    Ok(ProtectedPacket { form, number_offset, length: reader.offset() })
}

fn decode_other_version(
    version: u32,
    mut reader: Reader<'_>,
    total: usize,
) -> Result<ProtectedPacket, DecodeError> {
    let length = usize::from(reader.u8()?);
    let destination = reader.bytes(length)?.to_vec();
    let length = usize::from(reader.u8()?);
    let source = reader.bytes(length)?.to_vec();
    let form = HeaderForm::OtherVersion { version, destination, source };
    Ok(ProtectedPacket { form, number_offset: total, length: total })
}

fn decode_version_list(mut reader: Reader<'_>, total: usize) -> Result<ProtectedPacket, DecodeError> {
    let destination = take_sized_id(&mut reader)?;
    let source = take_sized_id(&mut reader)?;
    let mut versions = Vec::new();
    while !reader.is_empty() && versions.len() < MAX_LISTED_VERSIONS {
        versions.push(reader.u32()?);
    }
    let form = HeaderForm::VersionList { destination, source, versions };
    Ok(ProtectedPacket { form, number_offset: total, length: total })
}

fn take_sized_id(reader: &mut Reader<'_>) -> Result<ConnectionId, DecodeError> {
    let length = usize::from(reader.u8()?);
    take_id(reader, length)
}

fn take_id(reader: &mut Reader<'_>, length: usize) -> Result<ConnectionId, DecodeError> {
    let offset = reader.offset();
    let bytes = reader.bytes(length)?;
    ConnectionId::from_slice(bytes)
        .ok_or_else(|| reader.out_of_range(offset, "connection id length", length as u64))
}

/// Bytes of the packet number, 1 to 4, from an unmasked first byte of either form.
pub fn number_length(first_byte: u8) -> usize {
    usize::from(first_byte & 0x03) + 1
}

/// Key phase bit, from an unmasked first byte of a short header.
pub fn key_phase(first_byte: u8) -> bool {
    first_byte & KEY_PHASE != 0
}

/// Whether the two reserved bits of an unmasked first byte are zero, as they must be (spec 4.4, 4.5).
pub fn reserved_bits_are_clear(first_byte: u8) -> bool {
    let reserved = if first_byte & LONG != 0 { LONG_RESERVED } else { SHORT_RESERVED };
    first_byte & reserved == 0
}

/// A long header to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongHeader {
    /// Which keys.
    pub kind: LongKind,
    /// Id of the receiver.
    pub destination: ConnectionId,
    /// Id of the sender.
    pub source: ConnectionId,
}

impl LongHeader {
    /// Bytes of the header up to and with a packet number of `number_len` bytes.
    pub fn encoded_len(&self, number_len: usize) -> usize {
        1 + 4 + 1 + self.destination.as_slice().len() + 1 + self.source.as_slice().len() + 2 + number_len
    }

    /// Appends the header with the lowest `number_len` bytes (1 to 4) of `packet_number`. [`patch_length`] fills in the
    /// length field later.
    pub fn encode(&self, w: &mut Writer<'_>, packet_number: u64, number_len: usize) -> LengthField {
        w.u8(LONG | FIXED | self.kind.bits() | number_len_bits(number_len));
        w.u32(VERSION);
        write_sized_id(w, self.destination.as_slice());
        write_sized_id(w, self.source.as_slice());
        let field = LengthField { position: w.position() };
        w.u16(0x4000);
        packet_number::encode(w, packet_number, number_len);
        field
    }
}

/// Where the length of a long header has to be filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthField {
    position: usize,
}

impl LengthField {
    /// Where in the buffer the packet number begins.
    pub fn number_offset(self) -> usize {
        self.position + 2
    }
}

/// Fills in the length of a long header once the packet is known to end at `packet_end` of `buffer`, tag included. The
/// field holds at most 16 383; handshake packets are far below.
pub fn patch_length(buffer: &mut [u8], field: LengthField, packet_end: usize) {
    let length = packet_end.saturating_sub(field.number_offset());
    let length = u16::try_from(length).unwrap_or(u16::MAX).min(0x3fff);
    if let Some(place) = buffer.get_mut(field.position..field.number_offset()) {
        place.copy_from_slice(&(0x4000 | length).to_be_bytes());
    }
}

/// Appends a short header with the lowest `number_len` bytes (1 to 4) of `packet_number`; returns where in the
/// buffer the packet number begins.
#[inline]
pub fn encode_short(
    w: &mut Writer<'_>,
    destination: &ConnectionId,
    key_phase: bool,
    packet_number: u64,
    number_len: usize,
) -> usize {
    let phase = if key_phase { KEY_PHASE } else { 0 };
    let number_len = number_len.clamp(1, 4);
    let mut header = Gathered::<{ 1 + ConnectionId::MAX_LENGTH + 8 }>::new();
    header.add([FIXED | phase | number_len_bits(number_len)], 1);
    header.add(*destination.padded(), destination.as_slice().len());
    header.add(packet_number::leading(packet_number, number_len), number_len);
    header.append_to(w);
    w.position() - number_len
}

/// Appends a version list for a client whose packet had the IDs `source` and `destination`, already swapped:
/// `destination` is the client's source ID. Each is cut at 255 bytes.
pub fn encode_version_list(w: &mut Writer<'_>, destination: &[u8], source: &[u8], versions: &[u32]) {
    w.u8(LONG | FIXED);
    w.u32(0);
    write_sized_id(w, destination);
    write_sized_id(w, source);
    for version in versions {
        w.u32(*version);
    }
}

fn write_sized_id(w: &mut Writer<'_>, id: &[u8]) {
    let length = u8::try_from(id.len()).unwrap_or(u8::MAX);
    w.u8(length);
    w.bytes(id.get(..usize::from(length)).unwrap_or_default());
}

fn number_len_bits(number_len: usize) -> u8 {
    match number_len {
        0 | 1 => 0,
        2 => 1,
        3 => 2,
        _ => 3,
    }
}

#[cfg(test)]
#[path = "header/tests.rs"]
mod tests;
