//! A sender under BBR, a link with a drop-tail queue, and a receiver that acknowledges each packet.

use std::collections::VecDeque;

use super::super::random::Random;
use super::*;
use crate::congestion::one_way::OneWay;
use crate::recovery::{DeliveryRate, DeliverySnapshot, PeerTime, RttEstimator};

const SIZE: u64 = 1200;
/// Packets behind a gap that reveal it.
const REORDERING: u64 = 3;

#[derive(Debug, Clone, Copy)]
struct Packet {
    number: u64,
    sent: Instant,
    /// When its acknowledgement arrives; `None` if it is lost.
    answered: Option<Instant>,
    arrived: Instant,
    snapshot: DeliverySnapshot,
}

/// Properties of the path, which may change between two runs.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) bbr: Bbr,
    pub(super) now: Instant,
    pub(super) rate: Rate,
    pub(super) round_trip: Duration,
    /// Delay of acknowledgements on the return path.
    pub(super) wait_back: Duration,
    /// The one-way delay that a lying receiver reports.
    pub(super) lie: Option<u32>,
    /// Clock offset of the receiver, in µs.
    pub(super) offset: u32,
    /// The longest time that a packet may wait for the link.
    pub(super) queue: Duration,
    /// One packet in this many is lost besides.
    pub(super) lose_one_in: u64,
    /// The rate of the application, if that is below the rate of the path.
    pub(super) produces: Option<Rate>,
    pub(super) subflows: Vec<Subflow>,
    /// The states in their order, with their times.
    pub(super) states: Vec<(Instant, State)>,
    link_free: Instant,
    next_send: Instant,
    next_data: Instant,
    flight: VecDeque<Packet>,
    in_flight: ByteCount,
    delivery: DeliveryRate,
    rtt: RttEstimator,
    one_way: OneWay,
    lost: ByteCount,
    next_number: u64,
    event_until: u64,
    random: Random,
}

impl Path {
    pub(super) fn new(rate: Rate, round_trip: Duration) -> Self {
        Self::with_seed(rate, round_trip, 1)
    }

    pub(super) fn with_seed(rate: Rate, round_trip: Duration, seed: u64) -> Self {
        let start = Instant::from_nanos(1_000_000_000);
        let config = ControllerConfig { seed, ..ControllerConfig::new(1200) };
        Self {
            bbr: Bbr::new(&config),
            now: start,
            rate,
            round_trip,
            wait_back: Duration::ZERO,
            lie: None,
            offset: 0,
            queue: Duration::from_secs(1),
            lose_one_in: u64::MAX,
            produces: None,
            subflows: Vec::new(),
            states: vec![(start, State::Startup)],
            link_free: start,
            next_send: start,
            next_data: start,
            flight: VecDeque::new(),
            in_flight: ByteCount::ZERO,
            delivery: DeliveryRate::new(),
            rtt: RttEstimator::new(round_trip),
            one_way: OneWay::default(),
            lost: ByteCount::ZERO,
            next_number: 0,
            event_until: 0,
            random: Random::new(seed),
        }
    }

    /// Runs for a time; returns the deliveries as a percentage of the link's capacity.
    pub(super) fn run(&mut self, time: Duration) -> u64 {
        let (until, before) = (self.now + time, self.delivery.delivered());
        self.run_while(|path| path.now < until);
        (self.delivery.delivered() - before).get() * 100 / (self.rate * time).get()
    }

    /// Runs until the state matches; returns how long that took.
    pub(super) fn run_to(&mut self, is_such: impl Fn(State) -> bool) -> Duration {
        let start = self.now;
        self.run_while(|path| !is_such(path.bbr.state) && path.now < start + SECOND * 60);
        assert!(is_such(self.bbr.state), "still {:?}", self.bbr.state);
        self.now - start
    }

    /// How long a packet would wait for the link now.
    pub(super) fn waiting(&self) -> Duration {
        self.link_free - self.now
    }

    pub(super) fn smoothed(&self) -> Duration {
        self.rtt.smoothed()
    }

    /// Bytes declared lost.
    pub(super) fn lost(&self) -> ByteCount {
        self.lost
    }

    fn run_while(&mut self, goes_on: impl Fn(&Self) -> bool) {
        while goes_on(self) {
            let answer = self.flight.iter().find_map(|packet| packet.answered);
            let has_room = self.in_flight + ByteCount(SIZE) <= self.bbr.window();
            let send = self.next_send.max(self.next_data).max(self.now);
            match answer {
                Some(answer) if !has_room || answer <= send => {
                    self.now = self.now.max(answer);
                    self.answer(answer);
                }
                _ if has_room => {
                    self.now = send;
                    self.send();
                }
                // Everything was lost: restarts the flight.
                _ => self.give_up(),
            }
            let state = self.bbr.state;
            let last = self.states.last().map(|(_, state)| std::mem::discriminant(state));
            let same_phase = self.states.last().is_some_and(|(_, last)| *last == state);
            let is_dwell =
                matches!(state, State::ProbeRtt(_)) && last == Some(std::mem::discriminant(&state));
            if !same_phase && !is_dwell {
                self.states.push((self.now, state));
            }
        }
    }

