//! Packets out: due packets go in a fixed order, and each call writes one batch for one address pair.

use manyway_wire::PathId;

use super::carry::{Carry, Load, single};
use super::challenge_packet::next_challenge_packet;
use super::{Engine, Side, leaving};
use crate::packet::BASE_DATAGRAM;
use crate::path::{Path, PathState};
use crate::wire::Wire;
use crate::{ByteCount, Ecn, Instant, Transmit};

/// Most datagrams and bytes of a batch: the limit of one system call with segmentation offload.
const MAX_SEGMENTS: usize = 64;
const MAX_BATCH: usize = 65_000;

impl Engine {
    /// Writes the next batch of packets into the empty `buffer`. They are complete but for their seal.
    pub(crate) fn poll_transmit(
        &mut self,
        wire: &mut Wire,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if let Some(transmit) = wire.poll_transmit(self, now, buffer) {
            return Some(transmit);
        }
        if self.phase.is_handshaking() || !self.phase.is_open() {
            return None;
        }
        leaving::close(self, now);
        self.select_pairs(now);
        wire.carry_out(self, now);
        Transmitter { engine: self, wire, now, buffer }.run()
    }
}

/// One call of [`Engine::poll_transmit`], with all that its steps need.
pub(super) struct Transmitter<'a> {
    pub(super) engine: &'a mut Engine,
    pub(super) wire: &'a mut Wire,
    pub(super) now: Instant,
    /// Empty until one of the steps writes to it.
    pub(super) buffer: &'a mut Vec<u8>,
}

