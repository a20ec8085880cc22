//! Datagrams in: open each packet, find its path, pass its blocks on.

use manyway_wire::mmsp2::{Block, Blocks, HeaderForm, LongKind, ProtectedPacket};
use manyway_wire::{ConnectionId, PathId};

use super::{Checked, Connection, Life, Setup};
use crate::observe::{Direction, Fact, ObservedPacket};
use crate::packet::ack_policy::Demand;
use crate::path::{Path, PathReason, PathState, Space};
use crate::protection::{Incoming, Level, OpenError};
use crate::{Ecn, FourTuple, Initiator, Instant, Violation};

/// What is known of a packet while its blocks are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketFacts {
    pub(crate) now: Instant,
    pub(crate) level: Level,
    pub(crate) path: PathId,
    pub(crate) tuple: FourTuple,
    /// Bytes of the whole datagram: what its source earns under the amplification limit.
    pub(crate) datagram: usize,
}

/// What the blocks of a packet were like.
#[derive(Debug, Clone, Copy)]
struct PacketTraits {
    demand: Demand,
    carries_more_than_probes: bool,
}

impl PacketTraits {
    fn add(&mut self, block: &Block<'_>) {
        if matches!(block, Block::AckNow) {
            self.demand = Demand::Immediate;
        } else if self.demand == Demand::None && block.asks_for_ack() {
            self.demand = Demand::Normal;
        }
        self.carries_more_than_probes |= !block.is_probing();
    }

    /// What the packet demands, given the mark in its IP header.
    fn demand(self, ecn: Ecn) -> Demand {
        match self.demand {
            Demand::Normal if ecn == Ecn::Ce => Demand::Immediate,
            Demand::None | Demand::Normal | Demand::Immediate => self.demand,
        }
    }
}

/// A datagram and where it came from.
#[derive(Debug)]
pub(crate) struct Arrival<'a> {
    pub(crate) tuple: FourTuple,
    pub(crate) ecn: Ecn,
    /// The path that the destination id belongs to.
    pub(crate) path: PathId,
    pub(crate) datagram: &'a mut [u8],
}

impl Connection {
    /// Takes a datagram whose id belongs to this connection.
    pub(crate) fn handle_datagram(&mut self, now: Instant, arrival: Arrival<'_>) {
        let Arrival { tuple, ecn, path, datagram } = arrival;
        if let Life::Draining { last_word: Some(word), .. } = &mut self.life {
            word.on_packet();
        }
        if !self.life.is_open() {
            return;
        }
        self.note_stir(now);
        if let Some(path) = self.paths.get_mut(path).filter(|path| path.tuple() == tuple) {
            path.on_datagram(now, datagram.len());
        }
        let size = datagram.len();
        let mut rest = datagram;
        let mut destination = None;
        while let Ok(packet) = manyway_wire::mmsp2::decode_protected(rest) {
            let length = packet.length.min(rest.len());
            let (current, next) = rest.split_at_mut(length);
            // spec 4.9: packets that share a datagram share their destination
            let this = destination_of(&packet);
            let same = *destination.get_or_insert(this) == this || self.is_setup_id(this);
            if same && self.life.is_open() {
                let facts = PacketFacts { now, level: level_of(&packet), path, tuple, datagram: size };
                self.handle_packet(&facts, &packet, ecn, current);
            }
            rest = next;
            if rest.is_empty() {
                break;
            }
        }
    }

    /// The set-up knows this end by two ids: the one that the client invented for it, and its own.
    fn is_setup_id(&self, id: Option<ConnectionId>) -> bool {
        self.setup
            .as_ref()
            .is_some_and(|setup| id == Some(setup.first_destination) || id == Some(setup.local_id))
    }

