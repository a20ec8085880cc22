//! Loss recovery of one path: packet numbers, round trips, packets in flight, losses, and how much may be sent.
//!
//! Each path has its own packet number space (RFC 9002 for each path). Streams learn only by [`Outcome`] which
//! content arrived and which was lost.

mod ack_processing;
mod ack_queries;
mod config;
mod delivery_rate;
mod ecn;
mod large_packets;
mod loss;
mod loss_rate;
mod lost_packets;
mod off_path;
mod outcome;
mod pacer;
mod persistent;
mod probe_timeout;
mod receive_limit;
mod recovery_period;
mod reordering;
mod resume;
mod rounds;
mod rtt;
mod sent_packets;
mod skipped_numbers;
mod stream;
mod suspect_period;

use std::time::Duration;

use ack_queries::AckQuery;
pub use config::RecoveryConfig;
pub(crate) use delivery_rate::DeliveryRate;
#[cfg(test)]
pub(crate) use delivery_rate::{DeliverySnapshot, PeerTime};
pub use ecn::{EcnFailure, EcnState};
pub(crate) use outcome::{Allowance, LostNote, Outcome, ReceivedAck, TimeoutKind};
pub(crate) use rtt::RttEstimator;
pub(crate) use sent_packets::{PacketKind, SentPacket};
pub use stream::CarrierFigures;

use crate::congestion::one_way::{OneWay, OneWayDelay};
use crate::congestion::shared_bottleneck::DelayHistory;
use crate::congestion::{CongestionController, ControllerConfig, SentSample, Subflow};
use crate::{ByteCount, Carrier, Ecn, Instant, Rate, Rng};

/// Loss recovery, congestion control and pacing of one path.
///
/// The caller of [`Self::allowance`] then calls [`Self::take_packet_number`] and [`Self::on_sent`], in this order.
/// After each change [`Self::deadline`] gives the time at which [`Self::on_timeout`] is due.
#[derive(Debug)]
pub(crate) struct PathRecovery {
    config: RecoveryConfig,
    controller: Box<dyn CongestionController>,
    sent: sent_packets::SentPackets,
    lost: lost_packets::LostPackets,
    large: large_packets::LargePackets,
    ack_queries: ack_queries::AckQueries,
    rtt: RttEstimator,
    one_way: OneWay,
    delays: DelayHistory,
    reordering: reordering::Reordering,
    probe_timer: probe_timeout::ProbeTimer,
    recovery_periods: recovery_period::RecoveryPeriods,
    stretch: persistent::PersistentCongestion,
    rate: DeliveryRate,
    pacer: pacer::Pacer,
    rounds: rounds::Rounds,
    loss_interval: rounds::LossInterval,
    loss_rate: loss_rate::LossRate,
    resume: resume::Resume,
    suspect_period: suspect_period::SuspectPeriod,
    ecn: ecn::EcnPath,
    receive_limit: receive_limit::ReceiveLimit,
    /// On a stream carrier: it takes the place of controller, pacer, ECN and loss detection.
    stream: Option<Box<stream::StreamControl>>,
    last_progress: Option<Instant>,
    /// When the oldest packet in flight counts as lost, unless it is acknowledged before.
    loss_time: Option<Instant>,
    /// When this host last woke from sleep: packets sent before give no RTT sample.
    woke_at: Option<Instant>,
    /// When the pacer would have released data although none was ready.
    app_limited_from: Option<Instant>,
}

impl PathRecovery {
    /// A path on which nothing was sent yet.
    pub(crate) fn new(controller: Box<dyn CongestionController>, config: &RecoveryConfig) -> Self {
        Self {
            config: *config,
            controller,
            sent: sent_packets::SentPackets::new(),
            lost: lost_packets::LostPackets::default(),
            large: large_packets::LargePackets::default(),
            ack_queries: ack_queries::AckQueries::default(),
            rtt: RttEstimator::new(config.initial_rtt),
            one_way: OneWay::default(),
            delays: DelayHistory::default(),
            reordering: reordering::Reordering::new(),
            probe_timer: probe_timeout::ProbeTimer::new(config.max_ack_delay),
            recovery_periods: recovery_period::RecoveryPeriods::default(),
            stretch: persistent::PersistentCongestion::default(),
            rate: DeliveryRate::new(),
            pacer: pacer::Pacer::new(),
            rounds: rounds::Rounds::default(),
            loss_interval: rounds::LossInterval::default(),
            loss_rate: loss_rate::LossRate::default(),
            resume: resume::Resume::default(),
            suspect_period: suspect_period::SuspectPeriod::default(),
            ecn: ecn::EcnPath::default(),
            receive_limit: receive_limit::ReceiveLimit::default(),
            stream: None,
            last_progress: None,
            loss_time: None,
            woke_at: None,
            app_limited_from: None,
        }
    }

