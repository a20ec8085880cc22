//! The sending half of a connection: which bytes may leave, and which have to leave again.
//!
//! Congestion control is any controller of the protocol, or Linux's CUBIC. Losses are found by RACK with a tail loss probe (RFC
//! 8985) from selective acknowledgements (RFC 2018), the window shrinks by proportional rate reduction (RFC 6937), and
//! timeouts are those of RFC 6298. That is what Linux does. A TCP as of 2002 finds losses by repeated acknowledgements
//! instead, see `duplicates`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use manyway_proto::congestion::{AckSample, CongestionController, LossSample};
use manyway_proto::{ByteCount, Instant};

use super::duplicates::Duplicates;
use super::prr::Reduction;
use super::rtt::RoundTrip;

/// So many segments that arrived early are taken for a loss before them, without waiting for reordering.
const LOSS_SIGNS: usize = 3;
/// Otherwise a segment may be late by this part of the smallest round trip.
const REORDERING: u32 = 4;

/// A transmission of a segment.
#[derive(Debug, Clone, Copy)]
struct Sent {
    length: u64,
    at: Instant,
    /// Number of this transmission among all of the connection.
    number: u64,
    is_repeated: bool,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    InFlight,
    /// Acknowledged while something before it was missing.
    Arrived,
    Lost,
}

/// What is being repaired, until everything before a byte is acknowledged.
#[derive(Debug)]
struct Recovery {
    end: u64,
    /// `None` after a timeout, and without selective acknowledgements.
    reduction: Option<Reduction>,
    /// Whether it is fast recovery without selective acknowledgements.
    is_fast: bool,
}

/// What the timer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    Probe,
    Retransmission,
}

/// Whether the congestion control hears of delays in slow start: Linux's Reno ends it at a loss alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlowStart {
    WatchesDelay,
    UntilLoss,
}

/// What an acknowledgement delivered.
#[derive(Debug, Default)]
struct Delivered {
    bytes: u64,
    newest: Option<Sent>,
}

impl Delivered {
    fn add(&mut self, sent: Sent) {
        self.bytes += sent.length;
        if self.newest.is_none_or(|newest| newest.number < sent.number) {
            self.newest = Some(sent);
        }
    }
}

/// The sending half. It knows byte numbers only.
#[derive(Debug)]
pub(crate) struct Sender {
    controller: Box<dyn CongestionController>,
    slow_start: SlowStart,
    /// Bytes of a full segment.
    segment: u64,
    acknowledged: u64,
    /// The first byte that was never sent.
    next: u64,
    /// What is not acknowledged, by first bytes.
    segments: BTreeMap<u64, Sent>,
    in_flight: u64,
    /// Segments in these states.
    arrived: usize,
    lost: usize,
    transmissions: u64,
    times: RoundTrip,
    /// The newest transmission that has arrived, and its round trip (RFC 8985).
    newest: Option<(u64, Duration)>,
    /// When a segment that may only be late is taken for lost.
    late_at: Option<Instant>,
    recovery: Option<Recovery>,
    timer: Option<(Timer, Instant)>,
    timeouts: u32,
    is_probing: bool,
    round: Round,
    /// In place of selective acknowledgements.
    duplicates: Option<Duplicates>,
}

/// The most that was in flight, of this round trip and the one before.
#[derive(Debug, Default)]
struct Round {
    end: u64,
    most: u64,
    before: u64,
}

impl Round {
    fn on_sent(&mut self, in_flight: u64) {
        self.most = self.most.max(in_flight);
    }

    fn on_arrived(&mut self, number: u64, next: u64, in_flight: u64) {
        if number >= self.end {
            (self.end, self.before, self.most) = (next, self.most, in_flight);
        }
    }
}

