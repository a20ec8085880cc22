//! Seals packets: a job for each encrypts it in place, then masks its header.

use std::fmt;
use std::sync::Arc;

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

/// A key that seals packets, with the key of their headers. It can be shared with the thread that seals.
pub(super) struct SealKey {
    header: Arc<dyn HeaderProtectionKey>,
    packet: Box<dyn PacketKey>,
}

impl SealKey {
    pub(super) fn new(header: Arc<dyn HeaderProtectionKey>, packet: Box<dyn PacketKey>) -> Self {
        Self { header, packet }
    }

    /// Packets that the key may seal (RFC 9001, section 6.6).
    pub(super) fn confidentiality_limit(&self) -> u64 {
        self.packet.confidentiality_limit()
    }

    /// The same header key with the packet key of the next phase (RFC 9001, section 6).
    pub(super) fn successor(&self, packet: Box<dyn PacketKey>) -> Self {
        Self { header: Arc::clone(&self.header), packet }
    }
}

/// A complete packet in a buffer, with space for its tag, that still has to be sealed. It needs nothing of its
/// connection, so that another thread than that of the connection can run it.
pub(crate) struct SealJob {
    key: Arc<SealKey>,
    path: PathId,
    packet_number: u64,
    start: usize,
    /// End of the packet, behind its tag.
    end: usize,
    number_offset: usize,
    number_length: usize,
}

impl SealJob {
    /// Encrypts the payload, writes the tag, masks the header. `buffer` is the one that the packet was built in.
    pub(crate) fn run(&self, buffer: &mut [u8]) -> Result<(), SealError> {
        let packet = buffer.get_mut(self.start..self.end).ok_or(SealError::Malformed)?;
        let (header, rest) = packet
            .split_at_mut_checked(self.number_offset + self.number_length)
            .ok_or(SealError::Malformed)?;
        let text = rest.len().checked_sub(Protector::TAG_LENGTH).ok_or(SealError::Malformed)?;
        let (payload, space) = rest.split_at_mut_checked(text).ok_or(SealError::Malformed)?;
        let tag = self
            .key
            .packet
            .encrypt_in_place_for_path(self.path.0, self.packet_number, header, payload)
            .map_err(|_| SealError::Malformed)?;
        space.copy_from_slice(tag.as_ref());
        let header_key = self.key.header.as_ref();
        let masked = mask(packet, self.number_offset, header_key.sample_len(), |sample, first, number| {
            let number = number.get_mut(..self.number_length).ok_or(rustls::Error::EncryptError)?;
            header_key.encrypt_in_place(sample, first, number)
        });
        masked.ok_or(SealError::Malformed)
    }
}

impl Protector {
    /// Makes a job of the packet at the end of `buffer`, and appends the space for its tag. The job waits for
    /// [`Self::run_jobs`].
    ///
    /// The length field of a long header must already count the tag ([`Self::TAG_LENGTH`]). This call sets the key
    /// phase bit of a short header and counts the use of the key. Nothing is allocated if the buffer has space for the
    /// tag and the queue for the job.
    pub(crate) fn seal(&mut self, packet: &Outgoing, buffer: &mut Vec<u8>) -> Result<(), SealError> {
        let number_offset = packet.number_offset.checked_sub(packet.start).ok_or(SealError::Malformed)?;
        // The sample of the header's mask must lie within payload and tag.
        if buffer.len() < packet.number_offset + packet.number_length.max(NUMBER_ROOM) {
            return Err(SealError::Malformed);
        }
        let (key, path) = match packet.level {
            // Before there are paths all packets of a level share one number space, so one nonce space.
            EncryptionLevel::Initial => (take_key(self.initial.as_mut(), &self.limits)?, PathId::FIRST),
            EncryptionLevel::Handshake => (take_key(self.handshake.as_mut(), &self.limits)?, PathId::FIRST),
            EncryptionLevel::OneRtt => {
                let data = self.one_rtt.as_mut().ok_or(SealError::NoKeys)?;
                let (key, phase) = data.sealing(&self.limits).ok_or(SealError::KeyExhausted)?;
                if let Some(first) = buffer.get_mut(packet.start).filter(|first| **first & LONG_FORM == 0) {
                    *first = if phase { *first | KEY_PHASE } else { *first & !KEY_PHASE };
                }
                data.phase_mut().on_sealed(packet.path, packet.packet_number);
                (key, packet.path)
            }
        };
        buffer.extend_from_slice(&[0; Self::TAG_LENGTH]);
        self.jobs.push(SealJob {
            key,
            path,
            packet_number: packet.packet_number,
            start: packet.start,
            end: buffer.len(),
            number_offset,
            number_length: packet.number_length,
        });
        Ok(())
    }

    /// Runs the jobs of all packets in `buffer`, and forgets those of packets that were removed from it again.
    pub(crate) fn run_jobs(&mut self, buffer: &mut [u8]) {
        let length = buffer.len();
        for job in self.jobs.drain(..).filter(|job| job.end <= length) {
            let sealed = job.run(buffer);
            debug_assert_eq!(sealed, Ok(()), "the packet was checked when it was built");
        }
    }
}

fn take_key(
    level: Option<&mut super::LevelKeys>,
    limits: &super::KeyLimits,
) -> Result<Arc<SealKey>, SealError> {
    let level = level.ok_or(SealError::NoKeys)?;
    if level.usage.is_exhausted(level.local.confidentiality_limit(), limits) {
        return Err(SealError::KeyExhausted);
    }
    level.usage.count();
    Ok(Arc::clone(&level.local))
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
