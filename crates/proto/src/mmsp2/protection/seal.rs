//! Makes jobs of packets that are to be sealed, and runs them.

use std::sync::Arc;

use manyway_wire::PathId;

use super::Protector;
use super::job::{NUMBER_ROOM, SealError, SealJob, SealJobs, SealKey};
use crate::{EncryptionLevel, KeyLimits};

const LONG_FORM: u8 = 0x80;
const KEY_PHASE: u8 = 0x04;

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

impl Protector {
    /// Makes a job of the packet at the end of `buffer`, and appends the space for its tag. The job waits for
    /// [`Self::move_jobs`].
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
            EncryptionLevel::Initial => (take_key(self.initial.as_deref_mut(), &self.limits)?, PathId::FIRST),
            EncryptionLevel::Handshake => {
                (take_key(self.handshake.as_deref_mut(), &self.limits)?, PathId::FIRST)
            }
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
        self.jobs.0.push(SealJob {
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

    #[cfg(test)]
    pub(super) fn seal_now(&mut self, packet: &Outgoing, buffer: &mut Vec<u8>) -> Result<(), SealError> {
        self.seal(packet, buffer)?;
        if self.run_jobs(buffer) { Ok(()) } else { Err(SealError::Malformed) }
    }

    /// Seals the packets in `buffer`; false if that fails.
    #[must_use = "what is not sealed must not leave"]
    pub(crate) fn run_jobs(&mut self, buffer: &mut [u8]) -> bool {
        self.jobs.run(buffer)
    }

    /// Moves the jobs of all packets since the last call to `jobs`.
    pub(crate) fn move_jobs(&mut self, jobs: &mut SealJobs) {
        jobs.0.append(&mut self.jobs.0);
    }

    /// All packets that were built since the last call of [`Self::move_jobs`] were removed from their buffer.
    pub(crate) fn drop_jobs(&mut self) {
        self.jobs.clear();
    }
}

fn take_key(level: Option<&mut super::LevelKeys>, limits: &KeyLimits) -> Result<Arc<SealKey>, SealError> {
    let level = level.ok_or(SealError::NoKeys)?;
    if level.usage.is_exhausted(level.local.confidentiality_limit(), limits) {
        return Err(SealError::KeyExhausted);
    }
    level.usage.count();
    Ok(Arc::clone(&level.local))
}
