//! Tells the owners of what a packet carried that it arrived or got lost.

use manyway_wire::PathId;
use smallvec::SmallVec;

use super::Connection;
use crate::observe::{Fact, Metrics};
use crate::packet::content::SentContent;
use crate::path::{Path, PathState};
use crate::protection::Level;
use crate::recovery::{LostNote, Outcome};
use crate::scheduler::Event;
use crate::scheduler::guard::{Candidate, Guard, Verdict};
use crate::{ByteCount, Instant};

/// Which of the packets in flight on a path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portion {
    /// Not these, the oldest.
    pub(super) skip: usize,
    /// At most so many.
    pub(super) packets: usize,
    /// Until they have so many bytes.
    pub(super) bytes: ByteCount,
}

impl Portion {
    pub(super) const ALL: Self = Self { skip: 0, packets: usize::MAX, bytes: ByteCount::MAX };
}

impl Connection {
    /// Hands the outcome of an acknowledgement or a timeout to everybody whom it concerns, and empties it.
    pub(super) fn settle(&mut self, now: Instant, level: Level, path: PathId, outcome: &mut Outcome) {
        self.streams.on_time(now);
        for content in outcome.delivered.drain(..).flatten() {
            self.on_content_delivered(level, &content);
        }
        let lost = outcome.lost.len() as u64;
        if level == Level::Data {
            self.tell_scheduler(path, outcome);
        }
        for content in outcome.lost.drain(..).flatten() {
            self.on_content_lost(level, &content);
        }
        if level == Level::Data && (lost > 0 || outcome.lost_bytes > ByteCount::ZERO || outcome.spurious > 0)
        {
            self.note_losses(now, path, outcome, lost);
        }
        if level == Level::Data {
            if self.shared.observer.is_some() {
                self.observe_recovery(now, path, outcome);
            }
            self.settle_size(now, path, outcome);
        }
        let progress = level == Level::Data && outcome.newly_acked_bytes > ByteCount::ZERO;
        outcome.clear();
        self.tune_windows(now);
        if progress && self.config.guard && self.sending.scheduler.is_guarded() {
            self.ask_guard(now);
        }
        if progress {
            self.tell_rate(now, path);
        }
    }

    fn tell_scheduler(&mut self, id: PathId, outcome: &Outcome) {
        let carries_bytes = |content: &SentContent| {
            matches!(content, SentContent::Stream { .. } | SentContent::Message { .. })
        };
        if outcome.lost.iter().flatten().any(carries_bytes) {
            self.sending.repeats_from = Some(id);
        }
        let Some(path) = self.paths.get(id) else { return };
        let latest_rtt = path.space.recovery.rtt().latest();
        if outcome.newly_acked_bytes > ByteCount::ZERO {
            let bytes = outcome.newly_acked_bytes;
            self.sending.scheduler.on_event(&Event::Acked { path: id, bytes, latest_rtt });
        }
        if outcome.lost_bytes > ByteCount::ZERO {
            self.sending.scheduler.on_event(&Event::Lost { path: id, bytes: outcome.lost_bytes });
        }
    }

    fn note_losses(&mut self, now: Instant, id: PathId, outcome: &Outcome, lost: u64) {
        let packets = lost;
        let spurious = u64::from(outcome.spurious);
        if let Some(path) = self.paths.get_mut(id) {
            path.count_lost(packets, spurious);
        }
        if packets > 0 {
            let bytes = outcome.lost_bytes;
            self.observe(now, &Fact::PacketsLost { path: id, packets, bytes });
        }
        if spurious > 0 {
            self.observe(now, &Fact::SpuriousLoss { path: id, packets: spurious });
        }
    }

    /// What only observers hear: each lost packet, and the figures of the path.
    fn observe_recovery(&mut self, now: Instant, id: PathId, outcome: &Outcome) {
        for lost in &outcome.lost_packets {
            let LostNote { packet_number, size, reason } = *lost;
            self.observe(now, &Fact::PacketLost { path: id, packet_number, size, reason });
        }
        let Some(path) = self.paths.get(id) else { return };
        let recovery = &path.space.recovery;
        let metrics = Metrics {
            path: id,
            latest_rtt: recovery.rtt().latest(),
            smoothed_rtt: recovery.rtt().smoothed(),
            minimum_rtt: recovery.rtt().minimum(),
            rtt_variation: recovery.rtt().variation(),
            window: recovery.window(),
            in_flight: recovery.bytes_in_flight(),
            packets_in_flight: recovery.packets_in_flight() as u64,
            pacing_rate: recovery.pacing_rate(),
            is_in_slow_start: recovery.is_in_slow_start(),
        };
        self.observe(now, &Fact::Metrics(metrics));
    }

    fn on_content_delivered(&mut self, level: Level, content: &SentContent) {
        match content {
            SentContent::Handshake { .. } => {
                if let Some(setup) = &mut self.setup {
                    setup.handshake.on_delivered(level, content);
                }
            }
            SentContent::PathAck { path: acked, largest } => {
                let space = match level {
                    Level::Open => self.setup.as_mut().map(|setup| &mut setup.open),
                    Level::SetUp => self.setup.as_mut().map(|setup| &mut setup.set_up),
                    Level::Data => self.paths.get_mut(*acked).map(|path| &mut path.space),
                };
                if let Some(space) = space {
                    space.received.on_ack_delivered(*largest);
                }
            }
            SentContent::Stream { .. }
            | SentContent::Message { .. }
            | SentContent::Skip { .. }
            | SentContent::Window
            | SentContent::StreamWindow { .. }
            | SentContent::StreamLimit
            | SentContent::StreamReset { .. }
            | SentContent::StreamStop { .. }
            | SentContent::Blocked { .. } => self.streams.on_delivered(content),
            SentContent::RetireCid { path, sequence } => self.ids.remote.on_delivered(*path, *sequence),
            SentContent::PathClose { path } => {
                // Only now its ids may lead nowhere: before, they would earn a reset of the whole connection.
                self.ids.local.forget(*path);
                self.control.on_delivered(content);
            }
            SentContent::PathStatus { .. }
            | SentContent::PathLimit
            | SentContent::AddAddress { .. }
            | SentContent::RemoveAddress { .. } => self.control.on_delivered(content),
            SentContent::Pong => self.on_pong_delivered(),
            SentContent::NewCid { .. } | SentContent::MtuProbe { .. } => {}
        }
    }

