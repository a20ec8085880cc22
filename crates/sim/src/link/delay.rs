//! The propagation delay of a packet.

use std::time::Duration;

use manyway_proto::{Instant, Rng};

/// Latency of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DelayModel {
    /// Time from the last bit sent to the arrival. Default 0.
    pub base: Duration,
    /// How the delay varies. Default not at all.
    pub jitter: Jitter,
    /// How long one drawn variation is used. Default 0: every packet draws its own.
    pub hold: Duration,
    /// Whether a packet may overtake another. Default [`Order::Kept`].
    pub order: Order,
}

/// Distribution of the variation that is added to the base delay. A sum below zero counts as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Jitter {
    /// None.
    #[default]
    None,
    /// Evenly from minus to plus this much.
    Uniform(Duration),
    /// Normal with this standard deviation, cut at six deviations.
    Normal(Duration),
}

/// Whether packets leave a link in the order in which they entered it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// A packet that would overtake arrives together with the one before it, as on a radio link that keeps order.
    #[default]
    Kept,
    /// Each packet arrives after its own delay, as with parallel routes (and as Linux netem does it).
    Free,
}

impl DelayModel {
    /// Makes a constant delay.
    pub const fn constant(base: Duration) -> Self {
        Self { base, jitter: Jitter::None, hold: Duration::ZERO, order: Order::Kept }
    }

    /// The same delay with this variation.
    #[must_use]
    pub const fn with_jitter(mut self, jitter: Jitter, order: Order) -> Self {
        self.jitter = jitter;
        self.order = order;
        self
    }

    /// The same delay, with a new variation only once in `hold`.
    #[must_use]
    pub const fn with_hold(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }
}

/// The state of a delay on one link.
#[derive(Debug)]
pub(super) struct Delay {
    model: DelayModel,
    variation: i64,
    /// When a held variation is drawn anew.
    next_draw: Instant,
    /// The latest arrival so far.
    latest: Instant,
}

impl Delay {
    pub(super) fn new(now: Instant, model: DelayModel) -> Self {
        Self { model, variation: 0, next_draw: now, latest: now }
    }

    /// Changes the delay. Packets in flight keep their times; with [`Order::Kept`] later ones do not overtake them.
    pub(super) fn set(&mut self, now: Instant, model: DelayModel) {
        self.model = model;
        self.next_draw = now;
    }

    /// Drops the state of packets in flight, which were lost.
    pub(super) fn forget_flight(&mut self, now: Instant) {
        self.latest = now;
    }

    /// The smallest possible delay.
    pub(super) fn least(&self) -> Duration {
        let spread = match self.model.jitter {
            Jitter::None => Duration::ZERO,
            Jitter::Uniform(spread) => spread,
            Jitter::Normal(deviation) => deviation.saturating_mul(6),
        };
        self.model.base.saturating_sub(spread)
    }

    /// Arrival time of a packet whose last bit left at `departure`.
    pub(super) fn arrival(&mut self, departure: Instant, rng: &mut Rng) -> Instant {
        if departure >= self.next_draw || self.model.hold.is_zero() {
            self.variation = draw(self.model.jitter, rng);
            self.next_draw = departure + self.model.hold;
        }
        let magnitude = Duration::from_nanos(self.variation.unsigned_abs());
        let delay = if self.variation < 0 {
            self.model.base.saturating_sub(magnitude)
        } else {
            self.model.base.saturating_add(magnitude)
        };
        let arrival = match self.model.order {
            Order::Kept => (departure + delay).max(self.latest),
            Order::Free => departure + delay,
        };
        self.latest = self.latest.max(arrival);
        arrival
    }
}

/// Draws a variation in nanoseconds.
fn draw(jitter: Jitter, rng: &mut Rng) -> i64 {
    match jitter {
        Jitter::None => 0,
        Jitter::Uniform(spread) => {
            let spread = spread.as_nanos().min(MOST_NANOS);
            let offset = (u128::from(rng.next_u64()) * (2 * spread + 1)) >> 64;
            to_nanos(offset) - to_nanos(spread)
        }
        Jitter::Normal(deviation) => {
            // The sum of twelve uniform numbers from 0..1 has variance 1 and is close enough to normal: no floats, so
            // the same on every machine.
            let sum: i64 = (0..3).map(|_| quarters(rng.next_u64())).sum();
            let scaled = i128::from(sum - 12 * 0xFFFF / 2)
                * i128::from(to_nanos(deviation.as_nanos().min(MOST_NANOS)));
            i64::try_from(scaled >> 16).unwrap_or(i64::MAX)
        }
    }
}

/// Limit of the spread: about 13 days.
const MOST_NANOS: u128 = 1 << 50;

fn to_nanos(nanos: u128) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

/// The sum of the four 16-bit numbers in `random`.
fn quarters(random: u64) -> i64 {
    (0..4).map(|quarter| i64::try_from((random >> (16 * quarter)) & 0xFFFF).unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn delays(model: DelayModel, packets: u64) -> Vec<f64> {
        let mut rng = Rng::from_seed([7; 32]);
        let mut delay = Delay::new(Instant::from_nanos(0), model);
        (0..packets)
            .map(|number| {
                let departure = Instant::from_nanos(number * 1_000_000_000);
                (delay.arrival(departure, &mut rng) - departure).as_secs_f64() * 1e3
            })
            .collect()
    }

    fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt())
    }

    #[test]
    fn normal_jitter_has_the_configured_deviation() {
        let model = DelayModel::constant(100 * MS).with_jitter(Jitter::Normal(10 * MS), Order::Free);
        let (mean, deviation) = mean_and_deviation(&delays(model, 50_000));
        assert!((mean - 100.0).abs() < 0.2, "{mean}");
        assert!((deviation - 10.0).abs() < 0.2, "{deviation}");
    }

    #[test]
    fn uniform_jitter_covers_its_range_and_no_more() {
        let model = DelayModel::constant(20 * MS).with_jitter(Jitter::Uniform(5 * MS), Order::Free);
        let values = delays(model, 50_000);
        let (mean, deviation) = mean_and_deviation(&values);
        assert!((mean - 20.0).abs() < 0.1 && (deviation - 5.0 / 3.0_f64.sqrt()).abs() < 0.1);
        assert!(values.iter().all(|value| (15.0..=25.0).contains(value)));
    }

    #[test]
    fn a_delay_never_becomes_negative() {
        let model = DelayModel::constant(MS).with_jitter(Jitter::Normal(10 * MS), Order::Free);
        assert!(delays(model, 1000).iter().all(|value| *value >= 0.0));
    }

    #[test]
    fn a_held_variation_stays_in_use() {
        let model = DelayModel::constant(100 * MS)
            .with_jitter(Jitter::Uniform(50 * MS), Order::Free)
            .with_hold(Duration::from_secs(10));
        let values = delays(model, 40);
        assert!(values.chunks(10).all(|held| held.iter().all(|value| (value - held[0]).abs() < 1e-9)));
        assert!((values[0] - values[10]).abs() > 1e-6);
    }
}
