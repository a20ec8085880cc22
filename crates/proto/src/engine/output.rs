//! Packets out: what is due goes in fixed order, each call gives one batch for one address pair.

use manyway_wire::PathId;
use smallvec::SmallVec;

use super::probing::next_probing;
use super::{Engine, Side};
use crate::observe::Fact;
use crate::path::{BASE_DATAGRAM, Path, PathState};
use crate::scheduler::Source;
use crate::stream::priority::ClassFilter;
use crate::wire::Wire;
use crate::{ByteCount, Ecn, FourTuple, Instant, Transmit};

/// Most datagrams of a batch, and most bytes: what one system call with segmentation offload takes.
const MAX_SEGMENTS: usize = 64;
const MAX_BATCH: usize = 65_000;

/// What a packet may carry beside acknowledgements.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Carry {
    pub(crate) load: Load,
    /// Which bytes of streams.
    pub(crate) source: Source,
    /// Of which classes.
    pub(crate) filter: ClassFilter,
    /// Something that asks for an acknowledgement even if nothing else does.
    pub(crate) question: bool,
    pub(crate) mtu_probe: Option<u16>,
    /// The mark of its datagram.
    pub(crate) ecn: Ecn,
}

/// How much of what waits may go into a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Load {
    #[default]
    Acks,
    /// Once more what a burst on another path carried.
    Copies,
    /// Facts for the peer.
    Control,
    /// Facts for the peer, and bytes of streams.
    Data,
}

