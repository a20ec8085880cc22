//! Carries out the notices of the engine: path reports for the peer, and content that arrived or was lost.

use super::Mmsp2;
use super::control::Control;
use crate::EncryptionLevel;
use crate::engine::notices::{Fates, Notice};
use crate::engine::{Engine, is_full, measured_rate, report_of};
use crate::packet::content::{SentContent, in_one_piece};
use crate::{ByteCount, Instant};
use manyway_wire::PathId;
use manyway_wire::mmsp2::Liveness;

/// The code of a PATH-CLOSE without a reason.
const NO_ERROR: u64 = 0;

impl Mmsp2 {
    /// Carries out the notices of the engine. Costs nothing if there are none.
    pub(crate) fn carry_out(&mut self, engine: &mut Engine, now: Instant) {
        while !engine.notices.is_empty() {
            let mut notices = engine.notices.take();
            self.settle(engine, now, &mut notices.fates);
            for notice in notices.news.drain(..) {
                self.on_notice(engine, now, notice);
            }
            engine.notices.reuse(notices);
        }
        self.target_holder(engine).follow_paths();
    }

    fn on_notice(&mut self, engine: &mut Engine, now: Instant, notice: Notice) {
        match notice {
            Notice::Status(path, report) => self.control.send_status(path, report),
            Notice::Cost(path, report) => self.control.send_cost(path, report),
            Notice::Liveness(path) => self.control.send_liveness(Liveness::Query { path }),
            Notice::Migrated(path) => {
                self.ids.remote.rotate(path);
                self.tell_reach(engine, path);
            }
            Notice::Opened(path) => self.ids.local.on_opened(path, &mut engine.shared.rng),
            Notice::Closed { path, tell } => {
                if tell {
                    self.control.send_close(path, NO_ERROR);
                }
                self.control.forget_status(path);
                self.ids.remote.forget(path);
                self.protector.forget_path(path);
                self.control.send_path_limit(engine.limits.own_paths);
                self.issue_ids(engine);
            }
            // No connection over MMSP/2 uses that detection.
            Notice::Overdue(_) => {}
            Notice::Pathless(is_pathless) => {
                if let Some(rendezvous) = &mut self.rendezvous {
                    rendezvous.set_pathless(now, is_pathless);
                }
            }
        }
    }

    /// Reports to the engine whether this end has a connection ID of the peer for a path.
    pub(super) fn tell_reach(&self, engine: &mut Engine, path: PathId) {
        engine.paths.set_reachable(path, self.ids.remote.current(path).is_some());
    }

    /// Issues ids for every path that both ends allow and that has none yet.
    pub(super) fn issue_ids(&mut self, engine: &mut Engine) {
        self.ids.local.issue_up_to(engine.limits.highest_path(), &mut engine.shared.rng);
    }

    /// Passes on the fate of the contents of packets, and triggers the reactions to progress.
    fn settle(&mut self, engine: &mut Engine, now: Instant, fates: &mut Fates) {
        self.streams.on_time(now);
        for content in in_one_piece(fates.delivered.iter().flat_map(|contents| contents.iter().copied())) {
            self.on_content_delivered(engine, EncryptionLevel::OneRtt, &content);
        }
        fates.delivered.clear();
        for content in fates.lost.drain(..).flatten() {
            self.on_content_lost(EncryptionLevel::OneRtt, &content);
        }
        for content in fates.reinjected.drain(..).flatten() {
            if let SentContent::Stream { .. } | SentContent::Message { .. } = content {
                self.streams.reinject(&content);
            } else {
                self.on_content_lost(EncryptionLevel::OneRtt, &content);
            }
        }
        if let Some(longest) = engine.paths.longest_rtt() {
            self.streams.on_rtt(now, longest);
        }
        if !fates.progress.is_empty() {
            engine.on_progress(now, ByteCount(self.streams.tally().arrived_in_order));
        }
        for path in fates.progress.drain(..) {
            report_rate(&mut self.control, engine, now, path);
        }
    }

