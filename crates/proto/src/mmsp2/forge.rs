//! Forged packets, as of a peer that has the keys and breaks every rule.

use manyway_wire::PathId;
use manyway_wire::mmsp2::LongKind;

use super::Mmsp2;
use crate::EncryptionLevel;
use crate::engine::Engine;
use crate::mmsp2::packet_builder::{HeaderFacts, PacketBuilder};
use crate::mmsp2::tls::NewKeys;
use crate::{Instant, Violation};

/// Most bytes of the header, number and tag of a packet.
const AROUND: usize = 100;

impl Mmsp2 {
    /// Builds a packet of any content in the name of this end: sealed with its keys, with its next packet number
    /// after `skipped` others. Loss recovery does not know the packet.
    ///
    /// `None` if there are no keys or no id for it, or the payload is too short for a packet.
    pub(crate) fn forge(
        &mut self,
        engine: &mut Engine,
        (level, path): (EncryptionLevel, PathId),
        skipped: u8,
        payload: &[u8],
    ) -> Option<Vec<u8>> {
        let handshake = self.handshake.as_deref_mut();
        let (recovery, destination, long) = match level {
            EncryptionLevel::OneRtt => {
                let recovery = &mut engine.paths.get_mut(path)?.recovery;
                (recovery, self.ids.remote.current(path)?, None)
            }
            EncryptionLevel::Initial => {
                let handshake = handshake?;
                let destination = handshake.destination();
                (
                    &mut handshake.initial_space.recovery,
                    destination,
                    Some((LongKind::Initial, handshake.local_id)),
                )
            }
            EncryptionLevel::Handshake => {
                let handshake = handshake?;
                let destination = handshake.destination();
                (
                    &mut handshake.handshake_space.recovery,
                    destination,
                    Some((LongKind::Handshake, handshake.local_id)),
                )
            }
        };
        for _ in 0..skipped {
            recovery.take_packet_number();
        }
        let facts = HeaderFacts {
            path,
            destination,
            packet_number: recovery.take_packet_number(),
            largest_acked: recovery.largest_acked(),
            size: payload.len() + AROUND,
        };
        let mut packet = Vec::new();
        let builder = match long {
            None => PacketBuilder::short(&mut packet, &facts, self.protector.key_phase()),
            Some((kind, source)) => PacketBuilder::long(&mut packet, &facts, kind, source),
        };
        builder.writer(&mut packet).bytes(payload);
        builder.finish(&mut packet, &mut self.protector)?;
        self.protector.run_jobs(&mut packet).then_some(packet)
    }

    /// Completes the handshake without TLS: with these keys, as if TLS had delivered these parameters.
    ///
    /// # Errors
    /// As for a peer that sends such parameters.
    pub(crate) fn establish_with(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        keys: NewKeys,
        peer: manyway_wire::mmsp2::Parameters,
    ) -> Result<(), Violation> {
        if let NewKeys::OneRtt(keys, secrets) = keys {
            self.protector.install_one_rtt(keys, secrets);
        }
        if let Some(handshake) = &mut self.handshake {
            handshake.remote_id = Some(peer.source);
        }
        self.establish(engine, now, peer)
    }
}