impl Engine {
    /// Writes the next batch of datagrams into the empty `buffer`.
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
        self.close_leaving(now);
        self.select_pairs(now);
        wire.carry_out(self, now);
        self.transmit_probing(wire, now, buffer)
            .or_else(|| self.transmit_survey(wire, now, buffer))
            .or_else(|| self.transmit_question(wire, now, buffer))
            .or_else(|| self.transmit_timeout_probes(wire, now, buffer))
            .or_else(|| self.transmit_control(wire, now, buffer))
            .or_else(|| self.transmit_data(wire, now, buffer))
            .or_else(|| self.transmit_mtu_probe(wire, now, buffer))
            .or_else(|| self.transmit_acks(wire, now, buffer))
    }

    /// Path challenges and their answers go alone, to the very addresses that they are about.
    fn transmit_probing(&mut self, wire: &mut Wire, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let is_client = self.side == Side::Client;
        for id in self.paths.ids() {
            let is_reachable = self.is_reachable(id);
            let path = self.paths.get_mut(id)?;
            if !is_reachable {
                path.drop_answers();
                continue;
            }
            let probing = next_probing(now, path, &mut self.manager, &mut self.shared.rng, is_client);
            if let Some(probing) = probing {
                return wire.build_probe(self, now, buffer, id, &probing);
            }
        }
        None
    }

    /// The question of a sender that waits for credit, with what holds it back.
    fn transmit_question(&mut self, wire: &mut Wire, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let path = self.paths.get(self.persist.take_due()?)?;
        let (id, datagram) = (path.id, usize::from(path.mtu.current()));
        let carry = Carry { load: Load::Control, question: true, ..Carry::default() };
        self.transmit_one(wire, now, buffer, (id, datagram), carry)
    }

    fn transmit_timeout_probes(
        &mut self,
        wire: &mut Wire,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        for id in self.paths.ids() {
            let lone = self.paths.best_live(Some(id)).is_none();
            let Some(path) = self.paths.get_mut(id).filter(|path| path.has_probes_due()) else { continue };
            // spec 6.35: such an address gets questions of the prober alone.
            if self.manager.is_unverified(path.tuple().remote) {
                continue;
            }
            path.on_pto_probe_sent();
            let datagram = usize::from(path.mtu.current());
            let load = if lone && path.is_live() { Load::Data } else { Load::Acks };
            let carry = Carry { load, question: true, ..Carry::default() };
            if let Some(transmit) = self.transmit_one(wire, now, buffer, (id, datagram), carry) {
                return Some(transmit);
            }
        }
        None
    }

    /// Facts for the peer go on the nearest path whatever its window: they are few and keep everything else moving.
    fn transmit_control(&mut self, wire: &mut Wire, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        if !wire.wants_control() {
            return None;
        }
        let path = self.paths.best_live(None)?;
        let (id, datagram) = (path.id, usize::from(path.mtu.current()));
        let carry = Carry { load: Load::Control, ..Carry::default() };
        self.transmit_one(wire, now, buffer, (id, datagram), carry)
    }

    /// Writes up to `quantum` bytes of datagrams for a path, all of one size but for the last.
    pub(super) fn transmit_batch(
        &mut self,
        wire: &mut Wire,
        now: Instant,
        buffer: &mut Vec<u8>,
        (id, quantum): (PathId, ByteCount),
        carry: Carry,
    ) -> Option<Transmit> {
        let path = self.paths.get(id)?;
        let (tuple, datagram) = (path.tuple(), usize::from(path.mtu.current()));
        // spec 9.49: a batch has one mark, since one system call sends it.
        let carry = Carry { ecn: path.recovery.ecn().mark(), ..carry };
        let mut left = quantum.to_usize().min(path.place.amplification().room());
        let mut segment = None;
        for _ in 0..MAX_SEGMENTS {
            if left == 0 || buffer.len() + datagram > MAX_BATCH {
                break;
            }
            let Some(size) = wire.build(self, now, buffer, (id, datagram), carry) else { break };
            left = left.saturating_sub(size);
            // All datagrams of a batch are equal, only the last may be shorter.
            if size < *segment.get_or_insert(size) || size < datagram {
                break;
            }
        }
        let segment = segment?;
        self.sending.on_sent(now, ByteCount::of(buffer.len()));
        Some(Transmit { tuple, length: buffer.len(), segment, ecn: carry.ecn })
    }

    fn transmit_mtu_probe(
        &mut self,
        wire: &mut Wire,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        for id in self.paths.ids() {
            let path = self.paths.get(id).filter(|path| path.state() == PathState::Active);
            let Some(size) = path.and_then(|path| path.mtu.wanted()) else { continue };
            let carry = Carry { question: true, mtu_probe: Some(size), ..Carry::default() };
            let sent = self.transmit_one(wire, now, buffer, (id, usize::from(size)), carry);
            let Some(transmit) = sent else { continue };
            if let Some(path) = self.paths.get_mut(id) {
                path.mtu.on_probe_sent();
                // Behind it something small, whose answer tells of its loss: else the probe timer had to.
                path.schedule_probes(1);
            }
            return Some(transmit);
        }
        None
    }

    fn transmit_acks(&mut self, wire: &mut Wire, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        for id in self.paths.ids() {
            let Some(path) = self.paths.get(id).filter(|path| path.receiving.acks.due(now)) else { continue };
            let Some(carrier) = self.ack_carrier(path) else { continue };
            let place = (carrier, usize::from(BASE_DATAGRAM));
            if let Some(transmit) = self.transmit_one(wire, now, buffer, place, Carry::default()) {
                return Some(transmit);
            }
        }
        None
    }

    /// An acknowledgement goes on the path that it acknowledges, which keeps its round-trip time clean and proves its
    /// way back; while that path is in doubt, on the best other one.
    pub(crate) fn ack_carrier(&self, path: &Path) -> Option<PathId> {
        if path.is_live() && self.can_send(path) {
            return Some(path.id);
        }
        if let Some(other) = self.paths.best_live(Some(path.id)).filter(|other| self.can_send(other)) {
            return Some(other.id);
        }
        let usable = path.state() != PathState::Validating && self.can_send(path);
        usable.then_some(path.id)
    }

    /// The paths whose acknowledgements go into a packet on `carrier`: its own if anything waits, those of others once they
    /// are due and no path is better for them. With each stands whether it may not arrive there, as the path is suspect:
    /// then another one has to bring it too.
    pub(crate) fn due_acks(&self, now: Instant, carrier: PathId) -> SmallVec<[(PathId, bool); 8]> {
        let due = |path: &Path| {
            let is_own = path.id == carrier;
            let is_due = if is_own { path.receiving.acks.is_waiting() } else { path.receiving.acks.due(now) };
            if !is_due {
                return None;
            }
            let chosen = self.ack_carrier(path);
            let is_detour = chosen.is_some_and(|chosen| chosen != carrier);
            (is_own || chosen == Some(carrier)).then_some((path.id, is_detour))
        };
        self.paths.iter().filter_map(due).collect()
    }

    /// Whether a packet could go on a path: else no deadline that wants one may be waited for.
    pub(super) fn can_send(&self, path: &Path) -> bool {
        self.is_reachable(path.id) && path.place.amplification().has_room()
    }

    fn transmit_one(
        &mut self,
        wire: &mut Wire,
        now: Instant,
        buffer: &mut Vec<u8>,
        (id, size): (PathId, usize),
        carry: Carry,
    ) -> Option<Transmit> {
        let tuple = self.paths.get(id)?.tuple();
        wire.build(self, now, buffer, (id, size), carry)?;
        Some(single(tuple, buffer.len()))
    }

    /// A packet of `size` bytes leaves on a path.
    pub(crate) fn on_packet_out(
        &mut self,
        now: Instant,
        path: PathId,
        (packet_number, size): (u64, usize),
        asks_for_ack: bool,
    ) {
        self.note_packet(now);
        if asks_for_ack && !self.clock.asked_since_heard {
            self.clock.asked_since_heard = true;
            self.clock.last_activity = now;
        }
        if let Some(path) = self.paths.get_mut(path).filter(|_| asks_for_ack) {
            path.on_asked(now);
        }
        let size = u16::try_from(size).unwrap_or(u16::MAX);
        self.observe(now, &Fact::PacketSent { path, packet_number, size, asks_for_ack });
    }
}

/// One datagram.
pub(crate) fn single(tuple: FourTuple, length: usize) -> Transmit {
    Transmit { tuple, length, segment: length, ecn: Ecn::NotEct }
}
