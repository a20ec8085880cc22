//! Datagrams in: decrypts each packet, finds its path, and passes its blocks on.

use std::ops::Deref;

use manyway_wire::frame::RawBlocks;
use manyway_wire::mmsp2::{Block, HeaderForm, LongKind, ProtectedPacket, StreamData};
use manyway_wire::{ConnectionId, PathId};

use super::{Checked, Life, Mmsp2};
use crate::EncryptionLevel;
use crate::engine::{Engine, Heard};
use crate::mmsp2::protection::{Incoming, OpenError};
use crate::observe::{Direction, Fact, ObservedPacket, PacketContent};
use crate::packet::BASE_DATAGRAM;
use crate::packet::ack_policy::Demand;
use crate::packet::replay::ReplayWindow;
use crate::path::Receiving;
use crate::{Ecn, FourTuple, Instant, Side, Violation};

/// Properties of a packet while its blocks are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketFacts {
    pub(crate) level: EncryptionLevel,
    pub(crate) heard: Heard,
}

impl Deref for PacketFacts {
    type Target = Heard;

    fn deref(&self) -> &Heard {
        &self.heard
    }
}

/// Properties of the blocks of a packet.
#[derive(Debug, Clone, Copy)]
struct PacketTraits {
    demand: Demand,
    carries_more_than_probing_blocks: bool,
}

impl PacketTraits {
    fn add(&mut self, block: &Block<'_>) {
        if matches!(block, Block::AckNow) {
            self.demand = Demand::Immediate;
        } else if self.demand == Demand::None && block.is_ack_eliciting() {
            self.demand = Demand::Normal;
        }
        self.carries_more_than_probing_blocks |= !block.is_probing();
    }

    /// Adds a block with data.
    fn add_data(&mut self) {
        self.demand = self.demand.max(Demand::Normal);
        self.carries_more_than_probing_blocks = true;
    }

    /// The acknowledgement that the packet elicits, given the ECN mark in its IP header.
    fn demand(self, ecn: Ecn) -> Demand {
        match self.demand {
            Demand::Normal if ecn == Ecn::Ce => Demand::Immediate,
            Demand::None | Demand::Normal | Demand::Immediate => self.demand,
        }
    }
}

/// A datagram and its origin.
#[derive(Debug)]
pub(crate) struct Arrival<'a> {
    pub(crate) tuple: FourTuple,
    pub(crate) ecn: Ecn,
    /// The path that the destination id belongs to.
    pub(crate) path: PathId,
    /// The header of the first packet.
    pub(crate) header: ProtectedPacket,
    pub(crate) datagram: &'a mut [u8],
}

/// Packets with short headers and one destination that arrived together, each alone in its datagram.
#[derive(Debug)]
pub(crate) struct ArrivalRow<'a> {
    pub(crate) tuple: FourTuple,
    pub(crate) ecn: Ecn,
    /// The path that their destination belongs to.
    pub(crate) path: PathId,
    pub(crate) row: &'a mut [u8],
    /// Bytes of each packet except the last, which may be shorter; not 0.
    pub(crate) size: usize,
}

/// What the header of a packet says besides its level and its destination.
#[derive(Debug, Clone, Copy)]
struct Header {
    number_offset: usize,
    /// Where the sender wants to be addressed, in a long header.
    source: Option<ConnectionId>,
}

/// Takes a datagram whose id belongs to this connection.
pub(crate) fn handle_datagram(wire: &mut Mmsp2, engine: &mut Engine, now: Instant, arrival: Arrival<'_>) {
    Reception { wire, engine }.run(now, arrival);
}

/// Takes packets with short headers whose id belongs to this connection.
pub(crate) fn handle_row(wire: &mut Mmsp2, engine: &mut Engine, now: Instant, row: ArrivalRow<'_>) {
    Reception { wire, engine }.run_row(now, row);
}

/// One call of [`handle_datagram`] or [`handle_row`], with all that its steps need.
pub(super) struct Reception<'a> {
    pub(super) wire: &'a mut Mmsp2,
    pub(super) engine: &'a mut Engine,
}

