//! Turns an acknowledgement into arrivals, losses and the samples for the congestion controller.

use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_wire::PathId;

use super::PathRecovery;
use super::delivery_rate::{DeliverySnapshot, PeerTime};
use super::loss::{Verdict, judge};
use super::lost_packets::{LostBy, LostPacket};
use super::outcome::{LostNote, Outcome, ReceivedAck};
use super::persistent::is_persistent;
use super::recovery_period::{CongestionEvent, RecoveryPeriods};
use super::rounds::Round;
use super::sent_packets::{PacketKind, SentPacket};
use crate::congestion::{AckSample, Activity, CongestionSign, LossSample, LostPacketSample, Subflow};
use crate::observe::LossReason;
use crate::{ByteCount, Instant, Violation};

/// Recovery remembers packets declared lost for this many probe timeouts.
const MEMORY_OF_LOST: u32 = 2;

/// What one acknowledgement newly acknowledged, summed over its ranges.
#[derive(Debug, Default)]
struct Arrivals {
    largest: Option<u64>,
    bytes: ByteCount,
    /// The part of `bytes` that was sent after the last congestion event.
    bytes_outside_recovery: ByteCount,
    /// How many of the packets carried ECT(0).
    marked: u64,
    newest: Option<Newest>,
    /// Number and send time of the newest ACK query.
    ack_query: Option<(u64, Instant)>,
    /// Bytes of packets that had been declared lost.
    spurious_bytes: ByteCount,
    /// The part of `spurious_bytes` that was given up when the path was abandoned: the time of arrival is unknown.
    abandoned_bytes: ByteCount,
    /// Whether the last congestion event turned out to be spurious.
    undo: bool,
}

/// The path on which an acknowledgement arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReturnPath {
    /// The path that it acknowledges.
    Own,
    Another,
}

impl ReturnPath {
    fn of(path: PathId, carrier: PathId) -> Self {
        if path == carrier { Self::Own } else { Self::Another }
    }
}

/// The newest packet that was newly acknowledged.
#[derive(Debug, Clone, Copy)]
struct Newest {
    packet_number: u64,
    time_sent: Instant,
    delivery: DeliverySnapshot,
}

impl Arrivals {
    fn add(&mut self, packet: SentPacket, recovery_periods: RecoveryPeriods, out: &mut Outcome) {
        let bytes = packet.bytes();
        self.bytes += bytes;
        self.marked += u64::from(packet.marked);
        if !recovery_periods.is_in_recovery(packet.packet_number) {
            self.bytes_outside_recovery += bytes;
        }
        if self.newest.is_none_or(|newest| newest.packet_number < packet.packet_number) {
            let SentPacket { packet_number, time_sent, delivery, .. } = packet;
            self.newest = Some(Newest { packet_number, time_sent, delivery });
        }
        if packet.kind == PacketKind::MtuProbe {
            out.mtu_acked = out.mtu_acked.max(Some(packet.size));
        }
        out.delivered.push(packet.contents);
    }
}

