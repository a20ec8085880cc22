//! Packets in: whose they are, the path that they belong to, and their blocks.

use manyway_wire::mmsp1::{Block, ErrorCode, Packet, ProbeAck, ProbeData, Response, Sack, Tag};
use manyway_wire::{DecodeError, PathId};

use super::Mmsp1;
use super::acknowledged::OnPath;
use super::closing::CloseEvent;
use super::cuts::{Flight, InFlight};
use super::reassembly::Broken;
use super::received::Taken;
use super::sack::{self, CheckedSack, NeverSent};
use super::streams::input::DataError;
use super::unnumbered::observe;
use crate::engine::{Engine, Heard, forget_packets};
use crate::observe::Direction;
use crate::path::{Path, PathReason, PathSet, PathState};
use crate::recovery::ReceivedAck;
use crate::{FourTuple, Instant, Side};

/// No path has this id: packets of no path come under it.
const NO_PATH: PathId = PathId(u32::MAX);

/// A packet and its origin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketArrival<'a> {
    pub(crate) tuple: FourTuple,
    pub(crate) packet: Packet<'a>,
    /// Bytes of the datagram.
    pub(crate) size: usize,
    /// Whether it has a PING with an INFO of this connection, be it expired.
    pub(crate) has_own_info: bool,
}

/// What a packet carries.
#[derive(Debug, Default)]
struct Content {
    /// The worst of its DATA blocks.
    data: Option<Taken>,
    /// Whether it carries anything but PROBE and PROBE-ACK.
    more_than_probing_blocks: bool,
}

impl Mmsp1 {
    /// Takes a packet under the tag of this connection, or RST or FIN-DONE with T under that of the peer.
    pub(crate) fn handle_packet(&mut self, engine: &mut Engine, now: Instant, arrival: &PacketArrival<'_>) {
        if !engine.phase.is_open() {
            return;
        }
        engine.note_packet(now);
        if engine.shared.observer.is_some() {
            let path = engine.paths.by_tuple(&arrival.tuple).unwrap_or(PathId::FIRST);
            observe(engine, now, Direction::Received, (path, arrival.packet.payload));
        }
        if !engine.phase.is_handshaking() || self.on_handshake_packet(engine, now, arrival) {
            self.on_packet(engine, now, arrival);
        }
        self.carry_out(engine, now);
    }

    fn on_packet(&mut self, engine: &mut Engine, now: Instant, arrival: &PacketArrival<'_>) {
        let &PacketArrival { tuple, packet, size, .. } = arrival;
        // spec 3.81: from any other address nothing counts.
        if !self.peer_addresses.is_peer(tuple.remote.ip()) {
            return;
        }
        let own = engine.paths.by_tuple(&tuple);
        let path = own.or_else(|| self.path_beside(engine, &tuple));
        let heard = Heard { now, path: path.unwrap_or(NO_PATH), tuple, datagram: size };
        if let Some(path) = own.and_then(|id| engine.paths.get_mut(id)) {
            path.on_datagram(now, size);
        }
        engine.on_packet_in(&heard, size);
        self.monitor.on_heard(now, heard.path);
        let mut content = Content::default();
        let mut blocks = packet.blocks();
        while let Some(block) = blocks.next() {
            match block {
                Ok(block) => self.on_block(engine, &heard, arrival, &block, &mut content),
                Err(error) => self.note_unreadable(now, blocks.kind(), &error),
            }
            if !engine.phase.is_open() {
                return;
            }
        }
        if let Some(worst) = content.data {
            engine.on_data_in(now, heard.path);
            self.sacks.on_datagram(now, path, worst, self.streams.has_gap());
        }
        if content.more_than_probing_blocks && path.is_some() {
            engine.follow_peer(&heard);
        }
        let closed = self.closing.on(now, engine.paths.longest_pto(), CloseEvent::Heard);
        self.on_closed(engine, now, closed);
    }

    /// The path of a packet that did not come between the addresses of any: the one that tries these addresses, that a
    /// PROBE between them named, or whose peer only has another port now.
    fn path_beside(&self, engine: &Engine, tuple: &FourTuple) -> Option<PathId> {
        let rebound = || {
            let mut same_hosts = engine.paths.iter().filter(|path| !path.tuple().leads_elsewhere(tuple));
            same_hosts.next().map(|path| path.id).filter(|_| engine.side == Side::Server)
        };
        engine.paths.by_target(tuple).or_else(|| self.peer_addresses.seen_between(tuple)).or_else(rebound)
    }