    fn handle_packet(&mut self, facts: &PacketFacts, packet: &ProtectedPacket, ecn: Ecn, bytes: &mut [u8]) {
        let (HeaderForm::Long { .. } | HeaderForm::Short { .. }) = packet.form else { return };
        let is_stray = !self.is_expected_source(facts);
        if is_stray && !self.heeds_strays(facts) {
            return;
        }
        // spec 4.14: a server's answers are paid for by full datagrams
        let small = facts.datagram < usize::from(super::BASE_DATAGRAM);
        if self.side == Initiator::Server && facts.level == Level::Open && small {
            return;
        }
        let unknown_path = facts.level == Level::Data && self.paths.get(facts.path).is_none();
        let may_open = self.side == Initiator::Server
            && facts.path.0 <= self.agreed.own_path_limit
            && !self.paths.is_spent(facts.path);
        if unknown_path && !may_open {
            return;
        }
        let fresh = unknown_path.then(|| self.another_space(facts.path));
        let space = match (&fresh, facts.level) {
            (Some(space), _) => Some(space),
            (None, Level::Data) => self.paths.get(facts.path).map(|path| &path.space),
            (None, Level::Open) => self.setup.as_ref().map(|setup| &setup.open),
            (None, Level::SetUp) => self.setup.as_ref().map(|setup| &setup.set_up),
        };
        let Some(space) = space.filter(|_| facts.level != Level::Data || !self.is_handshaking()) else {
            return;
        };
        let incoming = Incoming {
            level: facts.level,
            path: facts.path,
            number_offset: packet.number_offset,
            expected: space.replay.next(),
        };
        let opened = match self.protector.open(&incoming, bytes, &space.replay) {
            Ok(opened) => opened,
            Err(error) => return self.on_unopened(facts, error),
        };
        if is_stray {
            // What was sent before something that arrived tells nothing of where the peer is now.
            if opened.packet_number >= incoming.expected {
                self.on_stray(facts);
            }
            return;
        }
        if let Some(space) = fresh {
            self.accept_path(facts, space, bytes.len());
        }
        let size = bytes.len();
        let payload = bytes.get(opened.payload.clone()).unwrap_or_default();
        self.on_opened(facts, packet, size);
        let number = opened.packet_number;
        if opened.key_phase_changed {
            self.observe(facts.now, &Fact::PeerKeyUpdate);
        }
        let observed = ObservedPacket {
            direction: Direction::Received,
            level: facts.level,
            path: facts.path,
            packet_number: number,
            size,
            payload,
        };
        self.observe_packet(facts.now, &observed);
        let result = self.read_packet(facts, number, ecn, payload);
        match result {
            Ok(()) => {}
            // spec 4.20: anybody can write an open packet; only what TLS refuses can not be taken back
            Err(violation) if facts.level == Level::Open && !matches!(violation, Violation::Tls { .. }) => {
                tracing::debug!(reason = %violation, "open packet refused");
                self.counts.refused += 1;
            }
            Err(violation) => self.fail(facts.now, violation),
        }
    }

    /// Clients hear servers only from where they asked them; servers learn where clients are.
    fn is_expected_source(&self, facts: &PacketFacts) -> bool {
        if self.side == Initiator::Server {
            return true;
        }
        match (facts.level, self.paths.get(facts.path)) {
            (Level::Open | Level::SetUp, _) => {
                self.setup.as_ref().is_some_and(|setup| setup.race.contains(&facts.tuple))
            }
            (Level::Data, Some(path)) => {
                path.tuple() == facts.tuple
                    || path.prober.is_target(&facts.tuple)
                    || self.manager.is_surveyed(&facts.tuple)
            }
            (Level::Data, None) => false,
        }
    }

    fn on_unopened(&mut self, facts: &PacketFacts, error: OpenError) {
        self.counts.refused += 1;
        match error {
            OpenError::NoKeys | OpenError::Replayed => {}
            OpenError::KeyUpdate => self.fail(facts.now, Violation::KeyUpdate),
            OpenError::ReservedBits if facts.level == Level::Open => {}
            OpenError::ReservedBits => self.fail(facts.now, Violation::ReservedBits),
            OpenError::Failed => {
                if self.protector.integrity_exhausted() {
                    self.fail(facts.now, Violation::IntegrityLimit);
                }
            }
        }
    }

    fn accept_path(&mut self, facts: &PacketFacts, space: Space, size: usize) {
        let role = self.manager.role_of(&facts.tuple.local);
        let mut path = Path::new(facts.path, facts.tuple, role, space, facts.now);
        // The datagram came before the path, so nobody has counted it yet.
        path.place.on_received(size);
        self.paths.insert(path);
        self.report_opened(facts.now, facts.path, PathReason::OpenedByPeer);
        if let Some(path) = self.paths.get_mut(facts.path) {
            path.prober.start(facts.now, vec![facts.tuple], None);
        }
    }