impl Reception<'_> {
    /// Takes all packets of the datagram.
    fn run(&mut self, now: Instant, arrival: Arrival<'_>) {
        let Arrival { tuple, ecn, path, header, datagram } = arrival;
        let size = datagram.len();
        if !self.on_datagram(now, path, &tuple, size) {
            return;
        }
        let mut rest = datagram;
        let first = destination_of(&header);
        let mut header = Ok(header);
        while let Ok(packet) = header {
            let length = packet.length.min(rest.len());
            let (current, next) = rest.split_at_mut(length);
            // spec 4.9: packets that share a datagram share their destination
            let this = destination_of(&packet);
            let same = this == first || self.is_handshake_id(this);
            if same
                && self.engine.phase.is_open()
                && let Some((level, header)) = level_of(&packet)
            {
                self.handle_packet(
                    &PacketFacts { level, heard: Heard { now, path, tuple, datagram: size } },
                    header,
                    ecn,
                    current,
                );
            }
            rest = next;
            if rest.is_empty() {
                break;
            }
            header = manyway_wire::mmsp2::decode_protected(rest, self.wire.ids.local.id_length());
        }
        self.wire.carry_out(self.engine, now);
    }

    /// Takes all packets of the row.
    fn run_row(&mut self, now: Instant, arrival: ArrivalRow<'_>) {
        let ArrivalRow { tuple, ecn, path, row, size } = arrival;
        let header = Header { number_offset: 1 + self.wire.ids.local.id_length(), source: None };
        let heard = Heard { now, path, tuple, datagram: size };
        let mut facts = PacketFacts { level: EncryptionLevel::OneRtt, heard };
        let mut is_any_taken = false;
        for packet in row.chunks_mut(size) {
            facts.heard.datagram = packet.len();
            if self.on_datagram(now, path, &tuple, packet.len()) {
                self.handle_packet(&facts, header, ecn, packet);
                is_any_taken = true;
            }
        }
        if is_any_taken {
            self.wire.carry_out(self.engine, now);
        }
    }

    /// Notes a datagram; false if the connection is over.
    fn on_datagram(&mut self, now: Instant, path: PathId, tuple: &FourTuple, size: usize) -> bool {
        if let Life::Draining { final_close: Some(close), .. } = &mut self.wire.life {
            close.on_packet();
        }
        let is_open = self.engine.phase.is_open();
        if is_open {
            self.engine.note_packet(now);
            if let Some(path) = self.engine.paths.get_mut(path).filter(|path| path.addresses.are(tuple)) {
                path.on_datagram(now, size);
            }
        }
        is_open
    }

    /// During the handshake this end has two ids: the original destination that the client chose, and its own.
    fn is_handshake_id(&self, id: Option<ConnectionId>) -> bool {
        self.wire.handshake.as_ref().is_some_and(|handshake| {
            id == Some(handshake.original_destination) || id == Some(handshake.local_id)
        })
    }

    fn handle_packet(&mut self, facts: &PacketFacts, header: Header, ecn: Ecn, bytes: &mut [u8]) {
        let is_off_path = !self.is_expected_source(facts);
        if is_off_path
            && !(facts.level == EncryptionLevel::OneRtt && opens_off_path_packets(self.engine, facts))
        {
            return;
        }
        // spec 4.14: the client's full datagrams permit the server to answer
        let is_small = || facts.tuple.is_datagram() && facts.datagram < usize::from(BASE_DATAGRAM);
        if facts.level == EncryptionLevel::Initial && self.engine.side == Side::Server && is_small() {
            return;
        }
        let unknown_path =
            facts.level == EncryptionLevel::OneRtt && self.engine.paths.get(facts.path).is_none();
        let may_open = || {
            self.engine.side == Side::Server
                && facts.path.0 <= self.engine.limits.own_paths
                && !self.engine.paths.is_retired(facts.path)
        };
        if unknown_path && !may_open() {
            return;
        }
        if facts.level == EncryptionLevel::OneRtt && self.engine.phase.is_handshaking() {
            return;
        }
        let fresh = unknown_path.then(ReplayWindow::new);
        let known = match facts.level {
            EncryptionLevel::OneRtt => self.engine.paths.get(facts.path).map(|path| &path.receiving),
            EncryptionLevel::Initial => {
                self.wire.handshake.as_ref().map(|handshake| &handshake.initial_space.receiving)
            }
            EncryptionLevel::Handshake => {
                self.wire.handshake.as_ref().map(|handshake| &handshake.handshake_space.receiving)
            }
        };
        let Some(replay) = known.map(|known| &known.replay).or(fresh.as_ref()) else { return };
        let incoming = Incoming {
            level: facts.level,
            path: facts.path,
            number_offset: header.number_offset,
            expected: replay.next(),
        };
        let opened = match self.wire.protector.open(&incoming, bytes, replay) {
            Ok(opened) => opened,
            Err(error) => return self.on_unopened(facts, error),
        };
        if is_off_path {
            // A packet older than one already received says nothing about the present address of the peer.
            if opened.packet_number >= incoming.expected {
                self.engine.on_off_path_packet(&facts.heard);
            }
            return;
        }
        if unknown_path {
            self.engine.accept_path(&facts.heard, bytes.len());
        }
        let size = bytes.len();
        let payload = bytes.get(opened.payload.clone()).unwrap_or_default();
        self.on_opened(facts, header.source, size);
        let number = opened.packet_number;
        if opened.key_phase_changed {
            self.engine.observe(facts.now, &Fact::PeerKeyUpdate);
        }
        if self.engine.shared.observer.is_some() {
            self.show_payload(facts, number, payload, size);
        }
        let result = self.read_packet(facts, number, ecn, payload);
        match result {
            Ok(()) => {}
            // spec 4.20: any host can write an Initial packet; only an error of TLS is final
            Err(violation)
                if facts.level == EncryptionLevel::Initial && !matches!(violation, Violation::Tls { .. }) =>
            {
                tracing::debug!(reason = %violation, "Initial packet refused");
                self.wire.counts.refused += 1;
            }
            Err(violation) => self.wire.fail(self.engine, facts.now, violation),
        }
    }

    /// Passes a packet as it is without its seal to the observer.
    fn show_payload(&mut self, facts: &PacketFacts, number: u64, payload: &[u8], size: usize) {
        let observed = ObservedPacket {
            direction: Direction::Received,
            content: PacketContent::Mmsp2 { level: facts.level, payload },
            path: facts.path,
            packet_number: Some(number),
            size,
        };
        self.engine.observe_packet(facts.now, &observed);
    }

    /// Whether the source is expected: a client accepts packets only from addresses that it contacted, a server
    /// follows its client.
    fn is_expected_source(&self, facts: &PacketFacts) -> bool {
        if self.engine.side == Side::Server {
            if facts.level == EncryptionLevel::OneRtt {
                return true;
            }
            // spec 6.103: datagrams of one attempt may come from several addresses; a stream stands alone.
            let first = self.engine.paths.get(PathId::FIRST).map(|path| path.tuple());
            let fits =
                |first: FourTuple| first == facts.tuple || (first.is_datagram() && facts.tuple.is_datagram());
            return first.is_none_or(fits);
        }
        match (facts.level, self.engine.paths.get(facts.path)) {
            (EncryptionLevel::Initial | EncryptionLevel::Handshake, _) => self
                .wire
                .handshake
                .as_ref()
                .is_some_and(|handshake| handshake.attempts.contains(&facts.tuple)),
            (EncryptionLevel::OneRtt, Some(path)) => {
                path.addresses.are(&facts.tuple)
                    || path.challenger.is_target(&facts.tuple)
                    || self.engine.manager.is_checked(&facts.tuple)
            }
            (EncryptionLevel::OneRtt, None) => false,
        }
    }

    fn on_unopened(&mut self, facts: &PacketFacts, error: OpenError) {
        self.wire.counts.refused += 1;
        match error {
            OpenError::NoKeys | OpenError::Replayed => {}
            OpenError::KeyUpdate => self.wire.fail(self.engine, facts.now, Violation::KeyUpdate),
            OpenError::ReservedBits if facts.level == EncryptionLevel::Initial => {}
            OpenError::ReservedBits => self.wire.fail(self.engine, facts.now, Violation::ReservedBits),
            OpenError::Failed => {
                if self.wire.protector.integrity_exhausted() {
                    self.wire.fail(self.engine, facts.now, Violation::IntegrityLimit);
                }
            }
        }
    }

    fn on_opened(&mut self, facts: &PacketFacts, source: Option<ConnectionId>, size: usize) {
        self.wire.counts.heard = true;
        if let Life::FinSent { repeat, .. } = &mut self.wire.life {
            repeat.on_heard(facts.now);
        }
        if let Some(source) = source {
            self.on_handshake_packet(facts, source);
        }
        self.engine.on_packet_in(&facts.heard, size);
    }

    fn on_handshake_packet(&mut self, facts: &PacketFacts, source: ConnectionId) {
        let Some(handshake) = &mut self.wire.handshake else { return };
        self.engine.paths.set_reachable(PathId::FIRST, true);
        let Some(path) = self.engine.paths.get_mut(PathId::FIRST) else { return };
        match self.engine.side {
            Side::Client => {
                if handshake.remote_id.is_none() {
                    handshake.remote_id = Some(source);
                    self.wire.ids.remote.set_first(source, None);
                }
                if !handshake.attempts.is_settled() {
                    handshake.attempts.settle();
                    path.addresses.set(facts.tuple);
                    path.set_role(self.engine.manager.role_of(&facts.tuple.local));
                }
            }
            Side::Server => {
                let moved = path.tuple() != facts.tuple;
                // A peer with these keys received the response. That validates the address if the response went to no
                // other (RFC 9000, section 8.1): with several, one of them may belong to another host.
                let is_validated = facts.level == EncryptionLevel::Handshake
                    && handshake.attempts.only_candidate_is(&facts.tuple);
                if is_validated {
                    path.addresses.validate(facts.tuple);
                } else if moved
                    && (facts.level == EncryptionLevel::Handshake || !path.addresses.is_validated())
                {
                    // Another candidate of the attempts: answers the source of the newest packet, under a limit of
                    // its own.
                    path.addresses.reset(facts.tuple, facts.datagram);
                    handshake.attempts.add_candidate(facts.tuple);
                    handshake.tls.resend_all(EncryptionLevel::Initial);
                    handshake.tls.resend_all(EncryptionLevel::Handshake);
                }
            }
        }
    }

    fn read_packet(&mut self, facts: &PacketFacts, number: u64, ecn: Ecn, payload: &[u8]) -> Checked {
        let newest = self.receiving_mut(facts).is_some_and(|receiving| {
            let newest = number >= receiving.replay.next();
            receiving.replay.mark(number);
            newest
        });
        let mut traits = PacketTraits { demand: Demand::None, carries_more_than_probing_blocks: false };
        for block in RawBlocks::new(payload) {
            let block = block.map_err(Violation::Decode)?;
            // First, and not as one of all blocks, because most packets of bulk data contain nothing else.
            if block.kind == StreamData::KIND && facts.level == EncryptionLevel::OneRtt {
                traits.add_data();
                let data = StreamData::decode(block.flags, block.body).map_err(Violation::Decode)?;
                self.on_stream(facts, &data)?;
            } else {
                let block = Block::decode(block).map_err(Violation::Decode)?;
                traits.add(&block);
                self.dispatch(facts, &block)?;
            }
            if !self.engine.phase.is_open() {
                return Ok(());
            }
        }
        if let Some(receiving) = self.receiving_mut(facts) {
            let arrival = receiving.numbers.insert(number, facts.now);
            receiving.numbers.count_ecn(ecn);
            receiving.acks.on_packet(facts.now, arrival, traits.demand(ecn), payload.len());
        }
        self.engine.observe(
            facts.now,
            &Fact::PacketReceived {
                path: facts.path,
                packet_number: number,
                size: u16::try_from(payload.len()).unwrap_or(u16::MAX),
            },
        );
        if facts.level == EncryptionLevel::OneRtt && newest && traits.carries_more_than_probing_blocks {
            self.engine.follow_peer(&facts.heard);
        }
        if facts.level != EncryptionLevel::OneRtt {
            self.wire.drive_handshake(self.engine, facts.now)?;
        }
        Ok(())
    }

    fn receiving_mut(&mut self, facts: &PacketFacts) -> Option<&mut Receiving> {
        match facts.level {
            EncryptionLevel::Initial => {
                self.wire.handshake.as_mut().map(|handshake| &mut handshake.initial_space.receiving)
            }
            EncryptionLevel::Handshake => {
                self.wire.handshake.as_mut().map(|handshake| &mut handshake.handshake_space.receiving)
            }
            EncryptionLevel::OneRtt => self.engine.paths.get_mut(facts.path).map(|path| &mut path.receiving),
        }
    }
}

