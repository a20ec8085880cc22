//! One arm a block, one call an arm: each block goes to its owner.

use std::time::Duration;

use manyway_wire::PathId;
use manyway_wire::mmsp2::{Block, Liveness, PathAck, Probe, ProbeAck};

use smallvec::SmallVec;

use super::input::PacketFacts;
use super::{Checked, Connection, Initiator};
use crate::congestion::{Bottleneck, Sibling};
use crate::event::Event;
use crate::io::EcnCounts;
use crate::path::{Path, PathReason, PathState, PingToken};
use crate::protection::Level;
use crate::recovery::{Outcome, ReceivedAck};
use crate::{Instant, Misuse, Violation};

impl Connection {
    pub(super) fn dispatch(&mut self, facts: &PacketFacts, block: &Block<'_>) -> Checked {
        if !may_stand_in(block, facts.level) || !self.may_come_from_peer(block) {
            return Err(Violation::UnexpectedBlock { kind: block.kind() });
        }
        match block {
            Block::Syn(_) | Block::AckNow | Block::Pad => Ok(()),
            Block::SynAck(block) => {
                self.on_syn_ack(facts, block.info);
                Ok(())
            }
            Block::Ping(block) => {
                self.on_ping(facts, block.info);
                Ok(())
            }
            Block::Pong => {
                self.on_confirmed(facts.now);
                Ok(())
            }
            Block::Handshake(block) => self.on_handshake_bytes(facts.level, block.offset, block.data),
            Block::PathAck(block) => self.on_path_ack(facts, block),
            Block::Probe(block) => {
                self.on_probe(facts, block);
                Ok(())
            }
            Block::ProbeAck(block) => {
                self.on_probe_ack(facts, block);
                Ok(())
            }
            Block::Stream(_) | Block::Message(_) => {
                self.note_data(facts);
                self.streams.on_block(block)
            }
            Block::Skip(_)
            | Block::Window(_)
            | Block::StreamWindow(_)
            | Block::StreamLimit(_)
            | Block::StreamReset(_)
            | Block::StreamStop(_)
            | Block::Blocked(_) => self.streams.on_block(block),
            // A late copy of an id for a path that is closed.
            Block::NewCid(block) if self.paths.is_spent(block.path) => Ok(()),
            Block::NewCid(block) => {
                self.ids.remote.on_new(block, PathId(self.agreed.own_path_limit))?;
                self.open_missing_paths(facts.now);
                Ok(())
            }
            Block::RetireCid(block) => self.ids.local.on_retire(block, &mut self.shared.rng),
            Block::AddAddress(block) => {
                self.on_add_address(facts, block);
                Ok(())
            }
            Block::RemoveAddress(block) => {
                self.on_remove_address(facts.now, block);
                Ok(())
            }
            Block::PathStatus(block) => {
                self.on_path_status(facts.now, block);
                Ok(())
            }
            Block::PathClose(block) => {
                self.on_path_close(facts.now, block.path);
                Ok(())
            }
            Block::PathLimit(block) => {
                self.on_path_limit(block.limit);
                Ok(())
            }
            Block::Liveness(block) => {
                self.on_liveness(facts, block);
                Ok(())
            }
            Block::Close(block) => {
                self.on_close(facts, block);
                Ok(())
            }
        }
    }

    /// spec 5.1: some blocks have one direction.
    fn may_come_from_peer(&self, block: &Block<'_>) -> bool {
        match self.side {
            Initiator::Client => !matches!(block, Block::Syn(_) | Block::Ping(_)),
            // Only servers name their addresses: nobody makes a server probe others.
            Initiator::Server => !matches!(
                block,
                Block::SynAck(_) | Block::Pong | Block::AddAddress(_) | Block::RemoveAddress(_)
            ),
        }
    }

    /// Bytes of a stream came over a path.
    fn note_data(&mut self, facts: &PacketFacts) {
        if let Some(path) = self.paths.get_mut(facts.path) {
            path.on_data_received(facts.now);
        }
    }

    fn on_path_ack(&mut self, facts: &PacketFacts, block: &PathAck<'_>) -> Checked {
        let now = facts.now;
        let mut outcome = std::mem::take(&mut self.shared.outcome);
        let result = match facts.level {
            Level::Data => self.on_data_ack(facts, block, &mut outcome),
            Level::Open | Level::SetUp => {
                let Some(setup) = &mut self.setup else { return Ok(()) };
                let space = if facts.level == Level::Open { &mut setup.open } else { &mut setup.set_up };
                let ack = ReceivedAck::new(
                    PathId::FIRST,
                    block.ranges.iter(),
                    block.delay,
                    block.receive_time_micros,
                );
                space.recovery.on_ack(now, ack, &[], &mut outcome)
            }
        };
        self.settle(now, facts.level, block.path, &mut outcome);
        self.shared.outcome = outcome;
        result
    }

    fn on_data_ack(&mut self, facts: &PacketFacts, block: &PathAck<'_>, outcome: &mut Outcome) -> Checked {
        let siblings = self.siblings(facts.now, block.path);
        // An acknowledgement of a path that is gone is late, not wrong.
        let Some(path) = self.paths.get_mut(block.path) else { return Ok(()) };
        // Over another path it only tells that the peer got something, perhaps long ago.
        let in_doubt = path.state() == PathState::Suspect && facts.path != block.path;
        let in_flight = path.space.recovery.packets_in_flight();
        let ack = ReceivedAck::new(block.path, block.ranges.iter(), block.delay, block.receive_time_micros)
            .over(facts.path)
            .with_ecn(block.ecn.map(|marks| EcnCounts { ect0: marks.ect0, ect1: marks.ect1, ce: marks.ce }));
        path.space.recovery.on_ack(facts.now, ack, &siblings, outcome)?;
        if outcome.progress && !in_doubt {
            path.silence.on_progress(facts.now, in_flight);
            path.cancel_probes();
            let recovery = &path.space.recovery;
            if recovery.packets_in_flight() == 0 {
                path.silence.on_pause();
            }
            let (smoothed, largest) = (recovery.rtt().smoothed(), recovery.largest_acked());
            path.space.acks.set_rtt(smoothed);
            self.protector.on_acked(facts.now, block.path, largest.unwrap_or_default());
            if path.state() == PathState::Suspect {
                let working = path.working_state();
                self.clear_suspicion(facts.now, block.path, working);
            }
        }
        Ok(())
    }

