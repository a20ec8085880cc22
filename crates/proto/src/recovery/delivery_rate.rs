//! Delivery rate of a path: one sample with each acknowledgement (draft-cheng-iccrg-delivery-rate-estimation, with
//! the receive times of spec 9.39).

use std::time::Duration;

use super::rtt::RttEstimator;
use crate::collections::windowed_filter::WindowedMax;
use crate::congestion::one_way::difference as one_way_difference;
use crate::{ByteCount, Instant, Rate};

/// The maximum filter covers at least this long.
const WINDOW_MIN: Duration = Duration::from_secs(2);
/// The maximum filter covers at least this many round trips.
const WINDOW_ROUNDS: u32 = 10;

/// The state of delivery when a packet left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliverySnapshot {
    delivered: ByteCount,
    delivered_at: Instant,
    /// Send time of the first packet of the flight that was acknowledged last.
    first_sent: Instant,
    lost: ByteCount,
    gaps: u64,
    in_flight: ByteCount,
    received_at: Option<PeerTime>,
    return_delay: u32,
    app_limited: bool,
}

/// An instant on the peer's clock, in µs modulo 2³²: only differences below half an hour have a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerTime(pub(crate) u32);

impl PeerTime {
    fn since(self, earlier: Self) -> Duration {
        let micros = self.0.wrapping_sub(earlier.0);
        if micros > u32::MAX / 2 { Duration::ZERO } else { Duration::from_micros(u64::from(micros)) }
    }
}

/// One sample of the delivery rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliverySample {
    pub(crate) rate: Option<Rate>,
    pub(crate) app_limited: bool,
    pub(crate) delivered_at_sent: ByteCount,
    pub(crate) in_flight_at_sent: ByteCount,
    pub(crate) lost_since_sent: ByteCount,
    pub(crate) gaps_since_sent: u64,
}

/// The delivery rate of one path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliveryRate {
    delivered: ByteCount,
    delivered_at: Instant,
    /// When the newest delivered packet reached the peer; `None` if none was delivered since the last pause.
    received_at: Option<PeerTime>,
    /// Average return delay of acknowledgements, in µs modulo 2³², between two clocks that are not synchronised.
    return_delay: u32,
    first_sent: Instant,
    lost: ByteCount,
    /// How many gaps the losses form: consecutively sent packets form one gap.
    gaps: u64,
    /// Index, among ack-eliciting packets, of the one whose loss extends the last gap and makes no new one.
    gap_end: u64,
    /// Samples are application-limited until this much is delivered.
    app_limited_until: ByteCount,
    maximum: WindowedMax<Rate>,
    measured_at: Option<Instant>,
}

impl DeliverySnapshot {
    /// The snapshot of a packet that has not left yet.
    pub(super) const UNSENT: Self = Self {
        delivered: ByteCount::ZERO,
        delivered_at: Instant::from_nanos(0),
        first_sent: Instant::from_nanos(0),
        lost: ByteCount::ZERO,
        gaps: 0,
        in_flight: ByteCount::ZERO,
        received_at: None,
        return_delay: 0,
        app_limited: false,
    };

    pub(crate) fn app_limited(&self) -> bool {
        self.app_limited
    }

    pub(crate) fn in_flight(&self) -> ByteCount {
        self.in_flight
    }
}

impl DeliveryRate {
    pub(crate) const fn new() -> Self {
        Self {
            delivered: ByteCount::ZERO,
            delivered_at: Instant::from_nanos(0),
            received_at: None,
            return_delay: 0,
            first_sent: Instant::from_nanos(0),
            lost: ByteCount::ZERO,
            gaps: 0,
            gap_end: u64::MAX,
            app_limited_until: ByteCount::ZERO,
            maximum: WindowedMax::new(),
            measured_at: None,
        }
    }

    /// When the maximum was last measured or confirmed.
    pub(crate) fn measured_at(&self) -> Option<Instant> {
        self.measured_at
    }

    /// The largest rate of the last 10 round trips and of at least the last 2 s.
    pub(crate) fn maximum(&self) -> Rate {
        self.maximum.value().unwrap_or(Rate::ZERO)
    }

    pub(crate) fn delivered(&self) -> ByteCount {
        self.delivered
    }

    pub(crate) fn is_app_limited(&self) -> bool {
        self.app_limited_until > self.delivered
    }