    fn give_up(&mut self) {
        self.now += SECOND;
        self.flight.clear();
        self.in_flight = ByteCount::ZERO;
        self.bbr.on_persistent_congestion(self.now);
    }

    fn send(&mut self) {
        let bytes = ByteCount(SIZE);
        if let Some(produces) = self.produces {
            if self.next_data + bytes / produces < self.now {
                self.next_data = self.now;
            }
            self.next_data += bytes / produces;
        }
        let snapshot = self.delivery.on_sent(self.now, bytes, self.in_flight);
        self.bbr.on_sent(&SentSample {
            now: self.now,
            packet_number: self.next_number,
            bytes,
            in_flight: self.in_flight,
            app_limited: snapshot.app_limited(),
        });
        let fits = self.link_free - self.now <= self.queue;
        let is_lost = !fits || self.random.below(self.lose_one_in) == 0 && self.lose_one_in < u64::MAX;
        if fits {
            self.link_free = self.link_free.max(self.now) + bytes / self.rate;
        }
        self.in_flight += bytes;
        self.flight.push_back(Packet {
            number: self.next_number,
            sent: self.now,
            answered: (!is_lost).then(|| self.link_free + self.round_trip + self.wait_back),
            arrived: self.link_free + self.round_trip,
            snapshot,
        });
        self.next_number += 1;
        self.next_send = self.now + bytes / self.bbr.pacing_rate(self.rtt.smoothed());
        if self.produces.is_some() && self.next_data > self.next_send {
            self.delivery.set_app_limited(self.in_flight);
        }
    }

    fn answer(&mut self, at: Instant) {
        let Some(index) = self.flight.iter().position(|packet| packet.answered == Some(at)) else { return };
        let Some(packet) = self.flight.remove(index) else { return };
        let bytes = ByteCount(SIZE);
        self.in_flight -= bytes;
        let one_way = self.lie.unwrap_or_else(|| micros(packet.arrived - packet.sent));
        let received_at = micros(packet.sent - Instant::from_nanos(0)).wrapping_add(one_way + self.offset);
        self.delivery.on_delivered(at, bytes, Some(PeerTime(received_at)));
        self.rtt.on_sample(at - packet.sent, Duration::ZERO);
        let one_way = self.one_way.on_sample(at, packet.sent, received_at);
        if let Some(return_delay) = self.one_way.return_delay(at, self.rtt.smoothed()) {
            self.delivery.on_return_delay(return_delay);
        }
        let newly_lost = self.find_losses(packet.number, self.rtt.latest());
        let delivery = self.delivery.sample(at, packet.sent, &packet.snapshot, &self.rtt, true);
        let sample = AckSample {
            now: at,
            bytes,
            bytes_outside_recovery: bytes,
            in_flight: self.in_flight,
            pipe: self.in_flight,
            latest_rtt: Some(self.rtt.latest()),
            latest_one_way: Some(one_way),
            smoothed_rtt: self.rtt.smoothed(),
            rtt_variation: self.rtt.variation(),
            minimum_rtt: self.rtt.minimum(),
            largest_acked: packet.number,
            next_packet_number: self.next_number,
            delivery_rate: delivery.rate,
            app_limited: delivery.app_limited,
            delivered: self.delivery.delivered(),
            delivered_at_sent: delivery.delivered_at_sent,
            in_flight_at_sent: delivery.in_flight_at_sent,
            lost_since_sent: delivery.lost_since_sent,
            gaps_since_sent: delivery.gaps_since_sent,
            newly_lost,
            loss_interval: ByteCount::ZERO,
        };
        let subflows = self.subflows.clone();
        self.bbr.on_ack(&sample, &subflows);
        if self.bbr.activity() == Activity::Draining {
            self.delivery.set_app_limited(self.in_flight);
        }
    }

    fn find_losses(&mut self, acked: u64, latest_rtt: Duration) -> ByteCount {
        let bytes = ByteCount(SIZE);
        let mut newly_lost = ByteCount::ZERO;
        while let Some(packet) = self.flight.front().copied() {
            if packet.answered.is_some() || packet.number + REORDERING > acked {
                break;
            }
            self.flight.pop_front();
            self.in_flight -= bytes;
            self.lost += bytes;
            newly_lost += bytes;
            self.delivery.on_lost(packet.number, bytes);
            let begins_event = packet.number >= self.event_until;
            if begins_event {
                self.event_until = self.next_number;
            }
            self.bbr.on_packet_lost(&LostPacketSample {
                now: self.now,
                packet_number: packet.number,
                bytes,
                in_flight_at_sent: packet.snapshot.in_flight(),
                lost_since_sent: self.delivery.lost_since(&packet.snapshot),
                gaps_since_sent: self.delivery.gaps_since(&packet.snapshot),
                gaps: self.delivery.gaps(),
                delivered: self.delivery.delivered(),
                begins_event,
                app_limited: packet.snapshot.app_limited(),
                latest_rtt: Some(latest_rtt),
            });
        }
        newly_lost
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros() % (1 << 32)).unwrap()
}