    /// What the controller of a path learns of the other live ones.
    pub(super) fn siblings(&mut self, now: Instant, id: PathId) -> SmallVec<[Sibling; 8]> {
        self.paths.judge_bottlenecks(now);
        let others = self.paths.iter().filter(|path| path.id != id && path.is_live());
        let sibling = |path: &Path| {
            // The window of a path that carries nothing takes nothing from anybody.
            let bottleneck =
                if rests(path, now) { Bottleneck::Other } else { self.paths.bottleneck_of([id, path.id]) };
            path.space.recovery.as_sibling().with_bottleneck(bottleneck)
        };
        others.map(sibling).collect()
    }

    fn on_probe(&mut self, facts: &PacketFacts, block: &Probe) {
        let Some(path) = self.paths.get_mut(facts.path) else { return };
        path.push_answer(facts.now, facts.tuple, block.nonce);
    }

    fn on_probe_ack(&mut self, facts: &PacketFacts, block: &ProbeAck) {
        let Some(path) = self.paths.get_mut(facts.path) else { return };
        let answer =
            match path.pings_mut().and_then(|pings| pings.on_answer(facts.now, &facts.tuple, block.nonce)) {
                Some((token, answer)) => {
                    self.events.push(Event::Pong { path: facts.path, token, rtt: answer.rtt });
                    Some(answer)
                }
                None => path.prober.on_answer(facts.now, &facts.tuple, block.nonce),
            };
        let Some(answer) = answer else {
            return self.manager.on_survey_answer(facts.now, &facts.tuple, block.nonce);
        };
        self.manager.on_answered(answer.tuple.remote);
        let address = block.observed;
        if address != facts.tuple.local.address {
            self.events.push(Event::AddressObserved { path: facts.path, address });
        }
        self.on_path_answered(facts.now, facts.path, answer);
    }

    fn on_liveness(&mut self, facts: &PacketFacts, block: &Liveness) {
        match *block {
            Liveness::Question { path } => {
                let Some(asked) = self.paths.get_mut(path) else { return };
                // The answer carries the newest acknowledgement of that path with it.
                asked.space.acks.force();
                let received = &asked.space.received;
                let age = received.largest_time().map_or_else(Default::default, |at| facts.now - at);
                let answer = Liveness::Answer { path, largest: received.largest(), age };
                self.control.send_liveness(answer);
            }
            Liveness::Answer { path, largest, age } => self.on_liveness_answer(facts.now, path, largest, age),
        }
    }

    /// Asks once how far the peer is on a path; the answer is an [`Event::Pong`]. The question goes out whatever the state
    /// of the path and is never repeated; a lost one has no answer. At most 256 questions of a path wait for theirs;
    /// beyond that the oldest is forgotten. While the path has no id of the peer, or its address was named by the
    /// peer alone or proved nothing yet, it waits. Costs about 40 bytes in each direction.
    ///
    /// # Errors
    /// If there is no such path, or the connection is not established.
    pub fn ping(&mut self, path: PathId) -> Result<PingToken, Misuse> {
        self.check_usable()?;
        let path = self.paths.get_mut(path).ok_or(Misuse::UnknownPath { path })?;
        Ok(path.wish_ping())
    }

    /// A path closed by the application.
    ///
    /// # Errors
    /// If there is no such path.
    pub fn close_path(&mut self, now: Instant, path: PathId) -> Result<(), Misuse> {
        if self.paths.get(path).is_none() {
            return Err(Misuse::UnknownPath { path });
        }
        self.close_own_path(now, path, PathReason::ClosedByApplication);
        Ok(())
    }
}

/// spec 5.2: the set-up's packets carry only what the set-up needs.
fn may_stand_in(block: &Block<'_>, level: Level) -> bool {
    match block {
        Block::PathAck(_) | Block::Pad | Block::Close(_) | Block::AckNow => true,
        Block::Handshake(_) | Block::Ping(_) => level != Level::Data,
        Block::Syn(_) | Block::SynAck(_) => level == Level::Open,
        Block::Pong
        | Block::Probe(_)
        | Block::ProbeAck(_)
        | Block::Stream(_)
        | Block::Message(_)
        | Block::Skip(_)
        | Block::Window(_)
        | Block::StreamWindow(_)
        | Block::StreamLimit(_)
        | Block::StreamReset(_)
        | Block::StreamStop(_)
        | Block::Blocked(_)
        | Block::NewCid(_)
        | Block::RetireCid(_)
        | Block::AddAddress(_)
        | Block::RemoveAddress(_)
        | Block::PathStatus(_)
        | Block::PathClose(_)
        | Block::Liveness(_)
        | Block::PathLimit(_) => level == Level::Data,
    }
}

/// Whether a path that carried bytes of streams has not done so for a while, and has nothing on its way.
fn rests(path: &Path, now: Instant) -> bool {
    path.last_data().is_some_and(|at| now - at > RESTS_AFTER) && path.space.recovery.packets_in_flight() == 0
}

/// After so long without bytes of streams a path is none that competes.
const RESTS_AFTER: Duration = Duration::from_secs(1);