impl Sender {
    /// Makes a sender of segments of this many bytes.
    pub(crate) fn new(
        controller: Box<dyn CongestionController>,
        slow_start: SlowStart,
        segment: usize,
    ) -> Self {
        Self {
            controller,
            slow_start,
            segment: u64::try_from(segment).unwrap_or(u64::MAX),
            acknowledged: 0,
            next: 0,
            segments: BTreeMap::new(),
            in_flight: 0,
            arrived: 0,
            lost: 0,
            transmissions: 0,
            times: RoundTrip::default(),
            newest: None,
            late_at: None,
            recovery: None,
            timer: None,
            timeouts: 0,
            is_probing: false,
            round: Round::default(),
            duplicates: None,
        }
    }

    /// Finds losses by repeated acknowledgements alone.
    pub(crate) fn without_selective_acks(mut self) -> Self {
        self.duplicates = Some(Duplicates::default());
        self
    }

    /// Every byte before this one is acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The first byte that was never sent.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Bytes that have arrived behind a gap.
    pub(crate) fn early(&self) -> u64 {
        let early = self.segments.values().filter(|sent| sent.state == State::Arrived);
        if self.arrived == 0 { 0 } else { early.map(|sent| sent.length).sum() }
    }

    /// The congestion window.
    pub(crate) fn window(&self) -> ByteCount {
        self.controller.window()
    }

    /// Smoothed round trip, its variation, and the smallest one.
    pub(crate) fn round_trip(&self) -> Option<[Duration; 3]> {
        let RoundTrip { smoothed, variation, minimum } = self.times;
        Some([smoothed?, variation, minimum?])
    }

    /// Takes a round trip that no segment of data made, such as that of the handshake.
    pub(crate) fn on_round_trip(&mut self, sample: Duration) {
        self.times.on_sample(sample);
    }

