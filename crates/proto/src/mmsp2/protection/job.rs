//! The job that seals one packet: encrypts it in place, then masks its header.

use std::fmt;
use std::sync::Arc;

use manyway_wire::PathId;
use rustls::quic::{HeaderProtectionKey, PacketKey};

/// Length of the tag behind every sealed payload, in bytes.
pub(super) const TAG_LENGTH: usize = 16;
/// The sample begins at the payload of a packet whose number has its full four bytes.
pub(super) const NUMBER_ROOM: usize = 4;

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
    pub(super) key: Arc<SealKey>,
    pub(super) path: PathId,
    pub(super) packet_number: u64,
    pub(super) start: usize,
    /// End of the packet, behind its tag.
    pub(super) end: usize,
    /// Offset of the packet number in the packet.
    pub(super) number_offset: usize,
    pub(super) number_length: usize,
}

impl SealJob {
    /// Encrypts the payload, writes the tag, masks the header. `buffer` is the one that the packet was built in.
    pub(crate) fn run(&self, buffer: &mut [u8]) -> Result<(), SealError> {
        let packet = buffer.get_mut(self.start..self.end).ok_or(SealError::Malformed)?;
        let (header, rest) = packet
            .split_at_mut_checked(self.number_offset + self.number_length)
            .ok_or(SealError::Malformed)?;
        let text = rest.len().checked_sub(TAG_LENGTH).ok_or(SealError::Malformed)?;
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

/// The jobs that seal the packets of one batch
/// ([`Endpoint::poll_transmit_unsealed`](crate::Endpoint::poll_transmit_unsealed)). They need nothing of the endpoint, so
/// that another thread can run them. Empty ones keep their memory for the next batch.
#[derive(Default)]
pub struct SealJobs(pub(super) Vec<SealJob>);

impl SealJobs {
    /// Seals all packets in `buffer`, the one that they were built in, and leaves no job. Returns false if a job fails:
    /// then nothing of the buffer may leave, because it would leave in clear text. No packet that was built is known to
    /// fail.
    #[must_use = "what is not sealed must not leave"]
    pub fn run(&mut self, buffer: &mut [u8]) -> bool {
        let is_sealed = self.0.drain(..).fold(true, |all, job| all & job.run(buffer).is_ok());
        debug_assert!(is_sealed, "the packets were checked when they were built");
        is_sealed
    }

    /// Drops all jobs.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl fmt::Debug for SealJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealJobs").field("packets", &self.0.len()).finish()
    }
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
