//! Passes each block to its owner: one arm for a block, one call in an arm.

use manyway_wire::PathId;
use manyway_wire::mmsp2::{Block, Liveness, PathAck, PathStatus, ReceiveLimit, StreamData};

use super::Checked;
use super::control::from_wire;
use super::input::{PacketFacts, Reception};
use crate::EncryptionLevel;
use crate::engine::Engine;
use crate::io::EcnCounts;
use crate::path::PathReport;
use crate::recovery::ReceivedAck;
use crate::{ByteCount, Rate, Side, Violation};

impl Reception<'_> {
    pub(crate) fn dispatch(&mut self, facts: &PacketFacts, block: &Block<'_>) -> Checked {
        if !may_stand_in(block, facts.level) || !may_come_from_peer(self.engine.side, block) {
            return Err(Violation::UnexpectedBlock { kind: block.kind() });
        }
        match block {
            Block::Syn(_) | Block::AckNow | Block::Padding => {}
            Block::SynAck(block) => self.wire.on_syn_ack(self.engine, facts, block.info),
            Block::Ping(block) => self.wire.on_ping(self.engine, facts, block.info),
            Block::Pong => self.wire.on_confirmed(self.engine, facts.now),
            Block::Crypto(block) => self.wire.on_handshake_bytes(facts.level, block.offset, block.data)?,
            Block::PathAck(block) => self.on_path_ack(facts, block)?,
            Block::Probe(block) => self.engine.on_challenge(&facts.heard, block.nonce),
            Block::ProbeAck(block) => {
                self.engine.on_challenge_answered(&facts.heard, block.nonce, block.observed);
            }
            Block::Stream(block) => self.on_stream(facts, block)?,
            Block::Message(block) => {
                self.engine.on_data_in(facts.now, facts.path);
                self.wire.streams.on_message(block)?;
            }
            Block::Skip(_)
            | Block::MaxData(_)
            | Block::MaxStreamData(_)
            | Block::MaxStreams(_)
            | Block::ResetStream(_)
            | Block::StopSending(_)
            | Block::Blocked(_) => self.wire.streams.on_block(block)?,
            // A late copy of an id for a path that is closed.
            Block::NewCid(block) if self.engine.paths.is_retired(block.path) => {}
            Block::NewCid(block) => {
                self.wire.ids.remote.on_new(block, PathId(self.engine.limits.own_paths))?;
                self.wire.tell_reach(self.engine, block.path);
                self.engine.open_missing_paths(facts.now);
            }
            Block::RetireCid(block) => self.wire.ids.local.on_retire(block, &mut self.engine.shared.rng)?,
            Block::AddAddress(block) => {
                let (peer, named) = (facts.tuple.remote.ip(), (block.id, block.sequence));
                self.engine.on_add_address(facts.now, peer, named, block.address);
            }
            Block::RemoveAddress(block) => {
                self.engine.on_remove_address(facts.now, (block.id, block.sequence));
            }
            Block::PathStatus(block) => on_path_status(self.engine, facts, block),
            Block::PathClose(block) => {
                self.engine.on_peer_closed_path(facts.now, block.path);
                self.wire.carry_out(self.engine, facts.now);
                self.wire.ids.local.forget(block.path);
            }
            Block::PathLimit(block) => {
                if block.limit > self.engine.limits.peer_paths {
                    self.engine.limits.peer_paths = block.limit;
                    self.wire.issue_ids(self.engine);
                }
            }
            Block::Liveness(block) => self.on_liveness(facts, block),
            Block::ReceiveLimit(block) => {
                let window = (block.window < ReceiveLimit::UNLIMITED).then_some(ByteCount(block.window));
                let rate = block.rate.map(Rate::from_bytes_per_second);
                self.engine.on_receive_limit((block.path, block.sequence), window, rate);
            }
            Block::TcpConnections(block) => self.wire.targets.on_tcp_connections(self.engine, block),
            Block::Close(block) => self.wire.on_close(self.engine, facts, block),
        }
        Ok(())
    }

    pub(crate) fn on_stream(&mut self, facts: &PacketFacts, block: &StreamData<'_>) -> Checked {
        self.engine.on_data_in(facts.now, facts.path);
        self.wire.streams.on_stream(block)
    }

    fn on_path_ack(&mut self, facts: &PacketFacts, block: &PathAck<'_>) -> Checked {
        let now = facts.now;
        let ranges = block.ranges.iter();
        let ack = ReceivedAck::new(block.path, ranges, block.delay, block.receive_time_micros);
        if facts.level != EncryptionLevel::OneRtt {
            return self.wire.on_handshake_ack(
                self.engine,
                facts,
                ReceivedAck { path: PathId::FIRST, ..ack },
            );
        }
        let ecn = block.ecn.map(|marks| EcnCounts { ect0: marks.ect0, ect1: marks.ect1, ce: marks.ce });
        let largest = self.engine.on_ack(now, ack.over(facts.path).with_ecn(ecn));
        if let Ok(Some(largest)) = largest {
            self.wire.protector.on_acked(now, block.path, largest);
        }
        self.wire.carry_out(self.engine, now);
        largest.map(|_| ())
    }

    fn on_liveness(&mut self, facts: &PacketFacts, block: &Liveness) {
        match *block {
            Liveness::Query { path } => {
                let Some(queried) = self.engine.paths.get_mut(path) else { return };
                // The reply carries the newest acknowledgement of that path with it.
                queried.receiving.acks.force();
                let received = &queried.receiving.numbers;
                let age = received.largest_time().map_or_else(Default::default, |at| facts.now - at);
                let answer = Liveness::Answer { path, largest: received.largest(), age };
                self.wire.control.send_liveness(answer);
            }
            Liveness::Answer { path, largest, age } => {
                self.engine.on_liveness_answer(facts.now, path, largest, age);
            }
        }
    }
}