impl Transmitter<'_> {
    /// Runs the steps in order until one has something to send.
    fn run(&mut self) -> Option<Transmit> {
        self.transmit_challenge()
            .or_else(|| self.transmit_check())
            .or_else(|| self.transmit_persist_probe())
            .or_else(|| self.transmit_pto_probes())
            .or_else(|| self.transmit_control())
            .or_else(|| self.transmit_data())
            .or_else(|| self.transmit_mtu_probe())
            .or_else(|| self.transmit_acks())
    }

    /// Path challenges and responses go alone, to exactly the addresses that they validate.
    fn transmit_challenge(&mut self) -> Option<Transmit> {
        let is_client = self.engine.side == Side::Client;
        let may_fill = self.engine.features.padding;
        for id in self.engine.paths.ids() {
            let is_reachable = self.engine.paths.is_reachable(id);
            let path = self.engine.paths.get_mut(id)?;
            if !is_reachable {
                path.drop_responses();
                continue;
            }
            let packet = next_challenge_packet(
                self.now,
                path,
                &mut self.engine.manager,
                &mut self.engine.shared.rng,
                (is_client, may_fill),
            );
            if let Some(packet) = packet {
                return self.build_challenge(id, &packet);
            }
        }
        None
    }

    /// The persist probe of a sender that waits for flow-control credit, with the blocks that name the missing
    /// credit.
    fn transmit_persist_probe(&mut self) -> Option<Transmit> {
        let path = self.engine.paths.get(self.engine.persist.take_due()?)?;
        let (id, datagram) = (path.id, usize::from(path.mtu.current()));
        let carry = Carry { load: Load::Control, ack_eliciting: true, ..Carry::default() };
        self.transmit_one((id, datagram), carry)
    }

    fn transmit_pto_probes(&mut self) -> Option<Transmit> {
        if !self.engine.paths.iter().any(Path::has_pto_probes_due) {
            return None;
        }
        for id in self.engine.paths.ids() {
            let may_send = |path: &Path| path.has_pto_probes_due() && !path.is_blocked();
            if !self.engine.paths.get(id).is_some_and(may_send) {
                continue;
            }
            let lone = self.engine.paths.best_live(Some(id)).is_none();
            let Some(path) = self.engine.paths.get_mut(id) else { continue };
            // spec 6.35: an unverified address gets path challenges only.
            if self.engine.manager.is_unverified(path.tuple().remote) {
                continue;
            }
            path.on_pto_probe_sent();
            let datagram = usize::from(path.mtu.current());
            let load = if lone && path.is_live() { Load::Data } else { Load::Acks };
            let carry = Carry { load, ack_eliciting: true, ..Carry::default() };
            if let Some(transmit) = self.transmit_one((id, datagram), carry) {
                return Some(transmit);
            }
        }
        None
    }

    /// Control blocks go on the path with the smallest RTT regardless of its window: they are few, and everything
    /// else depends on them.
    fn transmit_control(&mut self) -> Option<Transmit> {
        if !self.wire.wants_control() {
            return None;
        }
        let path = self.engine.paths.best_live(None)?;
        let (id, datagram) = (path.id, usize::from(path.mtu.current()));
        let carry = Carry { load: Load::Control, ..Carry::default() };
        self.transmit_one((id, datagram), carry)
    }

    /// Writes up to `quantum` bytes of packets for a path: datagrams, all of one size except the last, or one record.
    pub(super) fn transmit_batch(
        &mut self,
        (id, quantum): (PathId, ByteCount),
        carry: Carry,
    ) -> Option<Transmit> {
        let path = self.engine.paths.get(id)?;
        let (tuple, datagram) = (path.tuple(), usize::from(path.mtu.current()));
        // spec 9.49: a batch has one ECN mark, because one system call sends it.
        let ecn = if self.engine.features.ecn { path.recovery.ecn_mark() } else { Ecn::NotEct };
        let carry = Carry { ecn, ..carry };
        let mut left = quantum.to_usize().min(path.room());
        let mut segment = None;
        let mut segments = 0;
        while segments < MAX_SEGMENTS && left > 0 && self.buffer.len() + datagram <= MAX_BATCH {
            let Some(size) = self.build((id, datagram), carry) else { break };
            left = left.saturating_sub(size);
            segments += 1;
            // All datagrams of a batch have the same size; only the last may be shorter. A record is as large as many
            // datagrams, and goes alone.
            if size < *segment.get_or_insert(size) || size < datagram || !tuple.is_datagram() {
                break;
            }
            let room = (MAX_BATCH.saturating_sub(self.buffer.len()) / datagram).min(MAX_SEGMENTS - segments);
            let row = self.build_row((id, datagram, room.min(left.div_ceil(datagram))), carry);
            left = left.saturating_sub(row * datagram);
            segments += row;
        }
        let segment = segment?;
        self.engine.sending.on_sent(self.now, ByteCount::of(self.buffer.len()));
        Some(Transmit { tuple, length: self.buffer.len(), segment, ecn: carry.ecn })
    }

    fn transmit_mtu_probe(&mut self) -> Option<Transmit> {
        if !self.engine.paths.iter().any(|path| path.mtu.wanted().is_some()) {
            return None;
        }
        for id in self.engine.paths.ids() {
            let path = self.engine.paths.get(id).filter(|path| path.state() == PathState::Active);
            let Some(size) = path.and_then(|path| path.mtu.wanted()) else { continue };
            let carry = Carry { ack_eliciting: true, mtu_probe: Some(size), ..Carry::default() };
            let sent = self.transmit_one((id, usize::from(size)), carry);
            let Some(transmit) = sent else { continue };
            if let Some(path) = self.engine.paths.get_mut(id) {
                path.mtu.on_probe_sent();
                // A small packet follows whose acknowledgement reveals the loss of the probe; otherwise only the
                // probe timer would.
                path.schedule_pto_probes(1);
            }
            return Some(transmit);
        }
        None
    }

    fn transmit_acks(&mut self) -> Option<Transmit> {
        for carrier in self.wire.ack_carriers(self.engine, self.now) {
            let place = (carrier, usize::from(BASE_DATAGRAM));
            if let Some(transmit) = self.transmit_one(place, Carry::default()) {
                return Some(transmit);
            }
        }
        None
    }

    fn transmit_one(&mut self, (id, size): (PathId, usize), carry: Carry) -> Option<Transmit> {
        let tuple = self.engine.paths.get(id)?.tuple();
        self.build((id, size), carry)?;
        Some(single(tuple, self.buffer.len()))
    }
}
