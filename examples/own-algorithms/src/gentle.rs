//! A congestion control that yields as soon as packets queue.

use std::time::Duration;

use manyway::congestion::{AckSample, CongestionController, ControllerConfig, LossSample, Subflow};
use manyway::{ByteCount, Instant, Rate};

/// Adds a datagram to the window each round trip, and subtracts an eighth after one in which every packet queued for
/// long: additive increase, multiplicative decrease, by delay.
///
/// Long is a quarter of the shortest round-trip time, or 5 ms if that is more; so the queue never runs empty, and other
/// traffic hardly notices. It yields to flows that react to loss alone, and takes a route that has become longer for a
/// queue: for background transfers, not for general use.
#[derive(Debug, Clone)]
pub struct Gentle {
    config: ControllerConfig,
    window: ByteCount,
    /// Whether the window still doubles each round trip.
    is_searching: bool,
    /// The shortest round trip in this round.
    shortest: Duration,
    /// The packet that ends the round when it is acknowledged.
    last: u64,
    /// The window before the last loss, in case the loss was spurious.
    before_loss: ByteCount,
}

impl Gentle {
    /// Starts with the initial window.
    pub fn new(config: &ControllerConfig) -> Self {
        let window = config.initial_bytes();
        let (shortest, last) = (Duration::MAX, 0);
        Self { config: *config, window, is_searching: true, shortest, last, before_loss: window }
    }

    fn shrink_to(&mut self, window: ByteCount) {
        self.window = window.max(self.config.minimum_bytes());
        self.is_searching = false;
    }

    /// Decides once a round trip.
    fn end_round(&mut self, sample: &AckSample) {
        let queue = self.shortest.saturating_sub(sample.minimum_rtt);
        if queue > (sample.minimum_rtt / 4).max(Duration::from_millis(5)) {
            // The last doubling was too much: half of it is reverted.
            let part = if self.is_searching { 4 } else { 8 };
            self.shrink_to(self.window - self.window / part);
        } else if !self.is_searching && sample.allows_growth_of(self.window) {
            self.window += ByteCount(self.config.max_datagram.into());
        }
        self.shortest = Duration::MAX;
        self.last = sample.next_packet_number;
    }
}

impl CongestionController for Gentle {
    fn name(&self) -> &'static str {
        "gentle"
    }

    fn on_ack(&mut self, sample: &AckSample, _siblings: &[Subflow]) {
        if self.is_searching && sample.allows_growth_of(self.window) {
            self.window += sample.bytes_outside_recovery;
        }
        let Some(rtt) = sample.latest_rtt else { return };
        self.shortest = self.shortest.min(rtt);
        if sample.largest_acked >= self.last {
            self.end_round(sample);
        }
    }

    fn on_loss(&mut self, _sample: &LossSample) {
        self.before_loss = self.window;
        self.shrink_to(self.window / 2);
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        self.window = self.window.max(self.before_loss);
    }

    fn on_persistent_congestion(&mut self, now: Instant) {
        self.on_restart(now, ByteCount::ZERO);
    }

    fn on_restart(&mut self, _now: Instant, window: ByteCount) {
        let window = window.max(self.config.minimum_bytes());
        *self = Self { window, before_loss: window, ..Self::new(&self.config) };
    }

    fn on_max_datagram(&mut self, size: u16) {
        self.config.max_datagram = size;
        self.window = self.window.max(self.config.minimum_bytes());
    }

    fn window(&self) -> ByteCount {
        self.window
    }

    /// Spreads the window over the round trip, a little faster so that pacing is never the limit.
    fn pacing_rate(&self, smoothed_rtt: Duration) -> Rate {
        let rate = self.window.per(smoothed_rtt);
        if self.is_in_slow_start() { rate.scaled(2, 1) } else { rate.scaled(6, 5) }
    }

    fn is_in_slow_start(&self) -> bool {
        self.is_searching
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_millis(40);

    /// A round trip in which the whole window arrived after `rtt`.
    fn round(gentle: &mut Gentle, rtt: Duration) {
        let mut sample = AckSample::default();
        sample.bytes = gentle.window();
        sample.bytes_outside_recovery = gentle.window();
        sample.pipe = gentle.window();
        sample.minimum_rtt = BASE.min(rtt);
        sample.latest_rtt = Some(rtt);
        sample.largest_acked = gentle.last;
        sample.next_packet_number = gentle.last + 100;
        gentle.on_ack(&sample, &[]);
    }

    fn steady() -> Gentle {
        let mut gentle = Gentle::new(&ControllerConfig::new(1000));
        while gentle.window() < ByteCount(100_000) {
            round(&mut gentle, BASE);
        }
        gentle.shrink_to(ByteCount(100_000));
        gentle
    }

    #[test]
    fn the_window_doubles_until_packets_queue_then_grows_by_a_datagram_a_round_trip() {
        let mut gentle = Gentle::new(&ControllerConfig::new(1000));
        round(&mut gentle, BASE);
        assert_eq!(gentle.window(), ByteCount(20_000));
        round(&mut gentle, BASE + Duration::from_millis(11));
        assert_eq!((gentle.window(), gentle.is_in_slow_start()), (ByteCount(30_000), false));
        for datagrams in 31..50 {
            round(&mut gentle, BASE + Duration::from_millis(10));
            assert_eq!(gentle.window(), ByteCount(datagrams * 1000));
        }
    }

    #[test]
    fn a_queue_takes_an_eighth_a_loss_a_half_and_a_spurious_loss_is_reverted() {
        let mut gentle = steady();
        round(&mut gentle, BASE * 2);
        assert_eq!(gentle.window(), ByteCount(87_500));
        gentle.on_loss(&LossSample::default());
        assert_eq!(gentle.window(), ByteCount(43_750));
        gentle.on_spurious_loss(Instant::default());
        assert_eq!(gentle.window(), ByteCount(87_500));
    }

    #[test]
    fn an_unused_window_does_not_grow_and_none_falls_below_two_datagrams() {
        let mut gentle = steady();
        let mut sample = AckSample::default();
        sample.latest_rtt = Some(BASE);
        sample.minimum_rtt = BASE;
        sample.largest_acked = gentle.last;
        gentle.on_ack(&sample, &[]);
        assert_eq!(gentle.window(), ByteCount(100_000));
        for _ in 0..100 {
            round(&mut gentle, BASE * 3);
        }
        assert_eq!(gentle.window(), ByteCount(2000));
        gentle.on_max_datagram(9000);
        assert_eq!(gentle.window(), ByteCount(18_000));
        gentle.on_persistent_congestion(Instant::default());
        assert_eq!((gentle.window(), gentle.is_in_slow_start()), (ByteCount(18_000), true));
    }
}
