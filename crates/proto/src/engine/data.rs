//! Stream data out: the engine asks the scheduler for each burst, and carries out its decisions.

use std::time::Duration;

use smallvec::SmallVec;

use super::carry::{Carry, Load};
use super::output::Transmitter;
use super::settle::Portion;
use crate::congestion::one_way::difference as one_way_difference;
use crate::path::Path;
use crate::recovery::Allowance;
use crate::scheduler::{Decision, Event, HeadOfLine, PathList, PathView, Source, View, background};
use crate::stream::priority::ClassFilter;
use crate::{ByteCount, Instant, Transmit};

/// How many of the oldest packets of a path are searched for the one that blocks the head of line.
const LOOKED_AT: usize = 3;

impl Transmitter<'_> {
    /// The next batch that the scheduler chooses.
    pub(crate) fn transmit_data(&mut self) -> Option<Transmit> {
        self.engine.clock.paced_until = None;
        self.engine.expire_messages(self.wire, self.now);
        let filter = match self.transmit_urgent() {
            Ok(transmit) => return Some(transmit),
            Err(filter) => filter,
        };
        match self.transmit_copies() {
            Ok(transmit) => return Some(transmit),
            Err(paced_until) => self.engine.clock.paced_until = paced_until,
        }
        let wants = self.wire.wants_data(filter);
        let mut head_of_line =
            if self.engine.sending.scheduler.sends_copies() { self.find_head_of_line() } else { None };
        if !wants && filter == ClassFilter::All {
            self.note_idle();
        }
        if !wants && head_of_line.is_none() {
            self.note_app_limited();
            return None;
        }
        let paced_until = self.look_at_paths();
        if self.engine.sending.scheduler.chooses_streams() {
            self.wire.ready_streams(filter, &mut self.engine.sending.ready);
        }
        let until = loop {
            let (paths, quantum, source) = match self.ask(head_of_line, filter) {
                Decision::Wait { until } => break until.filter(|at| *at > self.now),
                Decision::Send { path, quantum, source } => (PathList::from_iter([path]), quantum, source),
                Decision::Copy { paths, quantum, source } => (paths, quantum, source),
            };
            let Some(path) = paths.as_slice().first().copied() else { break None };
            if source == Source::Reinject {
                // Data that this path cannot carry after all stays among the retransmissions.
                let head_of_line = head_of_line.take().filter(|found| found.path != path);
                self.reinject_head_of_line(head_of_line, quantum);
                self.wire.carry_out(self.engine, self.now);
            }
            let carry = Carry { load: Load::Data, source, filter, ..Carry::default() };
            let sent = self.transmit_burst((paths, quantum), carry);
            if sent.is_some() {
                return sent;
            }
            // Nothing goes there, whatever the view says: the other paths must not wait for it.
            let chosen = self.engine.sending.views.iter_mut().find(|view| view.id == path);
            let Some(chosen) = chosen.filter(|view| view.sendable > ByteCount::ZERO) else { break None };
            chosen.sendable = ByteCount::ZERO;
        };
        if wants {
            self.note_scheduler_limited();
        } else {
            self.note_app_limited();
        }
        let moments = [self.engine.clock.paced_until, paced_until.filter(|_| wants), until];
        self.engine.clock.paced_until = moments.into_iter().flatten().min();
        None
    }

    fn ask(&mut self, head_of_line: Option<HeadOfLine>, filter: ClassFilter) -> Decision {
        let backlog = self.wire.backlog_of(filter);
        let sending = &mut self.engine.sending;
        let bounded: SmallVec<[PathView; 8]>;
        let mut view = View::new(self.now, &sending.views);
        view.backlog = backlog.backlog;
        view.deferred = backlog.deferred;
        view.retransmissions = backlog.retransmissions;
        view.retransmit_off = sending.retransmit_off.filter(|_| backlog.retransmissions > ByteCount::ZERO);
        view.credit_left = backlog.credit_left;
        view.credit_total = backlog.credit_total;
        view.copy_budget = sending.head_of_line_budget.left(self.now);
        view.next = backlog.next;
        view.ready = &sending.ready;
        view.head_of_line = head_of_line;
        if background::is_next(&view) {
            bounded = view.paths.iter().map(background::bounded).collect();
            view.paths = &bounded;
        }
        sending.scheduler.decide(&view)
    }

    /// Writes a burst as the scheduler decided it, for the first of the paths; the others get a copy next.
    fn transmit_burst(&mut self, (paths, quantum): (PathList, ByteCount), carry: Carry) -> Option<Transmit> {
        let path = paths.as_slice().first().copied()?;
        let source = carry.source;
        let transmit = self.transmit_copied((paths, quantum), carry)?;
        let bytes = ByteCount::of(transmit.length);
        self.engine.sending.scheduler.on_event(&Event::Sent { path, bytes, source });
        Some(transmit)
    }

    /// Writes a burst for the first of the paths, and queues copies of it for the others.
    pub(crate) fn transmit_copied(
        &mut self,
        (paths, quantum): (PathList, ByteCount),
        carry: Carry,
    ) -> Option<Transmit> {
        let id = paths.as_slice().first().copied()?;
        let first = self.engine.paths.get(id)?.recovery.next_packet_number();
        let transmit = self.transmit_batch((id, quantum), carry)?;
        if let Some(path) = self.engine.paths.get(id).filter(|_| paths.as_slice().len() > 1) {
            let packets: SmallVec<[_; 64]> = path.recovery.sent_since(first).collect();
            self.engine
                .sending
                .copies
                .add(paths, packets.iter().rev().flat_map(|packet| packet.contents.iter()));
        }
        Some(transmit)
    }

    /// Nothing may go now, and no path is to blame, so the guard ignores this time (spec 6.42). The guard does count
    /// it if data waits for flow-control credit that packets in flight may hold. With none in flight the peer's
    /// application holds the credit.
    fn note_idle(&mut self) {
        let in_flight = |path: &Path| path.recovery.packets_in_flight() > 0;
        if let Some(guard) = &mut self.engine.sending.guard
            && !(self.wire.is_blocked() && self.engine.paths.iter().any(in_flight))
        {
            guard.on_idle();
        }
    }

    /// The scheduler leaves available congestion window unused: samples taken now understate the paths.
    fn note_scheduler_limited(&mut self) {
        for view in self.engine.sending.views.iter().filter(|view| view.sendable > ByteCount::ZERO) {
            if let Some(path) = self.engine.paths.get_mut(view.id) {
                path.recovery.check_app_limited(self.now);
            }
        }
    }

    /// No data may be sent now: marks the samples of every path that could send as understating it.
    fn note_app_limited(&mut self) {
        for path in self.engine.paths.iter_mut() {
            path.recovery.check_app_limited(self.now);
        }
    }

    /// Updates the views of all paths for the scheduler; returns when the pacer next lets one of them send.
    pub(crate) fn look_at_paths(&mut self) -> Option<Instant> {
        let mut earliest: Option<Instant> = None;
        let reference = self.fastest_one_way();
        self.engine.sending.views.clear();
        for path in self.engine.paths.iter_mut() {
            let room = path.room();
            let (sendable, next_departure) = match path.recovery.allowance(self.now) {
                Allowance::Ready { bytes } => (bytes.min(ByteCount::of(room)), None),
                Allowance::Window => (ByteCount::ZERO, None),
                Allowance::PacedUntil(at) => (ByteCount::ZERO, Some(at)),
            };
            earliest = match (earliest, next_departure) {
                (Some(earliest), Some(at)) => Some(earliest.min(at)),
                (earliest, at) => earliest.or(at),
            };
            let mut view = path.view(self.now, self.engine.manager.terms_of(&path.tuple().local));
            view.sendable = sendable;
            view.next_departure = next_departure;
            if let (Some((fastest, delay)), Some(own)) = (reference, path.recovery.one_way(self.now)) {
                let micros = u64::from(one_way_difference(own.smallest, fastest).unsigned_abs());
                view.delay = delay + Duration::from_micros(micros) + view.present_queue(own.queue, own.age);
            }
            self.engine.sending.views.push(view);
        }
        earliest
    }

    /// The reference for one-way delays, from the path with the shortest delay without queues: its delay by a clock
    /// of its own, and half of its smallest RTT. `None` unless two paths can be compared.
    fn fastest_one_way(&self) -> Option<(u32, Duration)> {
        let mut measured = self.engine.paths.iter().filter_map(|path| {
            let recovery = &path.recovery;
            Some((recovery.one_way(self.now)?.smallest, recovery.rtt().minimum() / 2))
        });
        let first = measured.next()?;
        let mut compared = false;
        let fastest = measured.fold(first, |best, other| {
            compared = true;
            if one_way_difference(other.0, best.0) < 0 { other } else { best }
        });
        compared.then_some(fastest)
    }

    /// The oldest packet in flight that blocks the head of line; `None` if no other path can carry it.
    fn find_head_of_line(&self) -> Option<HeadOfLine> {
        if self.wire.is_idle() || self.engine.paths.iter().filter(|path| path.is_live()).nth(1).is_none() {
            return None;
        }
        let mut oldest: Option<HeadOfLine> = None;
        let mut copies = 0;
        for path in self.engine.paths.iter().filter(|path| path.state().carries_data()) {
            for packet in path.recovery.oldest().take(LOOKED_AT) {
                let Some(content) = packet.contents.iter().find(|content| self.wire.is_held_up_by(content))
                else {
                    continue;
                };
                let Some((stream, bytes)) = content.stream_data() else { continue };
                if packet.reinjected {
                    copies += 1;
                } else if oldest.is_none_or(|found| packet.time_sent() < found.sent_at) {
                    let bytes = ByteCount(bytes);
                    let sent_at = packet.time_sent();
                    oldest = Some(HeadOfLine { stream, path: path.id, bytes, sent_at, copies: 0 });
                }
            }
        }
        oldest.map(|found| HeadOfLine { copies, ..found })
    }

    /// Reinjects the packet that blocks the head of line, and its successors on the path, within the budget.
    fn reinject_head_of_line(&mut self, head_of_line: Option<HeadOfLine>, most: ByteCount) {
        let Some(head_of_line) = head_of_line else { return };
        let Some(path) = self.engine.paths.get(head_of_line.path) else { return };
        let before = path.recovery.oldest().take(LOOKED_AT);
        let skip = before.take_while(|packet| packet.time_sent() < head_of_line.sent_at).count();
        let bytes = self.engine.sending.head_of_line_budget.left(self.now).min(most);
        let reinjected =
            self.engine.reinject(self.now, head_of_line.path, Portion { skip, bytes, ..Portion::ALL });
        self.engine.sending.head_of_line_budget.on_copied(self.now, reinjected);
    }

    /// The next batch of copies on a path with available window, or when the pacer releases one.
    fn transmit_copies(&mut self) -> Result<Transmit, Option<Instant>> {
        let mut earliest: Option<Instant> = None;
        for id in self.engine.sending.copies.paths().as_slice().iter().copied() {
            let Some(path) = self.engine.paths.get_mut(id).filter(|path| path.is_live()) else {
                self.engine.sending.copies.give_up(id);
                continue;
            };
            if !self.engine.sending.copies.needs_copies(id, |content| self.wire.has_arrived(content)) {
                continue;
            }
            match path.recovery.allowance(self.now) {
                Allowance::Ready { bytes } => {
                    let carry = Carry { load: Load::Copies, ..Carry::default() };
                    if let Some(transmit) = self.transmit_batch((id, bytes), carry) {
                        return Ok(transmit);
                    }
                }
                Allowance::Window => {}
                Allowance::PacedUntil(at) => {
                    earliest = Some(earliest.map_or(at, |earliest| earliest.min(at)));
                }
            }
        }
        Err(earliest)
    }
}