    fn on_content_lost(&mut self, level: Level, content: &SentContent) {
        match content {
            SentContent::Handshake { .. } => {
                if let Some(setup) = &mut self.setup {
                    setup.handshake.on_lost(level, content);
                }
            }
            SentContent::Stream { .. }
            | SentContent::Message { .. }
            | SentContent::Skip { .. }
            | SentContent::Window
            | SentContent::StreamWindow { .. }
            | SentContent::StreamLimit
            | SentContent::StreamReset { .. }
            | SentContent::StreamStop { .. }
            | SentContent::Blocked { .. } => self.streams.on_lost(content),
            SentContent::NewCid { path, sequence } => self.ids.local.on_lost(*path, *sequence),
            SentContent::RetireCid { path, sequence } => self.ids.remote.on_lost(*path, *sequence),
            SentContent::PathStatus { .. }
            | SentContent::PathClose { .. }
            | SentContent::PathLimit
            | SentContent::AddAddress { .. }
            | SentContent::RemoveAddress { .. }
            | SentContent::Pong => self.control.on_lost(content),
            // Acknowledgements are sent anew, not again; an MTU probe's size stands in the outcome.
            SentContent::PathAck { .. } | SentContent::MtuProbe { .. } => {}
        }
    }

    /// Sends again, elsewhere, what is in flight on a suspect path, as far as the budget goes, which each packet counts
    /// on once: the path's capacity for a round trip, and a share of what was sent lately (spec 6.26).
    pub(super) fn reinject_suspect(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get(id) else { return };
        let recovery = &path.space.recovery;
        let pipe = recovery.delivery_rate() * recovery.rtt().minimum();
        let datagram = ByteCount(u64::from(path.mtu.current()));
        let budget = pipe.max(datagram * 10) + self.sending.suspect_budget.left(now);
        let moved = self.reinject(now, id, Portion { bytes: budget, ..Portion::ALL });
        self.sending.suspect_budget.on_copied(now, moved);
    }

    /// Sends again, elsewhere, what is in flight on a path; the originals stay there, in doubt. Tells how many bytes the
    /// packets have.
    pub(super) fn reinject(&mut self, now: Instant, id: PathId, portion: Portion) -> ByteCount {
        let Some(path) = self.paths.get_mut(id) else { return ByteCount::ZERO };
        let mut contents = std::mem::take(&mut self.shared.outcome.lost);
        let mut moved = ByteCount::ZERO;
        let once = path.space.recovery.in_flight().skip(portion.skip).filter(|packet| !packet.moved);
        for packet in once.take(portion.packets) {
            if moved >= portion.bytes {
                break;
            }
            packet.moved = true;
            moved += packet.bytes();
            contents.push(packet.contents.clone());
        }
        let packets = contents.len() as u64;
        for content in contents.iter().flatten() {
            if let SentContent::Stream { .. } | SentContent::Message { .. } = content {
                self.streams.reinject(content);
            } else {
                self.on_content_lost(Level::Data, content);
            }
        }
        contents.clear();
        self.shared.outcome.lost = contents;
        if packets > 0 {
            self.sending.repeats_from = Some(id);
            self.observe(now, &Fact::Reinjected { path: id, packets });
        }
        moved
    }

    /// Lets the guard park a path that does not pay, and take it back.
    fn ask_guard(&mut self, now: Instant) {
        let guard = self.sending.guard.get_or_insert_with(|| Box::new(Guard::new()));
        if !guard.is_due(now) {
            return;
        }
        guard.end_stretch(now, self.paths.iter().map(|path| (path.id, path.space.recovery.delivered())));
        let arrived = ByteCount(self.streams.tally().arrived_in_order);
        let works =
            |path: &&Path| path.peer_ready() && matches!(path.state(), PathState::Active | PathState::Parked);
        let candidates = self.paths.iter().filter(works).map(|path| {
            let recovery = &path.space.recovery;
            let rtt = recovery.rtt();
            Candidate {
                path: path.id,
                rate: recovery.delivery_rate().min(guard.pace_of(path.id)),
                delay: rtt.smoothed() / 2,
                smoothed_rtt: rtt.smoothed(),
            }
        });
        let candidates: SmallVec<[Candidate; 8]> = candidates.collect();
        for Verdict { path, is_parked, reason } in guard.on_arrived(now, arrived, candidates.iter().copied())
        {
            let state = if is_parked { PathState::Parked } else { PathState::Active };
            if self.paths.get(path).is_some_and(|path| path.state() == state) {
                self.change_reason(now, path, reason);
            } else {
                self.advance_path(now, path, state, reason);
            }
        }
    }

    fn tune_windows(&mut self, now: Instant) {
        let longest = self
            .paths
            .iter()
            .filter(|path| path.is_live())
            .map(|path| path.space.recovery.rtt().smoothed())
            .max();
        if let Some(longest) = longest {
            self.streams.on_rtt(now, longest);
        }
    }
}