/// spec 5.1: some blocks have one direction.
fn may_come_from_peer(side: Side, block: &Block<'_>) -> bool {
    match side {
        Side::Client => !matches!(block, Block::Syn(_) | Block::Ping(_)),
        // Only servers advertise addresses, so that no client can make a server challenge third parties.
        Side::Server => !matches!(
            block,
            Block::SynAck(_)
                | Block::Pong
                | Block::AddAddress(_)
                | Block::RemoveAddress(_)
                | Block::TcpConnections(_)
        ),
    }
}

fn on_path_status(engine: &mut Engine, facts: &PacketFacts, block: &PathStatus) {
    let rate = block.rate.map(Rate::from_bytes_per_second);
    let report = PathReport { availability: from_wire(block.state), cost: block.cost };
    engine.on_peer_status(facts.now, (block.path, block.sequence), report, rate);
}

/// spec 5.2: handshake packets carry only blocks of the handshake.
fn may_stand_in(block: &Block<'_>, level: EncryptionLevel) -> bool {
    match block {
        Block::PathAck(_) | Block::Padding | Block::Close(_) | Block::AckNow => true,
        Block::Crypto(_) | Block::Ping(_) => level != EncryptionLevel::OneRtt,
        Block::Syn(_) | Block::SynAck(_) => level == EncryptionLevel::Initial,
        Block::Pong
        | Block::Probe(_)
        | Block::ProbeAck(_)
        | Block::Stream(_)
        | Block::Message(_)
        | Block::Skip(_)
        | Block::MaxData(_)
        | Block::MaxStreamData(_)
        | Block::MaxStreams(_)
        | Block::ResetStream(_)
        | Block::StopSending(_)
        | Block::Blocked(_)
        | Block::NewCid(_)
        | Block::RetireCid(_)
        | Block::AddAddress(_)
        | Block::RemoveAddress(_)
        | Block::PathStatus(_)
        | Block::PathClose(_)
        | Block::Liveness(_)
        | Block::ReceiveLimit(_)
        | Block::PathLimit(_)
        | Block::TcpConnections(_) => level == EncryptionLevel::OneRtt,
    }
}
