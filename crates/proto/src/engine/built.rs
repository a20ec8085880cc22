//! Packets that the wire builds for a path, and what the engine records of them.

use manyway_wire::PathId;

use super::Engine;
use super::carry::{Carry, Load, single};
use super::challenge_packet::ChallengePacket;
use super::output::Transmitter;
use crate::engine::packet::Built;
use crate::observe::Fact;
use crate::recovery::PacketKind;
use crate::{Ecn, FourTuple, Instant, Transmit};

impl Transmitter<'_> {
    /// Appends one packet of at most `size` bytes for a path, and returns its size; `None` if it would be empty, or may
    /// not be sent.
    pub(super) fn build(&mut self, (id, size): (PathId, usize), carry: Carry) -> Option<usize> {
        let built = self.wire.build(self.engine, self.now, self.buffer, (id, size), carry)?;
        let size = built.size;
        self.on_built(carry, built)?;
        Some(size)
    }

    fn on_built(&mut self, carry: Carry, mut built: Built) -> Option<()> {
        let path = self.engine.paths.get_mut(built.path)?;
        if built.carries_data {
            path.on_data_sent(self.now);
            self.engine.persist.on_data(self.now);
        }
        if built.takes_number {
            path.recovery.take_packet_number();
            let mut packet = built.take_sent();
            packet.reinjected = carry.load == Load::Copies;
            packet.marked = carry.ecn == Ecn::Ect0;
            path.recovery.on_sent(self.now, packet);
        }
        path.addresses.on_sent(built.size);
        path.count_sent(built.size);
        let ack_eliciting = matches!(built.kind, PacketKind::Ordinary | PacketKind::MtuProbe);
        on_packet_out(self.engine, self.now, &built, ack_eliciting);
        Some(())
    }

    /// Appends packets for a path, of exactly one size and up to a number, if all that is left to carry is bulk data;
    /// returns how many. A packet of the same batch comes before them.
    pub(super) fn build_row(&mut self, row: (PathId, usize, usize), carry: Carry) -> usize {
        self.wire.build_row(self.engine, self.now, self.buffer, row, carry)
    }

    /// Writes a path challenge, a response, or both, into the empty buffer.
    pub(super) fn build_challenge(&mut self, id: PathId, packet: &ChallengePacket) -> Option<Transmit> {
        let built = self.wire.build_challenge(self.engine, self.now, self.buffer, id, packet)?;
        record_challenge(self.engine, self.now, &packet.tuple, built)?;
        Some(single(packet.tuple, self.buffer.len()))
    }
}

/// Records a packet with a path challenge, a response, or both.
pub(crate) fn record_challenge(
    engine: &mut Engine,
    now: Instant,
    tuple: &FourTuple,
    mut built: Built,
) -> Option<()> {
    let path = engine.paths.get_mut(built.path)?;
    if path.tuple() == *tuple {
        path.addresses.on_sent(built.size);
    } else if built.takes_number {
        path.recovery.on_sent_off_path(built.packet_number);
    }
    path.count_sent(built.size);
    if built.takes_number {
        // Not in flight: the response confirms it, and a dead path has nothing in flight.
        built.kind = PacketKind::AckOnly;
        path.recovery.on_sent(now, built.take_sent());
    }
    on_packet_out(engine, now, &built, true);
    Some(())
}

fn on_packet_out(engine: &mut Engine, now: Instant, built: &Built, ack_eliciting: bool) {
    engine.note_packet(now);
    if ack_eliciting && !engine.clock.ack_eliciting_since_heard {
        engine.clock.ack_eliciting_since_heard = true;
        engine.clock.last_activity = now;
    }
    if let Some(path) = engine.paths.get_mut(built.path).filter(|_| ack_eliciting) {
        path.on_ack_eliciting_sent(now);
    }
    let (path, packet_number) = (built.path, built.packet_number);
    let size = u16::try_from(built.size).unwrap_or(u16::MAX);
    if built.takes_number {
        engine.observe(now, &Fact::PacketSent { path, packet_number, size, ack_eliciting });
    }
    if let Some(packet) = built.observed() {
        engine.observe_packet(now, &packet);
    }
}