    /// Sets the carrier of a path on which no data was sent: below a stream, the system retransmits and controls
    /// congestion.
    pub(crate) fn set_carrier(&mut self, carrier: Carrier) {
        self.stream = (!carrier.is_datagram()).then(Box::default);
    }

    /// The system reports its figures of the stream carrier; they mean nothing on another one.
    pub(crate) fn on_figures(&mut self, figures: CarrierFigures) {
        if let Some(stream) = &mut self.stream {
            stream.on_figures(figures);
        }
    }

    /// The peer wants at most `window` in flight, and at most this rate; `None` does not limit.
    pub(crate) fn on_receive_limit(&mut self, sequence: u64, window: Option<ByteCount>, rate: Option<Rate>) {
        self.receive_limit.on_stated(sequence, window, rate);
    }

    /// The last figures of a stream carrier.
    pub(crate) fn figures(&self) -> Option<&CarrierFigures> {
        self.stream.as_ref()?.figures()
    }

    /// The number of the next packet.
    pub(crate) fn next_packet_number(&self) -> u64 {
        self.sent.next_number()
    }

    /// Takes the number of a packet that is about to be built.
    pub(crate) fn take_packet_number(&mut self) -> u64 {
        self.sent.take_number()
    }

    /// Skips a packet number now and then; called before each packet that carries data.
    pub(crate) fn maybe_skip_number(&mut self, rng: &mut Rng) {
        self.sent.maybe_skip_number(rng);
    }

    /// Skips the numbers below `number`, before any was taken.
    pub(crate) fn begin_at(&mut self, number: u64) {
        self.sent.begin_at(number);
    }

    /// The largest acknowledged packet number.
    pub(crate) fn largest_acked(&self) -> Option<u64> {
        self.sent.largest_acked()
    }

    /// The round-trip time.
    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// The one-way delay to the peer; `None` without a recent sample.
    pub(crate) fn one_way(&self, now: Instant) -> Option<OneWayDelay> {
        self.one_way.delay(now)
    }

    /// The ECN state of the path.
    pub(crate) fn ecn_state(&self) -> EcnState {
        if self.stream.is_some() { EcnState::Absent } else { self.ecn.state() }
    }

    /// The ECN mark that 1-RTT packets carry now.
    pub(crate) fn ecn_mark(&self) -> Ecn {
        if self.stream.is_some() { Ecn::NotEct } else { self.ecn.mark() }
    }

    /// Recently lost packets per million.
    pub(crate) fn loss_rate(&self) -> u32 {
        self.loss_rate.of_a_million()
    }

    /// When a packet was last newly acknowledged.
    pub(crate) fn last_progress(&self) -> Option<Instant> {
        self.last_progress
    }

    /// Whether a probe timeout occurred since the last arrival.
    pub(crate) fn has_timed_out(&self) -> bool {
        self.probe_timer.count > 0
    }

    /// When the delivery rate was last measured.
    pub(crate) fn rate_measured_at(&self) -> Option<Instant> {
        self.rate.measured_at()
    }

    /// Recent one-way delays to the peer.
    pub(crate) fn delays(&self) -> &DelayHistory {
        &self.delays
    }

    /// Assumes a round trip known from elsewhere until one is measured.
    pub(crate) fn seed_rtt(&mut self, rtt: Duration) {
        self.rtt.seed(rtt);
    }

    /// Replaces the controller; the new one starts as on a new path.
    pub(crate) fn set_controller(&mut self, controller: Box<dyn CongestionController>) {
        self.controller = controller;
    }

    /// The path was validated while `subflows` exist beside it.
    pub(crate) fn on_validated(&mut self, subflows: &[Subflow]) {
        self.controller.on_validated(subflows);
    }

