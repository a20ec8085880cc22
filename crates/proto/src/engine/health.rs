//! Health of paths: silence, suspicion, death and return (spec 6).
//!
//! Suspicion is cheap: it only sends a bounded number of bytes twice, so it may come early. A path is declared dead
//! only after the peer confirms the loss, or after a probe timeout of a suspect path.

use std::time::Duration;

use manyway_wire::PathId;

use super::costs::report_of;
use super::notices::Notice;
use super::selection::is_deprecated;
use super::settle::Portion;
use super::{Engine, leaving};
use crate::path::{FEWEST_IN_FLIGHT, Path, PathReason, PathResponse, PathState};
use crate::{Detection, Instant};

/// Consecutive probe timeouts that kill a path without another beside it.
const LONE_TIMEOUTS: u32 = 3;
/// The silence needed in addition: radio links often pause for half a second, and then continue.
const LONE_SILENCE: Duration = Duration::from_secs(1);
/// Tolerance in deciding whether the peer should have received something by now.
const HEARD_SLACK: Duration = Duration::from_millis(20);
/// Consecutive probe timeouts that make a path suspect if packets arrive on it and few are in flight.
const HEARD_TIMEOUTS: u32 = 3;
/// After this many answered small challenges the size of the full ones is to blame: some full ones are lost by
/// chance.
const SMALL_ANSWERS: u32 = 3;
/// Time from a response of a flapping path to the next challenge: its outages are shorter than the waits of others.
const DWELL_CHALLENGES: Duration = Duration::from_millis(100);

impl Engine {
    /// Makes a path suspect if its silence with data in flight lasts too long while another path works.
    pub(crate) fn check_silence(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get(id).filter(|_| self.features.detection == Detection::Fast) else {
            return;
        };
        let Some(at) = path.silence_deadline().filter(|at| *at <= now) else { return };
        // Judges at the time of the deadline, as the deadline itself does: a late call would otherwise find both
        // paths of an outage silent, do nothing, and be due again at once.
        if !path.state().carries_data() || !self.paths.another_works(at, id) {
            return;
        }
        let heard = path.last_heard();
        let lasted = now - path.recovery.oldest_unacked_time().unwrap_or(heard).max(heard);
        self.suspect(now, id, PathReason::Silence { lasted });
    }

    /// Handles the probe timeout number `count` in a row.
    pub(crate) fn on_probe_timeout(&mut self, now: Instant, id: PathId, count: u32) {
        if self.features.detection == Detection::Probes {
            return on_overdue(self, now, id);
        }
        let another = self.paths.another_works(now, id);
        let reason = PathReason::ProbeTimeout { count };
        let lone = self.paths.best_live(Some(id)).is_none();
        if !lone && self.paths.get(id).is_some_and(is_deprecated) {
            // spec 6.50: other paths have replaced it, and carry what it had in flight.
            return self.close_own_path(now, id, PathReason::Replaced);
        }
        let Some(path) = self.paths.get_mut(id) else { return };
        // Packets that arrive on it say nothing about the sending direction.
        let unanswered = path.recovery.oldest_unacked_time().map_or(Duration::ZERO, |sent| now - sent);
        // The PTO probes of a lone path carry data, so they are large; beside others they are small, and their loss
        // says nothing about the size.
        let (state, heard) = (path.state(), path.is_heard(now));
        let has_little = path.recovery.packets_in_flight() < FEWEST_IN_FLIGHT;
        if count >= 2 && lone {
            path.mtu.on_silence();
            self.adopt_size(now, id);
        }
        match state {
            // spec 6.21: the round trip of a receiver grows unnoticed with the queue of the data that it receives.
            PathState::Active | PathState::Backup | PathState::Parked | PathState::Probation
                if another && heard && has_little && count < HEARD_TIMEOUTS =>
            {
                self.schedule_pto_probes(id, 1);
                self.reinject_suspect(now, id);
            }
            PathState::Active | PathState::Backup | PathState::Parked | PathState::Probation if another => {
                self.suspect(now, id, reason);
            }
            PathState::Suspect if heard => self.schedule_pto_probes(id, 1),
            PathState::Suspect => self.declare_dead(now, id, reason),
            PathState::Active | PathState::Backup | PathState::Parked | PathState::Probation
                if count >= LONE_TIMEOUTS && unanswered >= LONE_SILENCE =>
            {
                self.declare_dead(now, id, reason);
            }
            PathState::Active | PathState::Backup | PathState::Parked | PathState::Probation => {
                // TCP retransmits itself; new data would only queue behind.
                if self.paths.get(id).is_some_and(Path::is_datagram) {
                    self.schedule_pto_probes(id, 2);
                    self.reinject(now, id, Portion { packets: 2, ..Portion::ALL });
                }
            }
            PathState::Validating | PathState::Dead | PathState::Closed => {}
        }
    }

