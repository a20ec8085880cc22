//! Unmasks the header of a packet, expands its number, checks for replay, decrypts in place.

use std::fmt;
use std::ops::Range;

use manyway_wire::PathId;
use rustls::quic::{HeaderProtectionKey, PacketKey};

use super::Protector;
use super::data_keys::{KeyAge, TooEarly};
use super::job::{NUMBER_ROOM, mask};
use crate::EncryptionLevel;
use crate::packet::replay::ReplayWindow;

const LONG_FORM: u8 = 0x80;
/// End of the range of packet numbers (RFC 9000, section 12.3).
const NUMBERS: u64 = 1 << 62;

/// The header of a received packet before unmasking, and the state of its packet number space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Incoming {
    /// The encryption level, by the packet's type.
    pub(crate) level: EncryptionLevel,
    /// The path of the destination id; without meaning before [`EncryptionLevel::OneRtt`].
    pub(crate) path: PathId,
    /// Offset of the packet number in the packet.
    pub(crate) number_offset: usize,
    /// One above the largest number decrypted in this space, from [`ReplayWindow::next`].
    pub(crate) expected: u64,
}

/// A decrypted packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Its whole number; to be marked in the space's [`ReplayWindow`].
    pub(crate) packet_number: u64,
    /// The range of the blocks in the packet.
    pub(crate) payload: Range<usize>,
    /// Whether this packet caused a key update of this end too.
    pub(crate) key_phase_changed: bool,
}

/// Why a packet was not decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// There are no keys for this level, or not yet.
    NoKeys,
    /// Its number was seen, or is too old to know. The sender is unknown.
    Replayed,
    /// It is damaged or forged, or too short to be a packet; counted.
    Failed,
    /// The peer set reserved bits: a violation.
    ReservedBits,
    /// The peer updated keys too early: a violation.
    KeyUpdate,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKeys => write!(f, "there are no keys for this packet"),
            Self::Replayed => write!(f, "a packet with this number was seen or would be too old"),
            Self::Failed => write!(f, "the packet could not be opened"),
            Self::ReservedBits => write!(f, "reserved bits of the header are set"),
            Self::KeyUpdate => write!(f, "the peer changed keys too early"),
        }
    }
}

impl std::error::Error for OpenError {}

/// The part of a header that is visible only after unmasking.
struct Unmasked {
    first: u8,
    number: u64,
    payload_offset: usize,
}

impl Protector {
    /// Decrypts `packet`, which is one whole packet without any that follow it in the datagram.
    ///
    /// `replay` belongs to the packet's number space; the caller marks the number in it afterwards. If decryption
    /// fails the content of `packet` is lost. Nothing is allocated, except for the first packet of another key phase.
    pub(crate) fn open(
        &mut self,
        at: &Incoming,
        packet: &mut [u8],
        replay: &ReplayWindow,
    ) -> Result<Opened, OpenError> {
        let opened = match at.level {
            EncryptionLevel::Initial => open_without_phase(self.initial.as_deref(), at, packet, replay),
            EncryptionLevel::Handshake => open_without_phase(self.handshake.as_deref(), at, packet, replay),
            EncryptionLevel::OneRtt => self.open_data(at, packet, replay),
        };
        if matches!(opened, Err(OpenError::Failed)) {
            self.failed = self.failed.saturating_add(1);
        }
        opened
    }

    fn open_data(
        &mut self,
        at: &Incoming,
        packet: &mut [u8],
        replay: &ReplayWindow,
    ) -> Result<Opened, OpenError> {
        let data = self.one_rtt.as_mut().ok_or(OpenError::NoKeys)?;
        let header = unmask(data.remote_header(), at, packet, replay)?;
        // The long form has no key phase; no long header leads here, but the bit must not be misread.
        let bit = header.first & LONG_FORM == 0 && manyway_wire::mmsp2::key_phase(header.first);
        let (age, key) = data.opening(bit, at.path, header.number);
        let payload = decrypt(key, at.path, &header, packet)?;
        let key_phase_changed =
            data.on_opened(age, at.path, header.number).map_err(|TooEarly| OpenError::KeyUpdate)?;
        debug_assert!(!key_phase_changed || age == KeyAge::Next);
        Ok(Opened { packet_number: header.number, payload, key_phase_changed })
    }
}

fn open_without_phase(
    level: Option<&super::LevelKeys>,
    at: &Incoming,
    packet: &mut [u8],
    replay: &ReplayWindow,
) -> Result<Opened, OpenError> {
    let remote = &level.ok_or(OpenError::NoKeys)?.remote;
    let header = unmask(remote.header.as_ref(), at, packet, replay)?;
    let payload = decrypt(remote.packet.as_ref(), PathId::FIRST, &header, packet)?;
    Ok(Opened { packet_number: header.number, payload, key_phase_changed: false })
}

fn unmask(
    key: &dyn HeaderProtectionKey,
    at: &Incoming,
    packet: &mut [u8],
    replay: &ReplayWindow,
) -> Result<Unmasked, OpenError> {
    mask(packet, at.number_offset, key.sample_len(), |sample, first, number| {
        key.decrypt_in_place(sample, first, number)
    })
    .ok_or(OpenError::Failed)?;

    let first = packet.first().copied().ok_or(OpenError::Failed)?;
    let length = manyway_wire::mmsp2::number_length(first);
    let payload_offset = at.number_offset + length;
    let bytes = packet.get(at.number_offset..).and_then(<[u8]>::first_chunk).ok_or(OpenError::Failed)?;
    let truncated = u32::from_be_bytes(*bytes) >> (8 * (NUMBER_ROOM - length));
    let number = manyway_wire::mmsp2::packet_number::expand(truncated, length, at.expected);
    if number >= NUMBERS {
        return Err(OpenError::Failed);
    }
    if !replay.is_fresh(number) {
        return Err(OpenError::Replayed);
    }
    Ok(Unmasked { first, number, payload_offset })
}

fn decrypt(
    key: &dyn PacketKey,
    path: PathId,
    header: &Unmasked,
    packet: &mut [u8],
) -> Result<Range<usize>, OpenError> {
    let (head, body) = packet.split_at_mut_checked(header.payload_offset).ok_or(OpenError::Failed)?;
    let plain =
        key.decrypt_in_place_for_path(path.0, header.number, head, body).map_err(|_| OpenError::Failed)?;
    let payload = header.payload_offset..header.payload_offset + plain.len();
    // Only now it is certain that the peer itself has set them (RFC 9000, section 17.2).
    if manyway_wire::mmsp2::reserved_bits_are_clear(header.first) {
        Ok(payload)
    } else {
        Err(OpenError::ReservedBits)
    }
}