    /// When [`Self::on_timeout`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timer.map(|(_, at)| at).into_iter().chain(self.late_at).min()
    }

    /// The next segment to send; `written` is the end of the data that there is, and `edge` that of the receive window.
    pub(crate) fn poll(&mut self, now: Instant, written: u64, edge: u64) -> Option<Range<u64>> {
        let is_probing = std::mem::take(&mut self.is_probing);
        let gone = self.duplicates.as_ref().map_or(0, |duplicates| duplicates.bytes(self.segment));
        let room = match &self.recovery {
            Some(Recovery { reduction: Some(reduction), .. }) => reduction.allowance(),
            Some(Recovery { is_fast: true, .. }) => {
                self.controller.window().get().saturating_sub(self.in_flight.saturating_sub(gone))
            }
            Some(_) | None => self.controller.window().get().saturating_sub(self.in_flight),
        };
        let is_urgent = self.duplicates.as_mut().is_some_and(Duplicates::take_urgent);
        let fits = edge.saturating_sub(self.next);
        let fresh = match written.saturating_sub(self.next).min(self.segment) {
            fresh if fresh <= fits => fresh,
            // No small segment is sent beside others for a small rest of the window (RFC 9293, section 3.8.6.2.1).
            _ if self.segments.is_empty() => fits,
            _ => 0,
        };
        if let Some((begin, length)) = self.first_lost().filter(|(_, length)| is_urgent || *length <= room) {
            self.send(now, begin, length);
            return Some(begin..begin + length);
        }
        if fresh > 0 && self.lost == 0 && (fresh <= room || is_probing) {
            let begin = self.next;
            self.next += fresh;
            self.send(now, begin, fresh);
            return Some(begin..begin + fresh);
        }
        let (begin, last) = self.segments.last_key_value().filter(|_| is_probing)?;
        let (begin, length) = (*begin, last.length);
        self.send(now, begin, length);
        Some(begin..begin + length)
    }

    /// Takes an acknowledgement without data of bytes that were acknowledged before.
    pub(crate) fn on_repeated_ack(&mut self, now: Instant) {
        let Some(duplicates) = self.duplicates.as_mut().filter(|_| !self.segments.is_empty()) else { return };
        if duplicates.on_repeated(self.acknowledged, self.next) && self.recovery.is_none() {
            let sent_at = self.segments.values().next().map_or(now, |sent| sent.at);
            self.reduce(now, sent_at, self.segment);
            self.recovery = Some(Recovery { end: self.next, reduction: None, is_fast: true });
            self.repeat_first();
            self.set_timer(now);
        }
    }

    /// Takes an acknowledgement of bytes that were not acknowledged before. Returns the bytes by which the congestion window
    /// may grow.
    fn on_progress(&mut self, bytes: u64, has_recovered: bool) -> u64 {
        let is_fast = self.recovery.as_ref().is_some_and(|recovery| recovery.is_fast);
        if let Some(duplicates) = &mut self.duplicates {
            duplicates.on_progress(bytes / self.segment.max(1), is_fast);
        }
        if is_fast {
            self.repeat_first();
        }
        if has_recovered || is_fast { 0 } else { bytes }
    }

    /// Sends the first segment again, at once.
    fn repeat_first(&mut self) {
        let Some(sent) = self.segments.values_mut().next() else { return };
        if sent.state == State::InFlight {
            sent.state = State::Lost;
            self.lost += 1;
            self.in_flight -= sent.length;
        }
        if let Some(duplicates) = &mut self.duplicates {
            duplicates.hurry();
        }
    }

    /// Fires the timers that are due.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        if self.late_at.is_some_and(|at| at <= now) {
            let before = self.in_flight;
            self.find_losses(now, before);
        }
        match self.timer.filter(|(_, at)| *at <= now) {
            Some((Timer::Probe, _)) => {
                self.is_probing = true;
                self.timer = Some((Timer::Retransmission, now + self.timeout()));
            }
            Some((Timer::Retransmission, _)) => self.on_retransmission_timeout(now),
            None => {}
        }
    }

    /// Takes an acknowledgement of all bytes before `ack`, and of ranges beyond.
    pub(crate) fn on_ack(&mut self, now: Instant, ack: u64, early: impl Iterator<Item = Range<u64>>) {
        if ack > self.next {
            return;
        }
        let before = self.in_flight;
        let has_advanced = ack > self.acknowledged;
        let uses_early = self.duplicates.is_none();
        let delivered = self.take_delivered(ack, early.filter(|_| uses_early));
        let has_recovered = self.recovery.take_if(|recovery| ack >= recovery.end).is_some();
        let Some(newest) = delivered.newest else {
            if has_advanced {
                self.set_timer(now);
            }
            return;
        };
        self.timeouts = 0;
        let rtt = now - newest.at;
        if !newest.is_repeated {
            self.times.on_sample(rtt);
        }
        let growth = if uses_early {
            self.find_losses_before(now, (newest, rtt), before);
            let progress = if has_advanced { self.segment } else { 0 };
            self.on_delivered((delivered.bytes, progress), has_recovered)
        } else {
            self.on_progress(delivered.bytes, has_recovered)
        };
        self.report(now, (delivered.bytes, growth), newest, rtt);
        self.set_timer(now);
    }

    /// Takes what arrived for a sign of losses before it; `flight` was in flight before.
    fn find_losses_before(&mut self, now: Instant, (newest, rtt): (Sent, Duration), flight: u64) {
        // An acknowledgement that comes too soon after a repetition is that of the original.
        let is_plausible = !newest.is_repeated || self.times.minimum.is_none_or(|minimum| rtt >= minimum);
        if is_plausible && self.newest.is_none_or(|(number, _)| number < newest.number) {
            self.newest = Some((newest.number, rtt));
        }
        self.find_losses(now, flight);
    }

    /// Takes bytes that were delivered, with a segment more if all up to a higher byte is acknowledged. Returns the bytes by
    /// which the congestion window may grow.
    fn on_delivered(&mut self, (bytes, progress): (u64, u64), has_recovered: bool) -> u64 {
        if let Some(reduction) = self.recovery.as_mut().and_then(|recovery| recovery.reduction.as_mut()) {
            reduction.on_ack(bytes, self.in_flight, progress);
            return 0;
        }
        if has_recovered { 0 } else { bytes }
    }

    /// Reports an acknowledgement to the congestion control.
    fn report(&mut self, now: Instant, (bytes, growth): (u64, u64), newest: Sent, rtt: Duration) {
        self.round.on_arrived(newest.number, self.transmissions, self.in_flight);
        let mut sample = AckSample::default();
        sample.now = now;
        sample.bytes = ByteCount(bytes);
        sample.bytes_outside_recovery = ByteCount(growth);
        sample.in_flight = ByteCount(self.in_flight);
        sample.pipe = self.used_window();
        let is_told = !newest.is_repeated && self.slow_start == SlowStart::WatchesDelay;
        sample.latest_rtt = is_told.then_some(rtt);
        sample.smoothed_rtt = self.times.smoothed.unwrap_or(rtt);
        sample.rtt_variation = self.times.variation;
        sample.minimum_rtt = self.times.minimum.unwrap_or(rtt);
        sample.largest_acked = newest.number;
        sample.next_packet_number = self.transmissions;
        self.controller.on_ack(&sample, &[]);
    }

    /// The part of the congestion window that was in flight of late, as far as it permits growth. In slow start a window
    /// grows up to twice what was in flight. Later it grows only if it was full, so that it does not exceed the receive
    /// window: Linux's `tcp_is_cwnd_limited`.
    fn used_window(&self) -> ByteCount {
        let most = self.round.most.max(self.round.before);
        let was_full = most + self.segment > self.controller.window().get();
        if was_full || self.controller.is_in_slow_start() { ByteCount(most) } else { ByteCount::ZERO }
    }

    /// Removes what is acknowledged and marks what arrived early.
    fn take_delivered(&mut self, ack: u64, early: impl Iterator<Item = Range<u64>>) -> Delivered {
        let mut delivered = Delivered::default();
        while let Some(entry) = self.segments.first_entry()
            && entry.key() + entry.get().length <= ack
        {
            let sent = entry.remove();
            match sent.state {
                State::InFlight => self.in_flight -= sent.length,
                State::Lost => self.lost -= 1,
                State::Arrived => self.arrived -= 1,
            }
            if sent.state != State::Arrived {
                delivered.add(sent);
            }
        }
        self.acknowledged = self.acknowledged.max(ack);
        for range in early {
            for (begin, sent) in self.segments.range_mut(range.clone()) {
                if begin + sent.length > range.end || sent.state == State::Arrived {
                    continue;
                }
                match std::mem::replace(&mut sent.state, State::Arrived) {
                    State::InFlight => self.in_flight -= sent.length,
                    State::Lost | State::Arrived => self.lost -= 1,
                }
                self.arrived += 1;
                delivered.add(*sent);
            }
        }
        delivered
    }

    /// Takes for lost what was sent sufficiently long before the newest arrival.
    fn find_losses(&mut self, now: Instant, flight: u64) {
        self.late_at = None;
        let Some((newest, rtt)) = self.newest.filter(|_| self.arrived > 0 || self.recovery.is_some()) else {
            return;
        };
        let waits = self.recovery.is_none() && self.arrived < LOSS_SIGNS;
        let patience = self.times.minimum.filter(|_| waits).map_or(Duration::ZERO, |rtt| rtt / REORDERING);
        let mut found: Option<(Instant, u64)> = None;
        for sent in self.segments.values_mut() {
            if sent.state != State::InFlight || sent.number >= newest {
                continue;
            }
            let until = sent.at + rtt + patience;
            if until > now {
                self.late_at = Some(self.late_at.map_or(until, |at| at.min(until)));
                continue;
            }
            sent.state = State::Lost;
            self.lost += 1;
            self.in_flight -= sent.length;
            let (at, bytes) = found.unwrap_or((sent.at, 0));
            found = Some((at, bytes + sent.length));
        }
        if let Some((at, bytes)) = found.filter(|_| self.recovery.is_none()) {
            self.reduce(now, at, bytes);
            let target = self.controller.window().get();
            let reduction = Reduction::new(target, flight, self.segment);
            self.recovery = Some(Recovery { end: self.next, reduction: Some(reduction), is_fast: false });
            self.set_timer(now);
        }
    }

    fn on_retransmission_timeout(&mut self, now: Instant) {
        let first = self.segments.values().next().map(|sent| sent.at);
        let Some(at) = first else {
            self.timer = None;
            return;
        };
        if self.timeouts == 0 {
            self.reduce(now, at, self.in_flight);
        }
        self.controller.on_persistent_congestion(now);
        for sent in self.segments.values_mut().filter(|sent| sent.state == State::InFlight) {
            sent.state = State::Lost;
            self.lost += 1;
        }
        self.in_flight = 0;
        self.newest = None;
        self.late_at = None;
        self.timeouts += 1;
        self.recovery = Some(Recovery { end: self.next, reduction: None, is_fast: false });
        if let Some(duplicates) = &mut self.duplicates {
            duplicates.on_timeout(self.next);
        }
        self.timer = Some((Timer::Retransmission, now + self.timeout()));
    }

    /// Reports a congestion event.
    fn reduce(&mut self, now: Instant, sent_at: Instant, bytes: u64) {
        let mut sample = LossSample::default();
        sample.now = now;
        sample.sent_at = sent_at;
        sample.bytes = ByteCount(bytes);
        sample.in_flight = ByteCount(self.in_flight);
        sample.smoothed_rtt = self.times.smoothed.unwrap_or_default();
        self.controller.on_loss(&sample);
    }

    fn send(&mut self, now: Instant, begin: u64, length: u64) {
        let number = self.transmissions;
        self.transmissions += 1;
        let sent = Sent { length, at: now, number, is_repeated: false, state: State::InFlight };
        let before = self.segments.insert(begin, sent);
        match before.map(|before| before.state) {
            Some(State::InFlight) => {}
            Some(State::Lost) => {
                self.lost -= 1;
                self.in_flight += length;
            }
            Some(State::Arrived) => {
                self.arrived -= 1;
                self.in_flight += length;
            }
            None => self.in_flight += length,
        }
        if let Some(sent) = self.segments.get_mut(&begin) {
            sent.is_repeated = before.is_some();
        }
        if let Some(reduction) = self.recovery.as_mut().and_then(|recovery| recovery.reduction.as_mut()) {
            reduction.on_sent(length);
        }
        self.round.on_sent(self.in_flight);
        // A timer that runs stands for what left before, but a probe is always after the last segment.
        if !matches!(self.timer, Some((Timer::Retransmission, _))) {
            self.set_timer(now);
        }
    }

    fn timeout(&self) -> Duration {
        let timeout = self.times.timeout(self.timeouts);
        if self.duplicates.is_some() { timeout.max(Duplicates::LEAST_TIMEOUT) } else { timeout }
    }

    fn set_timer(&mut self, now: Instant) {
        let is_calm = self.recovery.is_none() && self.arrived == 0;
        self.timer = match self.segments.len() {
            0 => None,
            count if is_calm && self.duplicates.is_none() => {
                Some((Timer::Probe, now + self.times.probe_timeout(count == 1)))
            }
            _ => Some((Timer::Retransmission, now + self.timeout())),
        };
    }

    /// The first lost segment and its length.
    fn first_lost(&self) -> Option<(u64, u64)> {
        if self.lost == 0 {
            return None;
        }
        let mut lost = self.segments.iter().filter(|(_, sent)| sent.state == State::Lost);
        lost.next().map(|(begin, sent)| (*begin, sent.length))
    }
}

#[cfg(test)]
mod tests;