/// Whether a client opens a packet that came from elsewhere, to learn where its server is.
fn opens_off_path_packets(engine: &Engine, facts: &PacketFacts) -> bool {
    engine.side == Side::Client
        && !engine.phase.is_handshaking()
        && engine.paths.may_have_moved(facts.path, facts.now)
}

fn destination_of(packet: &ProtectedPacket) -> Option<ConnectionId> {
    match &packet.form {
        HeaderForm::Long { destination, .. } | HeaderForm::Short { destination } => Some(*destination),
        HeaderForm::OtherVersion { .. } | HeaderForm::VersionList { .. } => None,
    }
}

/// The level of a packet, and what else of its header counts; `None` if it is of another version.
fn level_of(packet: &ProtectedPacket) -> Option<(EncryptionLevel, Header)> {
    let (level, source) = match packet.form {
        HeaderForm::Long { kind: LongKind::Initial, source, .. } => (EncryptionLevel::Initial, Some(source)),
        HeaderForm::Long { kind: LongKind::Handshake, source, .. } => {
            (EncryptionLevel::Handshake, Some(source))
        }
        HeaderForm::Short { .. } => (EncryptionLevel::OneRtt, None),
        HeaderForm::OtherVersion { .. } | HeaderForm::VersionList { .. } => return None,
    };
    Some((level, Header { number_offset: packet.number_offset, source }))
}
