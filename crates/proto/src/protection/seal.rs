//! Encrypts a packet in place, then masks its header.

use std::fmt;

use manyway_wire::PathId;
use rustls::quic::{HeaderProtectionKey, PacketKey};

use super::{EncryptionLevel, Protector};

const LONG_FORM: u8 = 0x80;
const KEY_PHASE: u8 = 0x04;
/// The sample begins at the payload of a packet whose number has its full four bytes.
const NUMBER_ROOM: usize = 4;

/// A packet in a buffer, ready to be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outgoing {
    /// The encryption level.
    pub(crate) level: EncryptionLevel,
    /// The path, a part of the nonce at [`EncryptionLevel::OneRtt`]; without meaning at the others.
    pub(crate) path: PathId,
    /// The whole packet number.
    pub(crate) packet_number: u64,
    /// Start of the packet in the buffer; it extends to the buffer's end.
    pub(crate) start: usize,
    /// Offset of the packet number in the buffer.
    pub(crate) number_offset: usize,
    /// How many bytes of the packet number were written, 1 to 4.
    pub(crate) number_length: usize,
}

/// Why a packet could not be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealError {
    /// There are no keys for this level, or no more.
    NoKeys,
    /// The key has reached its AEAD limit and has no successor: the connection must end.
    KeyExhausted,
    /// The payload is too short for header protection (less than 4 bytes with the number), or too long for the
    /// cipher, or the offsets lie outside of the buffer: a bug of the caller.
    Malformed,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKeys => write!(f, "there are no keys for this packet"),
            Self::KeyExhausted => write!(f, "the key has sealed as many packets as it may"),
            Self::Malformed => write!(f, "the packet is too short or too long to be sealed"),
        }
    }
}

impl std::error::Error for SealError {}

impl Protector {
    /// Seals the packet at the end of `buffer`: encrypts the payload, appends the tag, masks the header.
    ///
    /// The length field of a long header must already count the tag ([`Self::TAG_LENGTH`]). This call sets the key
    /// phase bit of a short header. Nothing is allocated if the buffer has space for the tag.
    pub(crate) fn seal(&mut self, packet: &Outgoing, buffer: &mut Vec<u8>) -> Result<(), SealError> {
        match packet.level {
            EncryptionLevel::Initial => seal_without_phase(
                self.initial.as_mut().ok_or(SealError::NoKeys)?,
                &self.limits,
                packet,
                buffer,
            ),
            EncryptionLevel::Handshake => seal_without_phase(
                self.handshake.as_mut().ok_or(SealError::NoKeys)?,
                &self.limits,
                packet,
                buffer,
            ),
            EncryptionLevel::OneRtt => {
                let data = self.one_rtt.as_mut().ok_or(SealError::NoKeys)?;
                let (header, key, phase) = data.sealing(&self.limits).ok_or(SealError::KeyExhausted)?;
                if let Some(first) = buffer.get_mut(packet.start).filter(|first| **first & LONG_FORM == 0) {
                    *first = if phase { *first | KEY_PHASE } else { *first & !KEY_PHASE };
                }
                seal_with(header, key, packet, buffer)?;
                data.phase_mut().on_sealed(packet.path, packet.packet_number);
                Ok(())
            }
        }
    }
}

fn seal_without_phase(
    level: &mut super::LevelKeys,
    limits: &super::KeyLimits,
    packet: &Outgoing,
    buffer: &mut Vec<u8>,
) -> Result<(), SealError> {
    let local = &level.keys.local;
    if level.usage.is_exhausted(local.packet.confidentiality_limit(), limits) {
        return Err(SealError::KeyExhausted);
    }
    // Before there are paths all packets of a level share one number space, so one nonce space.
    let packet = Outgoing { path: PathId::FIRST, ..*packet };
    seal_with(local.header.as_ref(), local.packet.as_ref(), &packet, buffer)?;
    level.usage.count();
    Ok(())
}

fn seal_with(
    header_key: &dyn HeaderProtectionKey,
    key: &dyn PacketKey,
    at: &Outgoing,
    buffer: &mut Vec<u8>,
) -> Result<(), SealError> {
    let number_offset = at.number_offset.checked_sub(at.start).ok_or(SealError::Malformed)?;
    let packet = buffer.get_mut(at.start..).ok_or(SealError::Malformed)?;
    let (header, payload) =
        packet.split_at_mut_checked(number_offset + at.number_length).ok_or(SealError::Malformed)?;
    if at.number_length + payload.len() < NUMBER_ROOM {
        return Err(SealError::Malformed);
    }
    let tag = key
        .encrypt_in_place_for_path(at.path.0, at.packet_number, header, payload)
        .map_err(|_| SealError::Malformed)?;
    buffer.extend_from_slice(tag.as_ref());

    let packet = buffer.get_mut(at.start..).ok_or(SealError::Malformed)?;
    let masked = mask(packet, number_offset, header_key.sample_len(), |sample, first, number| {
        let number = number.get_mut(..at.number_length).ok_or(rustls::Error::EncryptError)?;
        header_key.encrypt_in_place(sample, first, number)
    });
    masked.ok_or(SealError::Malformed)
}

/// Finds the sample, the first byte and the bytes of the packet number (RFC 9001, section 5.4.2) and passes them to
/// `apply`; `None` if the packet is too short.
pub(super) fn mask(
    packet: &mut [u8],
    number_offset: usize,
    sample_length: usize,
    apply: impl FnOnce(&[u8], &mut u8, &mut [u8]) -> Result<(), rustls::Error>,
) -> Option<()> {
    let (head, tail) = packet.split_at_mut_checked(number_offset.checked_add(NUMBER_ROOM)?)?;
    let sample = tail.get(..sample_length)?;
    let (first, rest) = head.split_first_mut()?;
    let number = rest.get_mut(number_offset.checked_sub(1)?..)?;
    apply(sample, first, number).ok()
}