    /// The name of the controller.
    pub(crate) fn controller_name(&self) -> &'static str {
        self.controller.name()
    }

    /// What may be sent now. A sender that has too little data to use it calls [`Self::check_app_limited`].
    pub(crate) fn allowance(&mut self, now: Instant) -> Allowance {
        if self.app_limited_from.take().is_some_and(|from| from < now) {
            self.set_app_limited();
        }
        self.room(now)
    }

    fn room(&mut self, now: Instant) -> Allowance {
        let datagram = self.config.max_datagram;
        if let Some(stream) = &self.stream {
            let in_flight = stream.in_flight(self.sent.bytes());
            let bytes = stream.room(self.sent.bytes()).min(self.bounded(ByteCount::MAX) - in_flight);
            if bytes < ByteCount(u64::from(datagram)) {
                return Allowance::Window;
            }
            return match self.receive_limit.rate() {
                Some(rate) => self.paced(now, rate, bytes),
                None => Allowance::Ready { bytes },
            };
        }
        let room = self.window() - self.sent.bytes();
        if room < ByteCount(u64::from(datagram)) {
            if self.window() < self.controller.window() {
                // The receiver holds back, not the network.
                self.set_app_limited();
            }
            // Data that the window holds back is not late.
            self.pacer.cancel_departure();
            return Allowance::Window;
        }
        let own = self.pacing_rate();
        let rate = self.receive_limit.rate().map_or(own, |limit| limit.min(own));
        let allowance = self.paced(now, rate, room);
        if rate < own && matches!(allowance, Allowance::PacedUntil(_)) {
            // The receiver holds back, not the network.
            self.set_app_limited();
        }
        allowance
    }

    fn paced(&mut self, now: Instant, rate: Rate, room: ByteCount) -> Allowance {
        match self.pacer.departure(now, rate, self.config.max_datagram) {
            pacer::Departure::Now(bytes) => Allowance::Ready { bytes: bytes.min(room) },
            pacer::Departure::At(later) => Allowance::PacedUntil(later),
        }
    }

    /// A packet left. Calls come in the order of packet numbers.
    pub(crate) fn on_sent(&mut self, now: Instant, mut packet: SentPacket) {
        self.ecn.on_sent(&packet);
        match packet.kind {
            PacketKind::AckOnly => return,
            PacketKind::AckQuery => {
                let SentPacket { packet_number, contents, .. } = packet;
                return self.ack_queries.on_query_sent(AckQuery { packet_number, time_sent: now, contents });
            }
            PacketKind::Ordinary | PacketKind::MtuProbe => {}
        }
        let in_flight = self.sent.bytes();
        let bytes = packet.bytes();
        packet.time_sent = now;
        packet.delivery = self.rate.on_sent(now, bytes, in_flight);
        if let Some(stream) = &mut self.stream {
            stream.on_sent(bytes);
            if self.receive_limit.rate().is_some() {
                self.pacer.on_sent(bytes);
            }
        } else if packet.kind == PacketKind::Ordinary {
            self.controller.on_sent(&SentSample {
                now,
                packet_number: packet.packet_number,
                bytes,
                in_flight,
                app_limited: packet.delivery.app_limited(),
            });
            self.pacer.on_sent(bytes);
        }
        self.probe_timer.on_sent(now, self.sent.is_empty());
        self.sent.insert(packet);
        self.rounds.on_sent(self.sent.bytes());
    }

    /// A packet of this path left between addresses other than the path's own.
    pub(crate) fn on_sent_off_path(&mut self, packet_number: u64) {
        self.sent.on_off_path(packet_number);
    }

    /// Whether an ACK-only packet may now be an ACK query.
    pub(crate) fn may_query_acks(&self, now: Instant) -> bool {
        self.ack_queries.may_query(now, self.rtt.smoothed())
    }

    /// Bytes sent that are neither acknowledged nor lost. On a stream carrier those acknowledged by its system count
    /// no more, although the packets are remembered until the peer acknowledges them.
    pub(crate) fn bytes_in_flight(&self) -> ByteCount {
        let unacknowledged = self.sent.bytes();
        self.stream.as_ref().map_or(unacknowledged, |stream| stream.in_flight(unacknowledged))
    }

    /// Packets sent that are neither acknowledged nor lost.
    pub(crate) fn packets_in_flight(&self) -> usize {
        self.sent.len()
    }

    /// The congestion window, or what the peer wants in flight, if that is less.
    pub(crate) fn window(&self) -> ByteCount {
        self.bounded(match &self.stream {
            Some(stream) => stream.window().max(ByteCount(u64::from(self.config.max_datagram))),
            None => self.controller.window(),
        })
    }

    fn bounded(&self, window: ByteCount) -> ByteCount {
        self.receive_limit.bound(window, ByteCount(u64::from(self.config.max_datagram)))
    }

    /// Whether the window still grows exponentially.
    pub(crate) fn is_in_slow_start(&self) -> bool {
        self.stream.is_none() && self.controller.is_in_slow_start()
    }

    /// The pacing rate.
    pub(crate) fn pacing_rate(&self) -> Rate {
        if let Some(stream) = &self.stream {
            return stream.delivery_rate();
        }
        let rtt = self.rtt.smoothed();
        if self.resume.is_on_trial() {
            return self.controller.window().per(rtt);
        }
        self.controller.pacing_rate(rtt)
    }

    /// Total of delivered bytes.
    pub(crate) fn delivered(&self) -> ByteCount {
        self.rate.delivered()
    }

    /// The largest delivery rate of the last 10 round trips and of at least the last 2 s.
    pub(crate) fn delivery_rate(&self) -> Rate {
        let measured = self.stream.as_deref().map(stream::StreamControl::delivery_rate);
        measured.filter(|rate| *rate > Rate::ZERO).unwrap_or_else(|| self.rate.maximum())
    }

    /// The figures that coupled controllers of other paths need.
    pub(crate) fn as_subflow(&self) -> Subflow {
        let activity = self.controller.activity();
        Subflow::new(self.controller.window(), self.rtt.smoothed(), self.loss_interval.longest())
            .with_activity(activity)
            .with_reduced_at(self.controller.reduced_at())
    }

    /// Nothing is sent on this path now, because no data waits or the data is kept for another path. If window and
    /// pacer would permit sending, the samples of the next round trip are application-limited.
    pub(crate) fn check_app_limited(&mut self, now: Instant) {
        if self.rate.is_app_limited() && self.sent.bytes() == ByteCount::ZERO {
            // As it is with an end that only receives, at each of its turns: the next packet is marked already.
            return self.pacer.cancel_departure();
        }
        let room = self.room(now);
        self.pacer.cancel_departure();
        match room {
            Allowance::Ready { .. } => self.set_app_limited(),
            // Applies only if the path is still unused at that time: data that comes earlier is in time.
            Allowance::PacedUntil(at) => self.app_limited_from = Some(at),
            Allowance::Window => self.app_limited_from = None,
        }
    }

    /// Marks the samples of the next round trip as application-limited.
    pub(crate) fn set_app_limited(&mut self) {
        self.app_limited_from = None;
        self.rate.set_app_limited(self.sent.bytes());
    }

    /// Begins or ends a suspect period. Packets sent before its end count neither as rate samples nor as signs of
    /// congestion.
    pub(crate) fn set_suspect(&mut self, is_suspect: bool) {
        if is_suspect {
            self.suspect_period.begin();
        } else {
            self.suspect_period.end(self.sent.next_number());
        }
    }

    /// Sets whether another path of the connection carries data: if so, this path probes more often, and silence on
    /// it is no persistent congestion.
    pub(crate) fn set_other_path_alive(&mut self, alive: bool) {
        self.probe_timer.set_other_path_alive(alive);
    }

    /// How long the peer may delay acknowledgements, from its transport parameters.
    pub(crate) fn set_max_ack_delay(&mut self, delay: Duration) {
        self.probe_timer.set_max_ack_delay(delay);
    }

    /// The datagram size in use.
    pub(crate) fn max_datagram(&self) -> u16 {
        self.config.max_datagram
    }

    /// The size of datagrams changed.
    pub(crate) fn set_max_datagram(&mut self, size: u16) {
        self.config.max_datagram = size;
        self.large.forget_losses();
        self.controller.on_max_datagram(size);
    }

    /// When [`Self::on_timeout`] is due: packets count as lost, or PTO probes have to be sent.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.sent.is_empty() {
            return None;
        }
        let timeout = self.probe_timer.deadline(&self.rtt);
        Some(self.loss_time.map_or(timeout, |loss| loss.min(timeout)))
    }

    /// Handles the passing of time.
    pub(crate) fn on_timeout(&mut self, now: Instant, out: &mut Outcome) -> TimeoutKind {
        self.forget_lost(now);
        if self.loss_time.is_some_and(|time| time <= now) && self.detect_losses(now, None, out) > 0 {
            // The lost content is sent again now and elicits an acknowledgement, so no PTO probe is needed beside it.
            self.probe_timer.rearm(now);
            return TimeoutKind::Lost;
        }
        if self.probe_timer.deadline(&self.rtt) <= now && !self.sent.is_empty() {
            self.ecn.on_probe_timeout();
            return TimeoutKind::ProbeTimeout { count: self.probe_timer.on_fired(now) };
        }
        TimeoutKind::Nothing
    }

    /// This host slept until now. Acknowledgements of earlier packets may have waited for it: timers start again, and
    /// these packets give no RTT sample.
    pub(crate) fn on_wake(&mut self, now: Instant) {
        self.woke_at = Some(now);
        self.probe_timer.on_progress(now);
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.sent.shrink_to_fit();
        self.lost.shrink_to_fit();
        self.ack_queries.forget();
        self.delays.forget();
    }

    /// The probe timeout of this path, without back-off.
    pub(crate) fn pto(&self) -> Duration {
        self.probe_timer.timeout(&self.rtt)
    }

    /// A packet in flight.
    pub(crate) fn packet(&self, number: u64) -> Option<&SentPacket> {
        self.sent.get(number)
    }

    /// Forgets packets in flight of which it cannot be known whether they arrived, because all their content has: they
    /// count neither as delivered nor as lost.
    pub(crate) fn forget_packets(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.sent.remove_range(*number..=*number, drop);
        }
    }

    /// The packets in flight that were sent first, oldest first.
    pub(crate) fn oldest(&self) -> impl Iterator<Item = &SentPacket> {
        self.sent.iter()
    }

    /// The packets in flight from number `first` on, newest first.
    pub(crate) fn sent_since(&self, first: u64) -> impl Iterator<Item = &SentPacket> {
        self.sent.iter().rev().take_while(move |packet| packet.packet_number >= first)
    }

    /// The packets in flight, oldest first; a caller that re-sends the content of one on another path marks it as
    /// reinjected.
    pub(crate) fn in_flight(&mut self) -> impl DoubleEndedIterator<Item = &mut SentPacket> {
        self.sent.iter_mut()
    }

    /// When the oldest packet in flight was sent.
    pub(crate) fn oldest_unacked_time(&self) -> Option<Instant> {
        self.sent.front().map(SentPacket::time_sent)
    }

    /// Saves the figures of the path because it seems to fail. Called when a suspect period begins, before packets
    /// are lost.
    pub(crate) fn snapshot(&mut self, now: Instant) {
        self.resume.save(now, self.last_progress, self.controller.window(), self.rtt.minimum());
    }

    /// The path works again: a path challenge was answered after `round_trip`. After a short outage with an unchanged
    /// round trip the path resumes with half of the window that [`Self::snapshot`] saved, spread over one round trip.
    /// Otherwise, and after a change of addresses (`None`), it restarts in slow start.
    pub(crate) fn restart(&mut self, now: Instant, round_trip: Option<Duration>) {
        let initial = self.initial_window();
        let next = self.sent.next_number();
        let resumed = self.resume.take_window(now, round_trip);
        let window = resumed.map_or(initial, |window| window.max(initial));
        if window > initial {
            self.resume.begin_trial(next);
        }
        self.controller.on_restart(now, window);
        self.recovery_periods.restart(next);
        self.ecn.restart(next, round_trip.is_some());
        self.stretch.restart(self.sent.next_index());
        self.rate.forget_maximum();
        self.rtt.forget_minimum();
        self.one_way.forget();
        self.delays.forget();
        if let Some(rtt) = round_trip {
            self.rtt.on_sample(rtt, Duration::ZERO);
        }
        self.pacer.restart(now);
        self.probe_timer.on_progress(now);
    }

    /// The initial window (RFC 9002, section 7.2).
    fn initial_window(&self) -> ByteCount {
        ControllerConfig::new(self.config.max_datagram).initial_bytes()
    }
}

#[cfg(test)]
mod tests;