    fn schedule_pto_probes(&mut self, id: PathId, probes: u8) {
        if let Some(path) = self.paths.get_mut(id) {
            path.schedule_pto_probes(probes);
        }
    }

    pub(crate) fn suspect(&mut self, now: Instant, id: PathId, reason: PathReason) {
        if !self.advance_path(now, id, PathState::Suspect, reason) {
            return;
        }
        if let Some(path) = self.paths.get_mut(id) {
            let tuple = path.tuple();
            let wait = path.recovery.rtt().smoothed();
            path.challenger.start(now, vec![tuple], Some(wait));
            path.schedule_pto_probes(1);
            path.recovery.snapshot(now);
        }
        self.tell_status(id);
        self.notices.push(Notice::Liveness(id));
        self.reinject_suspect(now, id);
    }

    pub(crate) fn end_suspicion(&mut self, now: Instant, id: PathId) {
        if self.paths.get(id).and_then(Path::suspicion_ends).is_some_and(|at| at <= now) {
            self.declare_dead(now, id, PathReason::NoAnswer);
        }
    }

    /// A packet arrived on the suspect path itself.
    pub(crate) fn clear_suspicion(&mut self, now: Instant, id: PathId, working: PathState) {
        if self.advance_path(now, id, working, PathReason::Answered) {
            // A path that migrated meanwhile is challenged until its new address is validated.
            if let Some(path) = self.paths.get_mut(id).filter(|path| path.addresses.is_validated()) {
                path.challenger.stop();
            }
            self.tell_status(id);
        }
    }

    /// The peer reported what it last received on a suspect path.
    pub(crate) fn on_liveness_answer(
        &mut self,
        now: Instant,
        id: PathId,
        largest: Option<u64>,
        age: Duration,
    ) {
        let Some(path) = self.paths.get(id).filter(|path| path.state() == PathState::Suspect) else { return };
        let recovery = &path.recovery;
        // A larger number arrived: only the return path is broken, and the acknowledgement is under way on it. A
        // smaller number is the reply to an earlier query.
        if largest != recovery.largest_acked() {
            return;
        }
        let rtt = recovery.rtt();
        let should_be_there = rtt.smoothed() + rtt.variation() * 4 + HEARD_SLACK;
        let unheard = recovery.oldest_unacked_time().is_some_and(|sent| now - sent > should_be_there);
        if unheard && age > should_be_there {
            self.declare_dead(now, id, PathReason::PeerReceivedNothing);
        }
    }

    /// The path carries nothing any more; path challenges repeat until it answers.
    pub(crate) fn declare_dead(&mut self, now: Instant, id: PathId, reason: PathReason) {
        if !self.advance_path(now, id, PathState::Dead, reason) {
            return;
        }
        let mut outcome = std::mem::take(&mut self.shared.outcome);
        let mut targets = self.pairs().targets(id);
        if let Some(path) = self.paths.get_mut(id) {
            if !matches!(reason, PathReason::CapReached { .. }) {
                targets.retain(|target| *target != path.tuple());
                targets.insert(0, path.tuple());
            }
            let wait = path.recovery.rtt().smoothed();
            path.challenger.start(now, targets, Some(wait));
            path.cancel_pto_probes();
            path.silence.on_pause();
            path.mtu.interrupt();
            path.recovery.abandon(now, &mut outcome);
        }
        self.settle(now, id, &mut outcome);
        self.shared.outcome = outcome;
        self.tell_status(id);
    }

    /// Tells the controller of a newly validated path about the others before it sends data.
    fn on_path_validated(&mut self, now: Instant, id: PathId) {
        let subflows = self.paths.subflows(now, id);
        if let Some(path) = self.paths.get_mut(id) {
            path.recovery.on_validated(&subflows);
        }
    }

