//! The keys of one direction of one level, through all key updates.

use manyway_wire::PathId;

use crate::keys::{HeaderKey, PacketKey, Secret, Unmasked};

/// Number of key updates that may be missing from the capture.
const LOOK_AHEAD: u64 = 3;

/// Keys of one direction.
pub(crate) struct DirectionKeys {
    header: HeaderKey,
    /// Keys by phase; old phases are dropped.
    phases: Vec<(u64, PacketKey)>,
    /// The secret of the last of them.
    last: Secret,
    /// The newest phase that decrypted a packet.
    current: u64,
}

impl DirectionKeys {
    pub(crate) fn new(secret: Secret) -> Option<Self> {
        let header = secret.header_key()?;
        let phases = vec![(0, secret.packet_key()?)];
        Some(Self { header, phases, last: secret, current: 0 })
    }

    pub(crate) fn unmask(&self, packet: &[u8], number_offset: usize) -> Option<Unmasked> {
        self.header.unmask(packet, number_offset)
    }

    /// Decrypts a packet of a level without key updates.
    pub(crate) fn open(&self, number: u64, header: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        self.phases.first()?.1.open(PathId::FIRST, number, header, sealed)
    }

    /// Decrypts a 1-RTT packet with this key phase bit; also returns the number of its phase.
    pub(crate) fn open_in_phase(
        &mut self,
        bit: bool,
        (path, number): (PathId, u64),
        header: &[u8],
        sealed: &[u8],
    ) -> Option<(u64, Vec<u8>)> {
        let near = [self.current, self.current + 1];
        let older = self.current.checked_sub(1);
        let ahead = self.current + 2..=self.current + LOOK_AHEAD;
        let candidates = near.into_iter().chain(older).chain(ahead);
        for phase in candidates.filter(|phase| (phase & 1 == 1) == bit) {
            let Some(key) = self.key(phase) else { continue };
            if let Some(payload) = key.open(path, number, header, sealed) {
                self.current = self.current.max(phase);
                self.phases.retain(|(known, _)| known + 2 >= phase);
                return Some((phase, payload));
            }
        }
        None
    }

    fn key(&mut self, phase: u64) -> Option<&PacketKey> {
        while self.phases.last().is_none_or(|(last, _)| *last < phase) {
            let next = self.phases.last().map_or(0, |(last, _)| last + 1);
            let secret = self.last.next()?;
            self.phases.push((next, secret.packet_key()?));
            self.last = secret;
        }
        self.phases.iter().find(|(known, _)| *known == phase).map(|(_, key)| key)
    }
}