    /// The sender has nothing to send although the congestion window has room.
    pub(crate) fn set_app_limited(&mut self, in_flight: ByteCount) {
        self.app_limited_until = self.delivered + in_flight.max(ByteCount(1));
    }

    /// A packet leaves while `in_flight` bytes are in flight.
    pub(crate) fn on_sent(
        &mut self,
        now: Instant,
        size: ByteCount,
        in_flight: ByteCount,
    ) -> DeliverySnapshot {
        if in_flight == ByteCount::ZERO {
            // The pause before this packet says nothing about the path.
            self.first_sent = now;
            self.delivered_at = now;
            self.received_at = None;
        }
        DeliverySnapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            lost: self.lost,
            gaps: self.gaps,
            in_flight: in_flight + size,
            received_at: self.received_at,
            return_delay: self.return_delay,
            app_limited: self.is_app_limited(),
        }
    }

    /// The ack-eliciting packet number `index` was lost.
    pub(crate) fn on_lost(&mut self, index: u64, bytes: ByteCount) {
        self.lost += bytes;
        if self.gap_end != index {
            self.gaps += 1;
        }
        self.gap_end = index + 1;
    }

    /// Bytes lost since a packet left.
    pub(crate) fn lost_since(&self, snapshot: &DeliverySnapshot) -> ByteCount {
        self.lost - snapshot.lost
    }

    /// Number of gaps so far.
    pub(crate) fn gaps(&self) -> u64 {
        self.gaps
    }

    /// Number of gaps since a packet left; with any loss at least one.
    pub(crate) fn gaps_since(&self, snapshot: &DeliverySnapshot) -> u64 {
        let lost_any = self.lost > snapshot.lost;
        (self.gaps - snapshot.gaps).max(u64::from(lost_any))
    }

    /// Bytes were delivered, the newest of them at `received_at` if the peer told that.
    pub(crate) fn on_delivered(&mut self, now: Instant, bytes: ByteCount, received_at: Option<PeerTime>) {
        self.delivered += bytes;
        self.delivered_at = now;
        self.received_at = received_at;
    }

    /// Sets the return delay of acknowledgements.
    pub(crate) fn on_return_delay(&mut self, return_delay: u32) {
        self.return_delay = return_delay;
    }

    /// Takes a sample with the newest delivered packet, after [`Self::on_delivered`] counted all of them. Without
    /// `is_measure` the rate does not describe the path.
    pub(crate) fn sample(
        &mut self,
        now: Instant,
        time_sent: Instant,
        snapshot: &DeliverySnapshot,
        rtt: &RttEstimator,
        is_measure: bool,
    ) -> DeliverySample {
        let delivered = self.delivered - snapshot.delivered;
        let send_time = time_sent - snapshot.first_sent;
        let ack_time = now - snapshot.delivered_at;
        let delivery_time = match self.received_at.zip(snapshot.received_at) {
            // A queue on the return path lengthens the time between acknowledgements while it grows, and shortens it
            // while it drains. It cannot have grown by more than the excess of the round trip over the minimum.
            Some((last, first)) => {
                let longer =
                    u64::try_from(one_way_difference(self.return_delay, snapshot.return_delay)).unwrap_or(0);
                let growth = Duration::from_micros(longer).min(rtt.smoothed().saturating_sub(rtt.minimum()));
                last.since(first).max(ack_time.saturating_sub(growth))
            }
            None => ack_time,
        };
        self.first_sent = time_sent;
        // The interval is at least one round trip.
        let interval = send_time.max(delivery_time);
        let is_measure = is_measure && interval >= rtt.minimum() && !interval.is_zero();
        let rate = is_measure.then(|| delivered.per(interval));
        if let Some(rate) = rate.filter(|rate| !snapshot.app_limited || *rate >= self.maximum()) {
            let window = (rtt.smoothed() * WINDOW_ROUNDS).max(WINDOW_MIN);
            self.maximum.update(now, rate, window);
            self.measured_at = Some(now);
        }
        DeliverySample {
            rate,
            app_limited: snapshot.app_limited,
            delivered_at_sent: snapshot.delivered,
            in_flight_at_sent: snapshot.in_flight,
            lost_since_sent: self.lost_since(snapshot),
            gaps_since_sent: self.gaps_since(snapshot),
        }
    }

    /// Forgets the maximum, because the path has changed.
    pub(crate) fn forget_maximum(&mut self) {
        self.maximum.clear();
        self.measured_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rtt() -> RttEstimator {
        let mut rtt = RttEstimator::new(Duration::from_millis(20));
        rtt.on_sample(Duration::from_millis(20), Duration::ZERO);
        rtt
    }

    fn at(millis: u32) -> Instant {
        Instant::from_nanos(u64::from(millis) * 1_000_000)
    }

    /// A time on the peer's clock shortly before it wraps.
    fn peer(millis: u32) -> PeerTime {
        PeerTime((millis * 1000).wrapping_sub(50_000))
    }

    /// Sends a packet of 1000 bytes each millisecond; each is acknowledged after 20 ms.
    fn run(rate: &mut DeliveryRate, from: u32, packets: u32) {
        let mut sent = std::collections::VecDeque::new();
        for millis in from..from + packets + 20 {
            if sent.front().is_some_and(|(t, _)| t + 20 <= millis) {
                let (t, snapshot) = sent.pop_front().unwrap();
                rate.on_delivered(at(millis), ByteCount(1000), Some(peer(millis)));
                rate.sample(at(millis), at(t), &snapshot, &rtt(), true);
            }
            if millis < from + packets {
                let in_flight = ByteCount(1000) * sent.len() as u64;
                sent.push_back((millis, rate.on_sent(at(millis), ByteCount(1000), in_flight)));
            }
        }
    }

    #[test]
    fn a_steady_flow_is_measured_at_its_rate() {
        let mut rate = DeliveryRate::new();
        run(&mut rate, 0, 200);
        let measured = rate.maximum().bytes_per_second();
        assert!((950_000..=1_050_000).contains(&measured), "{measured}");
    }

    /// The largest rate measured when 1000 bytes arrive each millisecond, twice as many leave, and the first 80
    /// acknowledgements wait in a queue that drains; `peer` gives the receiver's times.
    fn measured_behind_a_queue(peer: impl Fn(u32) -> PeerTime) -> u64 {
        let mut rate = DeliveryRate::new();
        let mut sent = std::collections::VecDeque::new();
        let mut measured = Rate::ZERO;
        for millis in 0..160u32 {
            let now = at(millis);
            let is_acked = |arrives: u32| arrives + 10 + 80u32.saturating_sub(arrives) / 2 <= millis;
            while let Some((arrives, time_sent, snapshot)) =
                sent.pop_front_if(|(arrives, _, _)| is_acked(*arrives))
            {
                rate.on_delivered(now, ByteCount(1000), Some(peer(arrives)));
                let sample = rate.sample(now, time_sent, &snapshot, &rtt(), true);
                measured = measured.max(sample.rate.unwrap_or_default());
            }
            for arrives in [10 + 2 * millis, 11 + 2 * millis] {
                let in_flight = ByteCount(1000) * sent.len() as u64;
                sent.push_back((arrives, now, rate.on_sent(now, ByteCount(1000), in_flight)));
            }
        }
        measured.bytes_per_second()
    }

    #[test]
    fn a_draining_queue_on_the_return_path_does_not_raise_the_rate() {
        let measured = measured_behind_a_queue(peer);
        assert!((950_000..=1_050_000).contains(&measured), "{measured}");
        let untold = measured_behind_a_queue(|_| peer(0));
        assert!(untold > 1_300_000, "{untold}");
    }

    #[test]
    fn application_limited_samples_do_not_lower_the_rate() {
        let mut rate = DeliveryRate::new();
        run(&mut rate, 0, 200);
        let before = rate.maximum();
        rate.set_app_limited(ByteCount::ZERO);
        assert!(rate.is_app_limited());
        let snapshot = rate.on_sent(at(5000), ByteCount(100), ByteCount::ZERO);
        rate.on_delivered(at(5020), ByteCount(100), Some(peer(5020)));
        let sample = rate.sample(at(5020), at(5000), &snapshot, &rtt(), true);
        assert!(sample.app_limited && !rate.is_app_limited());
        assert_eq!(sample.rate, Some(Rate::from_bytes_per_second(5000)));
        assert_eq!(rate.maximum(), before);
    }
}