impl PathRecovery {
    /// Handles an acknowledgement. Costs O(1) for each newly acknowledged packet, and O(log n) for each range.
    ///
    /// # Errors
    /// The peer acknowledged a packet that was never sent: it lies, and the connection has to end.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        ack: ReceivedAck<impl Iterator<Item = RangeInclusive<u64>>>,
        subflows: &[Subflow],
        out: &mut Outcome,
    ) -> Result<(), Violation> {
        self.controller.on_subflows(subflows);
        self.forget_lost(now);
        let mut arrivals = Arrivals::default();
        for range in ack.ranges {
            if let Some(packet_number) = self.sent.unsent(&range) {
                return Err(Violation::AckOfUnsent { path: ack.path, packet_number });
            }
            arrivals.largest = arrivals.largest.max(self.sent.last_on_path(&range));
            self.take_arrived(now, range, &mut arrivals, out);
        }
        let Some(largest) = arrivals.largest else { return Ok(()) };
        // spec 9.51: an acknowledgement that overtook others proves nothing about marks.
        let is_newest = self.sent.largest_acked() < Some(largest);
        self.sent.on_largest_acked(largest);
        let delivered = arrivals.bytes + (arrivals.spurious_bytes - arrivals.abandoned_bytes);
        self.rate.on_delivered(now, delivered, ack.received_at);
        self.loss_interval.on_acked(arrivals.bytes + arrivals.spurious_bytes);
        if arrivals.newest.is_some() || arrivals.spurious_bytes > ByteCount::ZERO {
            out.progress = true;
            self.last_progress = Some(now);
            self.probe_timer.on_progress(now);
        }
        let return_path = ReturnPath::of(ack.path, ack.carrier);
        let measured =
            ack.is_timed.then(|| self.measure_rtt(now, &arrivals, ack.delay, return_path)).flatten();
        let latest = measured.map(|(time_sent, rtt)| {
            let one_way = ack.received_at.map(|PeerTime(received_at)| {
                self.delays.on_sample(now, time_sent, received_at);
                self.one_way.on_sample(now, time_sent, received_at)
            });
            (rtt, one_way)
        });
        if let Some(delay) = self.one_way.return_delay(now, self.rtt.smoothed()) {
            self.rate.on_return_delay(delay);
        }
        if arrivals.undo {
            self.controller.on_spurious_loss(now);
        }
        let event_before = self.recovery_periods.current();
        let lost_before = out.lost_bytes;
        self.detect_losses(now, latest.map(|(rtt, _)| rtt), out);
        let next = self.sent.next_number();
        if self.stream.is_none() && is_newest && self.ecn.on_ack(arrivals.marked, largest, next, ack.ecn) {
            let sent_at = arrivals.newest.map_or(now, |newest| newest.time_sent);
            self.on_mark(now, largest, sent_at);
        }
        if arrivals.undo {
            arrivals.bytes_outside_recovery = arrivals.bytes;
        }
        if self.recovery_periods.current() != event_before {
            arrivals.bytes_outside_recovery = ByteCount::ZERO;
        }
        out.newly_acked_bytes += arrivals.bytes;
        self.loss_rate.on_outcome(arrivals.bytes + arrivals.spurious_bytes, ByteCount::ZERO);
        self.delays.on_outcome(arrivals.bytes + arrivals.spurious_bytes, out.lost_bytes - lost_before);
        self.tell_controller(now, &arrivals, latest, out.lost_bytes - lost_before, subflows);
        self.resume.on_ack(largest, self.sent.next_number());
        match self.rounds.on_ack(largest, self.sent.next_number(), self.sent.bytes()) {
            Some(Round::Quiet) => self.reordering.on_quiet_round(),
            Some(Round::Lossy) => self.reordering.on_lossy_round(),
            None => {}
        }
        Ok(())
    }

    /// Gives up everything in flight because the path is dead or closed. That is no sign of congestion.
    pub(crate) fn abandon(&mut self, now: Instant, out: &mut Outcome) {
        self.snapshot(now);
        while let Some(packet) = self.sent.pop_front() {
            out.lost_bytes +=
                if packet.kind == PacketKind::MtuProbe { ByteCount::ZERO } else { packet.bytes() };
            self.settle_lost(now, packet, LostBy::Abandoning, out);
        }
        self.ack_queries.forget();
        self.loss_time = None;
        self.stretch.restart(self.sent.next_index());
    }

    /// Removes a range from the packets in flight and from the packets declared lost.
    fn take_arrived(
        &mut self,
        now: Instant,
        range: RangeInclusive<u64>,
        arrivals: &mut Arrivals,
        out: &mut Outcome,
    ) {
        let largest_before = self.sent.largest_acked();
        let Self { sent, lost, large, ack_queries, recovery_periods, reordering, rtt, .. } = self;
        ack_queries.on_acked(&range, |ack_query| {
            arrivals.ack_query = arrivals.ack_query.max(Some((ack_query.packet_number, ack_query.time_sent)));
            out.delivered.push(ack_query.contents);
        });
        lost.remove_range(&range, |packet| {
            large.on_arrived(packet.packet_number, packet.size);
            arrivals.spurious_bytes += ByteCount(u64::from(packet.size));
            out.spurious += 1;
            match packet.why {
                LostBy::Detection { episode } => {
                    let distance = largest_before.unwrap_or(0).saturating_sub(packet.packet_number);
                    reordering.on_spurious(distance, now - packet.time_sent, rtt);
                    arrivals.undo |= recovery_periods.on_spurious(episode);
                }
                LostBy::MtuProbe => out.mtu_acked = out.mtu_acked.max(Some(packet.size)),
                LostBy::SuspectPeriod | LostBy::Discarding => {}
                LostBy::Abandoning => arrivals.abandoned_bytes += ByteCount(u64::from(packet.size)),
            }
            out.delivered.push(packet.contents);
        });
        sent.remove_range(range, |packet| {
            large.on_arrived(packet.packet_number, packet.size);
            arrivals.add(packet, *recovery_periods, out);
        });
    }

    /// Takes an RTT sample only if the largest packet number was newly acknowledged (RFC 9002, section 5.1). An
    /// acknowledgement over another path never lowers the minimum RTT; timers use its round trip as it is. Returns
    /// when the packet was sent, and its round trip.
    fn measure_rtt(
        &mut self,
        now: Instant,
        arrivals: &Arrivals,
        delay: Duration,
        return_path: ReturnPath,
    ) -> Option<(Instant, Duration)> {
        let is_prompt = delay <= self.probe_timer.max_ack_delay();
        let newest = arrivals.newest.map(|newest| (newest.packet_number, newest.time_sent));
        // The peer re-sends acknowledgements that a broken return path lost: while suspect, late ones give no RTT
        // sample.
        let newest = newest.filter(|(number, _)| is_prompt || !self.suspect_period.covers(*number));
        // The peer never repeats the acknowledgement of a lost ACK query: a late one is no RTT sample.
        let ack_query = arrivals.ack_query.filter(|_| is_prompt);
        let (_, time_sent) = newest.max(ack_query).filter(|(number, _)| Some(*number) == arrivals.largest)?;
        if self.woke_at.is_some_and(|woke_at| time_sent < woke_at) {
            return None;
        }
        let (sample, delay) = (now - time_sent, delay.min(self.probe_timer.max_ack_delay()));
        if return_path == ReturnPath::Another && self.rtt.has_sample() {
            self.rtt.on_mixed_sample(sample, delay);
            return Some((time_sent, sample.max(self.rtt.minimum())));
        }
        if !self.rtt.has_sample() {
            self.stretch.restart(self.sent.next_index());
        }
        self.rtt.on_sample(sample, delay);
        Some((time_sent, self.rtt.latest()))
    }

    fn tell_controller(
        &mut self,
        now: Instant,
        arrivals: &Arrivals,
        latest: Option<(Duration, Option<u32>)>,
        newly_lost: ByteCount,
        subflows: &[Subflow],
    ) {
        let Some(newest) = arrivals.newest.filter(|_| self.stream.is_none()) else { return };
        let is_measure = !self.suspect_period.covers(newest.packet_number);
        let delivery = self.rate.sample(now, newest.time_sent, &newest.delivery, &self.rtt, is_measure);
        // During a suspect period a round trip describes the path only if it is no longer than the minimum.
        let tells = |rtt| is_measure || rtt <= self.rtt.minimum();
        let (latest_rtt, latest_one_way) = latest.filter(|(rtt, _)| tells(*rtt)).unzip();
        let sample = AckSample {
            now,
            bytes: arrivals.bytes,
            bytes_outside_recovery: arrivals.bytes_outside_recovery,
            in_flight: self.sent.bytes(),
            pipe: self.rounds.pipe(),
            latest_rtt,
            latest_one_way: latest_one_way.flatten(),
            smoothed_rtt: self.rtt.smoothed(),
            rtt_variation: self.rtt.variation(),
            minimum_rtt: self.rtt.minimum(),
            largest_acked: self.sent.largest_acked().unwrap_or(newest.packet_number),
            next_packet_number: self.sent.next_number(),
            delivery_rate: delivery.rate,
            app_limited: delivery.app_limited,
            delivered: self.rate.delivered(),
            delivered_at_sent: delivery.delivered_at_sent,
            in_flight_at_sent: delivery.in_flight_at_sent,
            lost_since_sent: delivery.lost_since_sent,
            gaps_since_sent: delivery.gaps_since_sent,
            newly_lost,
            loss_interval: self.loss_interval.longest(),
        };
        self.controller.on_ack(&sample, subflows);
        if self.controller.activity() == Activity::Draining {
            self.set_app_limited();
        }
    }

    /// Declares packets lost, and sets the time of the next check. Returns how many were lost.
    ///
    /// `latest_rtt` is the round trip that the acknowledgement measured. The loop checks the oldest packets only,
    /// because every packet before a lost one is lost too.
    pub(super) fn detect_losses(
        &mut self,
        now: Instant,
        latest_rtt: Option<Duration>,
        out: &mut Outcome,
    ) -> usize {
        if self.stream.is_some() {
            return self.detect_discarded(now, out);
        }
        let thresholds = self.reordering.thresholds(&self.rtt);
        let largest_acked = self.sent.largest_acked();
        let next = self.sent.next_number();
        let mut count = 0;
        let mut lost_bytes = ByteCount::ZERO;
        let mut longest_stretch = Duration::ZERO;
        let mut event = None;
        let mut trial_failed = false;
        self.loss_time = None;
        while let Some(oldest) = self.sent.front() {
            // Skipped numbers are no packets: they add nothing to the distance.
            let left_out =
                self.sent.left_out_between(oldest.packet_number, largest_acked.unwrap_or_default());
            let number = oldest.packet_number + left_out;
            match judge(number, oldest.time_sent, largest_acked, now, thresholds) {
                Verdict::Lost => {}
                Verdict::DecideAt(time) => {
                    self.loss_time = Some(time);
                    break;
                }
                Verdict::Unknown => break,
            }
            let Some(packet) = self.sent.pop_front() else { break };
            self.ecn.on_lost(&packet, next);
            count += 1;
            longest_stretch = longest_stretch.max(self.stretch.on_lost(packet.index, packet.time_sent));
            if packet.kind == PacketKind::MtuProbe {
                self.settle_lost(now, packet, LostBy::MtuProbe, out);
                continue;
            }
            lost_bytes += packet.bytes();
            self.large.on_lost(packet.packet_number, packet.size);
            if self.suspect_period.covers(packet.packet_number) {
                self.settle_lost(now, packet, LostBy::SuspectPeriod, out);
                continue;
            }
            let congestion_event = self.recovery_periods.on_lost(packet.packet_number, next);
            if congestion_event == CongestionEvent::New {
                event = event.or(Some(packet.time_sent));
            }
            trial_failed |= self.resume.on_lost(packet.packet_number);
            self.report_lost(now, &packet, congestion_event, latest_rtt);
            let why = LostBy::Detection { episode: self.recovery_periods.current() };
            self.settle_lost(now, packet, why, out);
        }
        out.lost_bytes += lost_bytes;
        self.loss_rate.on_outcome(ByteCount::ZERO, lost_bytes);
        if lost_bytes > ByteCount::ZERO {
            out.large_lost = self.large.lost();
        }
        if let Some(sent_at) = event {
            self.on_congestion(now, sent_at, lost_bytes, trial_failed);
        }
        let timeout = self.probe_timer.timeout(&self.rtt);
        if !self.probe_timer.is_other_path_alive() && is_persistent(longest_stretch, timeout) {
            self.controller.on_persistent_congestion(now);
            self.recovery_periods.forbid_undo();
            self.stretch.restart(self.sent.next_index());
            self.rtt.forget_minimum();
        }
        count
    }

    /// On a stream, which delivers in order, what is older than an acknowledged packet has arrived, and the peer
    /// discarded it: it is sent again at once, and that is no sign of congestion. Anything newer is on its way, or the
    /// carrier is broken: then the path dies.
    fn detect_discarded(&mut self, now: Instant, out: &mut Outcome) -> usize {
        let mut count = 0;
        while self.sent.front().is_some_and(|oldest| Some(oldest.packet_number) < self.sent.largest_acked())
            && let Some(packet) = self.sent.pop_front()
        {
            count += 1;
            out.lost_bytes += packet.bytes();
            self.settle_lost(now, packet, LostBy::Discarding, out);
        }
        count
    }

    fn report_lost(
        &mut self,
        now: Instant,
        packet: &SentPacket,
        congestion_event: CongestionEvent,
        latest_rtt: Option<Duration>,
    ) {
        self.rounds.on_lost();
        self.rate.on_lost(packet.index, packet.bytes());
        self.controller.on_packet_lost(&LostPacketSample {
            now,
            packet_number: packet.packet_number,
            bytes: packet.bytes(),
            in_flight_at_sent: packet.delivery.in_flight(),
            lost_since_sent: self.rate.lost_since(&packet.delivery),
            gaps_since_sent: self.rate.gaps_since(&packet.delivery),
            gaps: self.rate.gaps(),
            delivered: self.rate.delivered(),
            begins_event: congestion_event == CongestionEvent::New,
            app_limited: packet.delivery.app_limited(),
            latest_rtt,
        });
    }

    /// Called once in a round trip.
    fn on_congestion(&mut self, now: Instant, sent_at: Instant, bytes: ByteCount, trial_failed: bool) {
        self.loss_interval.on_congestion();
        if trial_failed {
            // The resumed window was too large: the saved figures of the path no longer hold.
            let initial = self.initial_window();
            self.controller.on_restart(now, initial);
            self.recovery_periods.forbid_undo();
            return;
        }
        self.controller.on_loss(&LossSample {
            now,
            sign: CongestionSign::Loss,
            sent_at,
            bytes,
            in_flight: self.sent.bytes(),
            smoothed_rtt: self.rtt.smoothed(),
        });
    }

    /// The peer counted a packet with a congestion mark. The controller reacts once in a round trip.
    fn on_mark(&mut self, now: Instant, packet_number: u64, sent_at: Instant) {
        self.controller.on_mark(now, self.sent.bytes());
        if self.recovery_periods.on_mark(packet_number, self.sent.next_number()) == CongestionEvent::Same {
            return;
        }
        self.loss_interval.on_congestion();
        self.controller.on_loss(&LossSample {
            now,
            sign: CongestionSign::Mark,
            sent_at,
            bytes: ByteCount::ZERO,
            in_flight: self.sent.bytes(),
            smoothed_rtt: self.rtt.smoothed(),
        });
    }

    /// Reports the loss of a packet, and remembers the packet in case it arrives.
    fn settle_lost(&mut self, now: Instant, packet: SentPacket, why: LostBy, out: &mut Outcome) {
        if packet.kind == PacketKind::MtuProbe {
            out.mtu_lost = Some(out.mtu_lost.map_or(packet.size, |size| size.min(packet.size)));
        }
        if !packet.reinjected {
            out.lost.push(packet.contents.clone());
        }
        let SentPacket { packet_number, time_sent, size, contents, .. } = packet;
        let reason = match why {
            LostBy::Detection { .. } | LostBy::SuspectPeriod | LostBy::Discarding => LossReason::Detected,
            LostBy::MtuProbe => LossReason::MtuProbe,
            LostBy::Abandoning => LossReason::PathAbandoned,
        };
        out.lost_packets.push(LostNote { packet_number, size, reason });
        let lost = LostPacket { packet_number, time_sent, time_lost: now, size, why, contents };
        if let Some(forgotten) = self.lost.push(lost) {
            forget(&mut self.recovery_periods, &forgotten);
        }
    }

    /// Forgets packets that were declared lost so long ago that they will not arrive.
    pub(super) fn forget_lost(&mut self, now: Instant) {
        let keep = self.probe_timer.timeout(&self.rtt) * MEMORY_OF_LOST;
        let Self { lost, recovery_periods, .. } = self;
        lost.expire(now, keep, |packet| forget(recovery_periods, &packet));
    }
}

fn forget(recovery_periods: &mut RecoveryPeriods, packet: &LostPacket) {
    if let LostBy::Detection { episode } = packet.why {
        recovery_periods.on_really_lost(episode);
    }
}