    fn on_opened(&mut self, facts: &PacketFacts, packet: &ProtectedPacket, size: usize) {
        self.counts.heard = true;
        self.clock.last_activity = facts.now;
        self.clock.asked_since_heard = false;
        if let Life::FinSent { repeat, .. } = &mut self.life {
            repeat.on_heard();
        }
        if let HeaderForm::Long { source, .. } = packet.form {
            self.on_setup_packet(facts, source);
        }
        if let Some(path) = self.paths.get_mut(facts.path) {
            path.count_received(size);
            // The answer of another pair tells nothing of this one; a server follows its client (spec 6.30).
            if self.side == Initiator::Client
                && path.tuple() != facts.tuple
                && !path.prober.is_target(&facts.tuple)
            {
                return;
            }
            path.on_heard(facts.now);
            if path.state() == PathState::Dead {
                path.prober.hurry(facts.now);
            }
        }
    }

    fn on_setup_packet(&mut self, facts: &PacketFacts, source: ConnectionId) {
        let Some(setup) = &mut self.setup else { return };
        let Some(path) = self.paths.get_mut(PathId::FIRST) else { return };
        match self.side {
            Initiator::Client => {
                if setup.remote_id.is_none() {
                    setup.remote_id = Some(source);
                    self.ids.remote.set_first(source, None);
                }
                if !setup.race.is_settled() {
                    setup.race.settle();
                    path.place.choose(facts.tuple);
                    path.set_role(self.manager.role_of(&facts.tuple.local));
                }
            }
            Initiator::Server => {
                let moved = path.tuple() != facts.tuple;
                // Who has these keys got our answer. It proves the address if the answer went to no other
                // (RFC 9000, section 8.1): with several, one of them may be somebody else's.
                let proven = facts.level == Level::SetUp && setup.race.only_leg_is(&facts.tuple);
                if proven {
                    path.place.prove(facts.tuple);
                } else if moved && (facts.level == Level::SetUp || !path.place.is_proven()) {
                    // Another leg of the race: answer where the newest question came from, under a limit of its own.
                    path.place.start_anew(facts.tuple, facts.datagram);
                    setup.race.add_leg(facts.tuple);
                    setup.handshake.resend_all(Level::Open);
                    setup.handshake.resend_all(Level::SetUp);
                }
            }
        }
    }

    fn read_packet(&mut self, facts: &PacketFacts, number: u64, ecn: Ecn, payload: &[u8]) -> Checked {
        let newest = self.space_mut(facts).is_some_and(|space| {
            let newest = number >= space.replay.next();
            space.replay.mark(number);
            newest
        });
        let mut traits = PacketTraits { demand: Demand::None, carries_more_than_probes: false };
        for block in Blocks::new(payload) {
            let block = block.map_err(Violation::Decode)?;
            traits.add(&block);
            self.dispatch(facts, &block)?;
            if !self.life.is_open() {
                return Ok(());
            }
        }
        if let Some(space) = self.space_mut(facts) {
            let arrival = space.received.insert(number, facts.now);
            space.received.count_ecn(ecn);
            space.acks.on_packet(facts.now, arrival, traits.demand(ecn), payload.len());
        }
        self.observe(
            facts.now,
            &Fact::PacketReceived {
                path: facts.path,
                packet_number: number,
                size: u16::try_from(payload.len()).unwrap_or(u16::MAX),
            },
        );
        if facts.level == Level::Data && newest && traits.carries_more_than_probes {
            self.follow_peer(facts);
        }
        if facts.level != Level::Data {
            self.drive_handshake(facts.now)?;
        }
        Ok(())
    }

    fn space_mut(&mut self, facts: &PacketFacts) -> Option<&mut Space> {
        match facts.level {
            Level::Open => self.setup.as_mut().map(|setup| &mut setup.open),
            Level::SetUp => self.setup.as_mut().map(|setup: &mut Box<Setup>| &mut setup.set_up),
            Level::Data => self.paths.get_mut(facts.path).map(|path| &mut path.space),
        }
    }
}

fn destination_of(packet: &ProtectedPacket) -> Option<ConnectionId> {
    match &packet.form {
        HeaderForm::Long { destination, .. } | HeaderForm::Short { destination } => Some(*destination),
        HeaderForm::OtherVersion { .. } | HeaderForm::VersionList { .. } => None,
    }
}

fn level_of(packet: &ProtectedPacket) -> Level {
    match packet.form {
        HeaderForm::Long { kind: LongKind::Open, .. } => Level::Open,
        HeaderForm::Long { kind: LongKind::SetUp, .. } => Level::SetUp,
        HeaderForm::Short { .. } | HeaderForm::OtherVersion { .. } | HeaderForm::VersionList { .. } => {
            Level::Data
        }
    }
}
