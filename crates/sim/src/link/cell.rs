//! A synthetic cell of a mobile network with a variable rate: for traces without a recording.

use std::fmt::Write;
use std::time::Duration;

use manyway_proto::{Rate, Rng};

use super::{DeliveryTrace, TraceError};

/// A cell whose rate takes a random walk around its mean and which delivers packets at random times of that rate. That
/// is the model of Sprout (Winstein et al., NSDI 2013) with bounds: the rate is reflected at an eighth of the mean and
/// at fifteen eighths of it.
///
/// The same seed gives the same trace on every machine.
///
/// ```
/// use manyway_proto::Rate;
/// use manyway_sim::link::{CellModel, DeliveryTrace};
/// let mbit = |megabits: u64| Rate::from_bits_per_second(megabits * 1_000_000);
/// let cell = CellModel::new(mbit(25), mbit(8), 1);
/// let text = cell.mahimahi()?;
/// assert_eq!(DeliveryTrace::from_mahimahi(&text)?, cell.trace()?);
/// # Ok::<(), manyway_sim::link::TraceError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CellModel {
    /// The rate in the middle of its bounds; at most [`Self::FASTEST`].
    pub mean: Rate,
    /// The standard deviation of the change in a second.
    pub wander: Rate,
    /// Where the random numbers begin.
    pub seed: u64,
    /// Length of the trace before it repeats, in whole milliseconds. Default 20 s.
    pub period: Duration,
}

impl CellModel {
    /// The largest mean, 150 Mbit/s.
    pub const FASTEST: Rate = Rate::from_bits_per_second(150_000_000);

    /// Makes a cell whose trace lasts 20 s.
    pub const fn new(mean: Rate, wander: Rate, seed: u64) -> Self {
        Self { mean, wander, seed, period: Duration::from_secs(20) }
    }

    /// The trace.
    ///
    /// # Errors
    /// The mean is so low that no packet leaves within the period.
    pub fn trace(&self) -> Result<DeliveryTrace, TraceError> {
        DeliveryTrace::from_mahimahi(&self.mahimahi()?)
    }

    /// The trace as a file for mahimahi's `mm-link`.
    ///
    /// # Errors
    /// As for [`Self::trace`].
    pub fn mahimahi(&self) -> Result<String, TraceError> {
        let mut text = String::new();
        let mut rng = Rng::from_seed(wide(self.seed));
        let mean = billionths_a_milli(self.mean.min(Self::FASTEST));
        let step = billionths_a_milli(self.wander) * SECOND_IN_STEPS.0 / SECOND_IN_STEPS.1;
        let (least, most) = (mean / 8, mean * 15 / 8);
        let mut now = mean;
        let mut last = None;
        for milli in 1..=self.period.as_millis() {
            now = reflect(now + step * normal(&mut rng) / DEVIATION, least, most);
            for _ in 0..TRIALS {
                if i64::from(u32::try_from(rng.next_u64() % BILLION).unwrap_or(0)) < now / TRIALS {
                    // Writing to a string does not fail.
                    let _ = writeln!(text, "{milli}");
                    last = Some(milli);
                }
            }
        }
        let last = last.ok_or(TraceError::Empty)?;
        if last < self.period.as_millis() {
            let _ = writeln!(text, "{}", self.period.as_millis());
        }
        Ok(text)
    }
}

const BILLION: u64 = 1_000_000_000;
/// In each of these parts of a millisecond a packet may leave.
const TRIALS: i64 = 32;
/// A step of a millisecond deviates by the 31.623rd part of what a second does.
const SECOND_IN_STEPS: (i64, i64) = (1000, 31_623);
/// The standard deviation of [`normal`].
const DEVIATION: i64 = 1 << 16;

/// Packets of 1504 bytes in a millisecond, in billionths.
fn billionths_a_milli(rate: Rate) -> i64 {
    let bytes = rate.bytes_per_second().min(CellModel::FASTEST.bytes_per_second());
    i64::try_from(bytes * 1_000_000 / DeliveryTrace::MAHIMAHI_BYTES.get()).unwrap_or(i64::MAX)
}

/// A nearly normal number: the sum of twelve uniform ones.
fn normal(rng: &mut Rng) -> i64 {
    let draw = |_| i64::try_from(rng.next_u64() >> 48).unwrap_or(0);
    (0..12).map(draw).sum::<i64>() - 6 * DEVIATION
}

fn reflect(value: i64, least: i64, most: i64) -> i64 {
    let inside = if value < least { 2 * least - value } else { value };
    (if inside > most { 2 * most - inside } else { inside }).clamp(least, most)
}

fn wide(seed: u64) -> [u8; 32] {
    let mut wide = [0; 32];
    for (place, byte) in wide.iter_mut().zip(seed.to_le_bytes()) {
        *place = byte;
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbit(megabits: u64) -> Rate {
        Rate::from_bits_per_second(megabits * 1_000_000)
    }

    #[test]
    fn the_rate_wanders_around_its_mean_and_within_its_bounds() {
        for seed in 0..5 {
            let period = Duration::from_secs(200);
            let cell = CellModel { period, ..CellModel::new(mbit(25), mbit(8), seed) };
            let mean = cell.trace().unwrap().mean_rate();
            assert!((mbit(15)..=mbit(35)).contains(&mean), "{seed}: {mean}");
            let mut seconds = [0u64; 200];
            for line in cell.mahimahi().unwrap().lines() {
                let milli: usize = line.parse().unwrap();
                seconds[(milli - 1) / 1000] += 1504 * 8;
            }
            let (least, most) = (*seconds.iter().min().unwrap(), *seconds.iter().max().unwrap());
            assert!(least < 15_000_000 && most > 35_000_000, "{seed}: {least} {most}");
            assert!(most < 49_000_000, "{seed}: {most}");
        }
    }

    #[test]
    fn a_cell_that_delivers_nothing_is_no_trace() {
        assert_eq!(CellModel::new(Rate::ZERO, Rate::ZERO, 1).trace(), Err(TraceError::Empty));
    }
}