    fn on_block(
        &mut self,
        engine: &mut Engine,
        heard: &Heard,
        arrival: &PacketArrival<'_>,
        block: &Block<'_>,
        content: &mut Content,
    ) {
        let now = heard.now;
        if let Some(kind) = block.unrecognised() {
            self.errors.note(now, ErrorCode::UNRECOGNISED_FIELD, &kind.to_be_bytes());
        }
        content.more_than_probing_blocks |= !matches!(block, Block::Probe(_) | Block::ProbeAck(_));
        let tag = arrival.packet.header.connection;
        match block {
            Block::Data(data) => match self.streams.on_data(data) {
                Ok(heard) => {
                    content.data = content.data.max(Some(heard.taken));
                    match heard.error {
                        Some(DataError::InvalidStream) => {
                            self.errors.note(now, ErrorCode::WRONG_STREAM, &data.stream.to_be_bytes());
                        }
                        Some(DataError::NoUserData) => {
                            self.errors.note(now, ErrorCode::NO_USER_DATA, &data.tseq.0.to_be_bytes());
                        }
                        None => {}
                    }
                }
                Err(Broken::Impossible) => {
                    self.fail(engine, now, ErrorCode::INVALID_FIELD, "impossible fragments");
                }
                Err(Broken::TooLarge) => {
                    self.fail(engine, now, ErrorCode::UNRECOGNISED_ERROR, "message too large");
                }
            },
            Block::Sack(block) => match sack::check(block, self.streams.cuts()) {
                Ok(checked) => self.on_acknowledged(engine, heard, &checked),
                Err(NeverSent { tseq }) => self.note_never_sent(now, Sack::KIND, tseq),
            },
            Block::Fin(block) => match sack::check_fin(block, self.streams.cuts()) {
                Ok(checked) => {
                    self.on_acknowledged(engine, heard, &checked);
                    self.on_fin(engine, now);
                }
                Err(NeverSent { tseq }) => {
                    self.note_never_sent(now, manyway_wire::mmsp1::Fin::KIND, tseq);
                }
            },
            Block::FinAck => self.on_fin_ack(engine, now, heard.tuple),
            Block::FinDone(done)
                if self.is_rightly_tagged(tag, done.reflected) && is_verified(engine, heard) =>
            {
                self.on_fin_done(engine, now);
            }
            Block::Rst(rst) if self.is_rightly_tagged(tag, rst.reflected) && is_verified(engine, heard) => {
                self.on_rst(engine, now, rst);
            }
            Block::Ping(_) if arrival.has_own_info => self.queue_pong(heard.tuple),
            Block::Probe(probe) => self.on_probe(engine, heard, probe.data),
            Block::ProbeAck(answer) => self.on_probe_ack(engine, heard, answer),
            Block::Error(report) => {
                for cause in report.causes.iter() {
                    tracing::debug!(code = %cause.code, "the peer reports an error");
                }
            }
            Block::Syn(_)
            | Block::SynAck(_)
            | Block::Ping(_)
            | Block::Pong
            | Block::FinDone(_)
            | Block::Rst(_) => {}
        }
    }

    /// Whether RST or FIN-DONE has the right tag (spec 3.117).
    pub(super) fn is_rightly_tagged(&self, tag: Tag, reflected: bool) -> bool {
        let expected = if reflected { self.peer.map(|peer| peer.tag) } else { Some(self.own.tag) };
        // While no answer to SYN has come, the own tag is the only one of the connection.
        expected.unwrap_or(self.own.tag) == tag
    }

    /// What a SACK or a FIN says of the packets of each path.
    fn on_acknowledged(&mut self, engine: &mut Engine, heard: &Heard, checked: &CheckedSack) {
        let now = heard.now;
        let acknowledged = sack::translate(checked, self.streams.cuts(), now, &engine.paths);
        self.streams.on_time(now);
        self.streams.acknowledge(&acknowledged, checked.aws);
        for OnPath { path, timed, untimed, unknown } in &acknowledged.paths {
            for (ranges, is_timed) in [(untimed, false), (timed, true)] {
                if ranges.is_empty() {
                    continue;
                }
                self.monitor.on_answered(now, *path);
                let newest_first = ranges.iter().rev().map(|range| range.start..=range.end - 1);
                let ack = ReceivedAck::without_times(*path, newest_first).over(heard.path);
                // The numbers are this end's own: none is unsent.
                let _ = engine.on_ack(now, if is_timed { ack } else { ack.untimed() });
            }
            forget_packets(engine, *path, unknown);
        }
        self.carry_out(engine, now);
    }