    pub(super) fn on_content_delivered(
        &mut self,
        engine: &mut Engine,
        level: EncryptionLevel,
        content: &SentContent,
    ) {
        match content {
            SentContent::Handshake { .. } => {
                if let Some(handshake) = &mut self.handshake {
                    handshake.tls.on_delivered(level, content);
                }
            }
            SentContent::PathAck { path: acked, largest } => {
                let receiving = match level {
                    EncryptionLevel::Initial => {
                        self.handshake.as_mut().map(|handshake| &mut handshake.initial_space.receiving)
                    }
                    EncryptionLevel::Handshake => {
                        self.handshake.as_mut().map(|handshake| &mut handshake.handshake_space.receiving)
                    }
                    EncryptionLevel::OneRtt => engine.paths.get_mut(*acked).map(|path| &mut path.receiving),
                };
                if let Some(receiving) = receiving {
                    receiving.numbers.on_ack_delivered(*largest);
                }
            }
            SentContent::Stream { .. }
            | SentContent::Message { .. }
            | SentContent::Skip { .. }
            | SentContent::MaxData
            | SentContent::MaxStreamData { .. }
            | SentContent::MaxStreams
            | SentContent::ResetStream { .. }
            | SentContent::StopSending { .. }
            | SentContent::Blocked { .. } => self.streams.on_delivered(content),
            SentContent::RetireCid { path, sequence } => self.ids.remote.on_delivered(*path, *sequence),
            SentContent::PathClose { path } => {
                // Its ids may be released only now: before, packets with them would cause a reset of the whole
                // connection.
                self.ids.local.forget(*path);
                self.control.on_delivered(content);
            }
            SentContent::PathStatus { .. }
            | SentContent::PathLimit
            | SentContent::ReceiveLimit { .. }
            | SentContent::TcpConnections { .. }
            | SentContent::AddAddress { .. }
            | SentContent::RemoveAddress { .. } => self.control.on_delivered(content),
            SentContent::Pong => self.on_pong_delivered(),
            SentContent::NewCid { .. } | SentContent::MtuProbe { .. } | SentContent::Data { .. } => {}
        }
    }

    pub(super) fn on_content_lost(&mut self, level: EncryptionLevel, content: &SentContent) {
        match content {
            SentContent::Handshake { .. } => {
                if let Some(handshake) = &mut self.handshake {
                    handshake.tls.on_lost(level, content);
                }
            }
            SentContent::Stream { .. }
            | SentContent::Message { .. }
            | SentContent::Skip { .. }
            | SentContent::MaxData
            | SentContent::MaxStreamData { .. }
            | SentContent::MaxStreams
            | SentContent::ResetStream { .. }
            | SentContent::StopSending { .. }
            | SentContent::Blocked { .. } => self.streams.on_lost(content),
            SentContent::NewCid { path, sequence } => self.ids.local.on_lost(*path, *sequence),
            SentContent::RetireCid { path, sequence } => self.ids.remote.on_lost(*path, *sequence),
            SentContent::PathStatus { .. }
            | SentContent::PathClose { .. }
            | SentContent::PathLimit
            | SentContent::ReceiveLimit { .. }
            | SentContent::TcpConnections { .. }
            | SentContent::AddAddress { .. }
            | SentContent::RemoveAddress { .. }
            | SentContent::Pong => self.control.on_lost(content),
            // Acknowledgements are rebuilt, not retransmitted; the outcome contains the size of a PMTU probe.
            SentContent::PathAck { .. } | SentContent::MtuProbe { .. } | SentContent::Data { .. } => {}
        }
    }
}

/// Reports the rate of a path, if the peer requests reports and one is due.
fn report_rate(control: &mut Control, engine: &Engine, now: Instant, id: PathId) {
    let Some(path) = engine.paths.get(id) else { return };
    if !control.wants_rate(now, id, || is_full(path)) {
        return;
    }
    if let Some(rate) = measured_rate(path) {
        control.send_rate(now, id, report_of(engine, path), rate);
    }
}