    /// A PROBE of a path was answered from one of its address pairs.
    pub(crate) fn on_path_answered(&mut self, now: Instant, id: PathId, answer: PathResponse) {
        let is_taken = self.pairs().is_taken(id, &answer.tuple);
        let Some(path) = self.paths.get_mut(id) else { return };
        if is_taken && path.tuple() != answer.tuple {
            // Another path uses these addresses meanwhile.
            return;
        }
        if path.state() != PathState::Validating && path.tuple().carrier != answer.tuple.carrier {
            // A late answer over the carrier of a copy (spec 6.102).
            return;
        }
        let usual = path.recovery.pto();
        // spec 6.41
        if path.state() == PathState::Dead && path.challenger.is_stale_response(now, &answer, usual) {
            return;
        }
        if path.tuple() == answer.tuple && path.state() != PathState::Validating {
            let before = path.addresses.fallback();
            path.on_validated();
            if before.is_some_and(|before| before.leads_elsewhere(&answer.tuple)) {
                self.reset_path(now, id);
            }
        }
        if self.lacks_proof_of_size(now, id, &answer) || self.dwells(now, id) {
            return;
        }
        let Some(path) = self.paths.get_mut(id) else { return };
        if matches!(path.state(), PathState::Suspect | PathState::Dead) && !path.peer_ready() {
            // The response outdates an earlier adverse report of the peer; a newer report may have no other path to
            // arrive by.
            path.outdate_peer_status();
        }
        match path.state() {
            PathState::Validating => {
                path.settle_at(answer.tuple);
                path.challenger.stop();
                path.recovery.seed_rtt(answer.rtt);
                let working = path.working_state();
                self.start_size_search(now, id);
                self.advance_path(now, id, working, PathReason::Validated);
                self.on_path_validated(now, id);
                self.tell_status(id);
                leaving::on_path_works(self, now, id);
            }
            PathState::Suspect => {
                let working = path.working_state();
                self.clear_suspicion(now, id, working);
            }
            PathState::Dead => {
                let same = path.tuple() == answer.tuple;
                let elsewhere = path.tuple().leads_elsewhere(&answer.tuple);
                path.addresses.validate(answer.tuple);
                path.challenger.stop();
                path.recovery.restart(now, same.then_some(answer.rtt));
                if elsewhere {
                    self.forget_size(now, id);
                }
                self.start_size_search(now, id);
                self.advance_path(now, id, PathState::Probation, PathReason::Answered);
                self.tell_status(id);
                self.close_duplicates(now, id);
                leaving::on_path_works(self, now, id);
            }
            // A response from the previous addresses proves nothing about the current ones.
            PathState::Active | PathState::Backup | PathState::Parked | PathState::Probation
                if answer.tuple != path.tuple() => {}
            PathState::Active | PathState::Backup | PathState::Parked | PathState::Probation => {
                path.challenger.stop();
            }
            PathState::Closed => {}
        }
    }

    /// A path leads through another network now: what was learnt about the old one no longer counts, and what is in
    /// flight is sent again (RFC 9000, section 9.4). This waits until the new address is validated, because otherwise
    /// any host that sends copies of packets from elsewhere could slow the path down.
    pub(crate) fn reset_path(&mut self, now: Instant, id: PathId) {
        let mut outcome = std::mem::take(&mut self.shared.outcome);
        if let Some(path) = self.paths.get_mut(id) {
            path.recovery.abandon(now, &mut outcome);
            path.recovery.restart(now, None);
        }
        self.settle(now, id, &mut outcome);
        self.shared.outcome = outcome;
        self.paths.forget_bottlenecks(id);
    }

    /// Whether a dead path that answers stays dead because only a small challenge was answered. A full one follows at
    /// once; if full ones fail, the path drops large datagrams.
    // spec 6.33
    fn lacks_proof_of_size(&mut self, now: Instant, id: PathId, answer: &PathResponse) -> bool {
        let Some(path) = self.paths.get_mut(id).filter(|path| path.state() == PathState::Dead) else {
            return false;
        };
        if answer.is_full || !path.is_datagram() || !self.features.padding {
            return false;
        }
        let small_answers = path.challenger.on_small_response(answer.tuple);
        if small_answers > SMALL_ANSWERS && path.reason() != PathReason::OnlySmall {
            self.change_reason(now, id, PathReason::OnlySmall);
        }
        true
    }

    /// Whether a dead path that answers stays dead because it flaps and another one works (spec 6.51).
    fn dwells(&mut self, now: Instant, id: PathId) -> bool {
        let does_without = |path: &Path| path.id != id && path.works(now) && !path.recovery.has_timed_out();
        let does_without = self.paths.iter().any(does_without);
        let Some(path) = self.paths.get_mut(id).filter(|path| path.state() == PathState::Dead) else {
            return false;
        };
        let Some(since) = path.challenger.answered_since() else { return false };
        let dwell = path.dwell(since).filter(|(until, _)| does_without && *until > now);
        let Some((until, times)) = dwell else { return false };
        let reason = PathReason::Flaps { times };
        path.challenger.challenge_by(until.min(now + DWELL_CHALLENGES));
        if path.reason() != reason {
            self.change_reason(now, id, reason);
        }
        true
    }

    /// Reports the availability of a path to the peer.
    pub(crate) fn tell_status(&mut self, id: PathId) {
        if let Some(path) = self.paths.get(id) {
            self.notices.push(Notice::Status(id, report_of(self, path)));
        }
    }
}

/// Data on a path are overdue, and only path challenges may tell that it failed: they are sent again, elsewhere if another
/// path works, and the wire sends a challenge.
fn on_overdue(engine: &mut Engine, now: Instant, id: PathId) {
    engine.schedule_pto_probes(id, 1);
    if engine.paths.best_live(Some(id)).is_some() {
        engine.reinject_suspect(now, id);
    } else {
        engine.reinject(now, id, Portion { packets: 2, ..Portion::ALL });
    }
    engine.notices.push(Notice::Overdue(id));
}