    /// A PROBE of the peer: only it opens a path at a server.
    fn on_probe(&mut self, engine: &mut Engine, heard: &Heard, data: ProbeData) {
        self.peer_addresses.on_probe(heard.tuple, data);
        let path = self.path_for_probe(engine, heard, data.path);
        // An answer goes back to its source whatever path it belongs to.
        let path = path.unwrap_or_else(|| Self::any_path(engine));
        engine.on_challenge(&Heard { path, ..*heard }, data.nonce);
    }

    fn path_for_probe(&mut self, engine: &mut Engine, heard: &Heard, number: u16) -> Option<PathId> {
        if let Some(id) = engine.paths.by_tuple(&heard.tuple) {
            self.peer_addresses.set_path(number, id);
            return Some(id);
        }
        if engine.side == Side::Client {
            return engine.paths.by_target(&heard.tuple);
        }
        if let Some(id) = self.peer_addresses.path_of(number) {
            let path = engine.paths.get(id)?;
            let waits = matches!(path.state(), PathState::Validating | PathState::Dead);
            // A path that works stays where it is, unless a NAT only changed the port.
            if waits || !path.tuple().leads_elsewhere(&heard.tuple) {
                engine.follow_peer(&Heard { path: id, ..*heard });
            }
            return Some(id);
        }
        let id = engine.take_path_id().or_else(|| {
            self.make_room(engine, heard.now);
            engine.take_path_id()
        })?;
        engine.accept_path(&Heard { path: id, ..*heard }, heard.datagram);
        self.peer_addresses.set_path(number, id);
        Some(id)
    }

    /// Closes the path that has failed for the longest time: the peer cannot say which of its paths are gone.
    fn make_room(&mut self, engine: &mut Engine, now: Instant) {
        let has_failed = |path: &&Path| {
            matches!(path.state(), PathState::Dead | PathState::Validating) && path.id != PathId::FIRST
        };
        let oldest = engine.paths.iter().filter(has_failed).min_by_key(|path| path.since());
        if let Some(id) = oldest.map(|path| path.id) {
            engine.close_own_path(now, id, PathReason::Replaced);
            self.carry_out(engine, now);
        }
    }

    fn on_probe_ack(&mut self, engine: &mut Engine, heard: &Heard, answer: &ProbeAck) {
        if !self.peer_addresses.is_own(&answer.echo) {
            return;
        }
        let path = if heard.path == NO_PATH { Self::any_path(engine) } else { heard.path };
        let heard = Heard { path, ..*heard };
        if engine.on_challenge_answered(&heard, answer.echo.nonce, heard.tuple.local.address) {
            self.monitor.on_answered(heard.now, path);
            let sent_at = Instant::from_nanos(answer.echo.sent_micros.saturating_mul(1000));
            if let Some(path) = engine.paths.get_mut(path).filter(|path| !path.recovery.rtt().has_sample()) {
                path.recovery.seed_rtt(heard.now - sent_at);
            }
        }
    }

    fn note_never_sent(&mut self, now: Instant, kind: u8, tseq: manyway_wire::mmsp1::Tseq) {
        tracing::debug!(%tseq, "a TSEQ that was never sent is acknowledged");
        self.errors.note(now, ErrorCode::INVALID_FIELD, &[kind]);
    }

    /// Notes what a block of this type earns that cannot be read (spec 3.71, 3.73).
    fn note_unreadable(&mut self, now: Instant, kind: u8, error: &DecodeError) {
        let Response::Error(code) = Response::to(error) else { return };
        match (code, error) {
            (ErrorCode::NO_INFO, _) => self.errors.note(now, code, &[]),
            (_, DecodeError::AddressFamily { family, .. }) => {
                self.errors.note(now, code, &family.to_be_bytes());
            }
            _ => self.errors.note(now, code, &[kind]),
        }
    }
}

/// Whether a packet came between the addresses of a verified path (spec 3.117): SYN may name the address of another host,
/// which answers PROBE with RST.
fn is_verified(engine: &Engine, heard: &Heard) -> bool {
    let path = engine.paths.by_tuple(&heard.tuple).and_then(|id| engine.paths.get(id));
    path.is_some_and(|path| path.addresses.is_validated() && path.state() != PathState::Validating)
}

impl Flight for PathSet {
    fn packet(&self, path: PathId, number: u64) -> Option<InFlight<'_>> {
        let packet = self.get(path)?.recovery.packet(number)?;
        Some(InFlight { contents: &packet.contents, reinjected: packet.reinjected })
    }

    fn least_rtt(&self, path: PathId) -> std::time::Duration {
        self.get(path).map(|path| path.recovery.rtt().minimum()).unwrap_or_default()
    }
}
