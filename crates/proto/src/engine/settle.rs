//! Effects of an acknowledgement or timeout on the path, the scheduler, and the contents of packets.

use manyway_wire::PathId;

use super::Engine;
use crate::observe::{Fact, Metrics};
use crate::path::{Path, PathState};
use crate::recovery::{LostNote, Outcome};
use crate::scheduler::guard::Verdict;
use crate::{ByteCount, Instant};

/// A portion of the packets in flight on a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portion {
    /// Skips this many of the oldest.
    pub(crate) skip: usize,
    /// At most this many packets.
    pub(crate) packets: usize,
    /// Until they contain this many bytes.
    pub(crate) bytes: ByteCount,
}

impl Portion {
    pub(crate) const ALL: Self = Self { skip: 0, packets: usize::MAX, bytes: ByteCount::MAX };
}

impl Engine {
    /// Applies an acknowledgement or a timeout to a path, leaves the fate of the contents to the wire, and
    /// empties the outcome.
    pub(crate) fn settle(&mut self, now: Instant, path: PathId, outcome: &mut Outcome) {
        let lost = outcome.lost.len() as u64;
        let latest_rtt = self.paths.get(path).map(|path| path.recovery.rtt().latest());
        self.sending.on_outcome(path, latest_rtt, outcome);
        if lost > 0 || outcome.lost_bytes > ByteCount::ZERO || outcome.spurious > 0 {
            self.note_losses(now, path, outcome, lost);
        }
        if self.shared.observer.is_some() {
            self.observe_recovery(now, path, outcome);
        }
        self.settle_size(now, path, outcome);
        let fates = &mut self.notices.fates;
        if outcome.newly_acked_bytes > ByteCount::ZERO {
            fates.progress.push(path);
        }
        fates.delivered.append(&mut outcome.delivered);
        fates.lost.append(&mut outcome.lost);
        self.notices.on_settled();
        outcome.clear();
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

    /// Facts for observers alone: each lost packet, and the metrics of the path.
    fn observe_recovery(&mut self, now: Instant, id: PathId, outcome: &Outcome) {
        for lost in &outcome.lost_packets {
            let LostNote { packet_number, size, reason } = *lost;
            self.observe(now, &Fact::PacketLost { path: id, packet_number, size, reason });
        }
        let Some(path) = self.paths.get(id) else { return };
        let metrics = metrics(path);
        self.observe(now, &Fact::Metrics(metrics));
    }

    /// Reinjects elsewhere the packets in flight on a suspect path, within a budget of which each packet counts once:
    /// the capacity of the path for a round trip, and a share of the bytes sent recently (spec 6.75).
    pub(crate) fn reinject_suspect(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get(id) else { return };
        let recovery = &path.recovery;
        let pipe = recovery.delivery_rate() * recovery.rtt().minimum();
        let datagram = ByteCount(u64::from(path.mtu.current()));
        let budget = pipe.max(datagram * 10) + self.sending.suspect_budget.left(now);
        let reinjected = self.reinject(now, id, Portion { bytes: budget, ..Portion::ALL });
        self.sending.suspect_budget.on_copied(now, reinjected);
    }

    /// Reinjects elsewhere the packets in flight on a path; the originals stay in flight there. Returns the total
    /// size of the packets.
    pub(crate) fn reinject(&mut self, now: Instant, id: PathId, portion: Portion) -> ByteCount {
        let Some(path) = self.paths.get_mut(id) else { return ByteCount::ZERO };
        let (mut packets, mut reinjected) = (0, ByteCount::ZERO);
        let once = path.recovery.in_flight().skip(portion.skip).filter(|packet| !packet.reinjected);
        for packet in once.take(portion.packets) {
            if reinjected >= portion.bytes {
                break;
            }
            packet.reinjected = true;
            packets += 1;
            reinjected += packet.bytes();
            self.notices.fates.reinjected.push(packet.contents.clone());
        }
        if packets > 0 {
            self.sending.retransmit_off = Some(id);
            self.observe(now, &Fact::Reinjected { path: id, packets });
        }
        reinjected
    }

    /// Acknowledgements brought progress, and `arrived` stream bytes are in order at the peer: lets the guard park a
    /// path that does not pay, and restore it.
    pub(crate) fn on_progress(&mut self, now: Instant, arrived: ByteCount) {
        if self.config.guard && self.sending.scheduler.is_guarded() {
            for Verdict { path, is_parked, reason } in self.sending.consult_guard(now, &self.paths, arrived) {
                let state = if is_parked { PathState::Parked } else { PathState::Active };
                if self.paths.get(path).is_some_and(|path| path.state() == state) {
                    self.change_reason(now, path, reason);
                } else {
                    self.advance_path(now, path, state, reason);
                }
            }
        }
    }
}

fn metrics(path: &Path) -> Metrics {
    let recovery = &path.recovery;
    Metrics {
        path: path.id,
        latest_rtt: recovery.rtt().latest(),
        smoothed_rtt: recovery.rtt().smoothed(),
        minimum_rtt: recovery.rtt().minimum(),
        rtt_variation: recovery.rtt().variation(),
        window: recovery.window(),
        in_flight: recovery.bytes_in_flight(),
        packets_in_flight: recovery.packets_in_flight() as u64,
        pacing_rate: recovery.pacing_rate(),
        is_in_slow_start: recovery.is_in_slow_start(),
    }
}
