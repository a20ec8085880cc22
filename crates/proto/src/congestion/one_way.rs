//! One-way delay to the peer, as far as two unsynchronised clocks can measure it.
//!
//! An acknowledgement carries the arrival time of a packet on the receiver's clock. That time minus the send time is
//! the delay plus an unknown clock offset, which is the same for all paths of a connection. So the difference between
//! the delays of two paths is exact, and so is the excess of a path's delay over its minimum: the queue at its
//! bottleneck.

use std::time::Duration;

use crate::Instant;

/// The minimum filter covers one to two times this: the clocks drift apart, and the route may change.
const HALF: Duration = Duration::from_secs(5);
/// A measurement expires after this time.
const KEEPS: Duration = Duration::from_secs(30);

/// The one-way delay of one path, with an unknown clock offset.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OneWay {
    measured: Option<Measured>,
}

/// All values but the first are in µs above the first.
#[derive(Debug, Clone, Copy)]
struct Measured {
    /// The first delay in µs, modulo 2³².
    first: u32,
    /// Moving average.
    average: i32,
    /// The minimum since `turned_at`, and in the interval before.
    smallest: [i32; 2],
    turned_at: Instant,
    at: Instant,
}

/// The one-way delay of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OneWayDelay {
    /// The recent minimum, in µs modulo 2³²; only its difference to that of another path has a meaning.
    pub(crate) smallest: u32,
    /// Average queueing delay.
    pub(crate) queue: Duration,
    /// Time since the last measurement.
    pub(crate) age: Duration,
}

impl OneWay {
    /// Adds a packet that left at `sent` and arrived when the receiver's clock showed `received` µs. Returns the
    /// delay between these two clocks, in µs modulo 2³².
    pub(crate) fn on_sample(&mut self, now: Instant, sent: Instant, received: u32) -> u32 {
        let sample = received.wrapping_sub(micros(sent));
        let fresh = Measured { first: sample, average: 0, smallest: [0; 2], turned_at: now, at: now };
        let mut measured = self.current(now).unwrap_or(fresh);
        let above = difference(sample, measured.first);
        // The weight is an eighth, as for the RTT.
        measured.average = measured.average.saturating_add(above.saturating_sub(measured.average) / 8);
        measured.at = now;
        let [smallest, before] = measured.smallest;
        if now - measured.turned_at < HALF {
            measured.smallest = [smallest.min(above), before];
        } else {
            measured.smallest = [above, smallest];
            measured.turned_at = now;
        }
        self.measured = Some(measured);
        sample
    }

    /// Average return delay of acknowledgements between the same two clocks, in µs modulo 2³², for the average RTT
    /// `round_trip`.
    pub(crate) fn return_delay(&self, now: Instant, round_trip: Duration) -> Option<u32> {
        let Measured { first, average, .. } = self.current(now)?;
        let round_trip = u32::try_from(round_trip.as_micros()).unwrap_or(u32::MAX);
        Some(round_trip.wrapping_sub(first.wrapping_add_signed(average)))
    }

    /// The measured delay.
    pub(crate) fn delay(&self, now: Instant) -> Option<OneWayDelay> {
        let Measured { first, average, smallest: [smallest, before], at, .. } = self.current(now)?;
        let smallest = smallest.min(before);
        let queue = u64::try_from(average.saturating_sub(smallest)).unwrap_or(0);
        Some(OneWayDelay {
            smallest: first.wrapping_add_signed(smallest),
            queue: Duration::from_micros(queue),
            age: now - at,
        })
    }

    /// The path leads elsewhere now.
    pub(crate) fn forget(&mut self) {
        self.measured = None;
    }

    fn current(&self, now: Instant) -> Option<Measured> {
        self.measured.filter(|measured| now - measured.at < KEEPS)
    }
}

/// By how many µs `later` is after `earlier`, both modulo 2³².
pub(crate) fn difference(later: u32, earlier: u32) -> i32 {
    later.wrapping_sub(earlier).cast_signed()
}

fn micros(at: Instant) -> u32 {
    u32::try_from(at.as_nanos() / 1000 % (1 << 32)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    /// Takes a sample each 10 ms on a clock with the offset `offset`.
    fn measure(path: &mut OneWay, start: u64, offset: u32, delays: impl Iterator<Item = u64>) {
        for (sent, delay) in (start..).step_by(10_000).zip(delays) {
            let received = u32::try_from((sent + delay) % (1 << 32)).unwrap().wrapping_add(offset);
            path.on_sample(at(sent + 2 * delay), at(sent), received);
        }
    }

    proptest! {
        #[test]
        fn the_difference_between_two_paths_equals_the_difference_of_their_delays(
            offset: u32, start in 0u64..1 << 50, near in 0u64..500_000, far in 0u64..500_000,
        ) {
            let mut paths = [OneWay::default(); 2];
            for (path, delay) in paths.iter_mut().zip([near, far]) {
                measure(path, start, offset, std::iter::repeat_n(delay, 100));
            }
            let smallest = paths.map(|path| path.delay(at(start + 2_000_000)).unwrap().smallest);
            prop_assert_eq!(i64::from(difference(smallest[1], smallest[0])), far.cast_signed() - near.cast_signed());
        }
    }

    #[test]
    fn the_queue_is_the_excess_of_the_delay_over_its_minimum() {
        let mut path = OneWay::default();
        let delays = std::iter::repeat_n(30_000, 50).chain(std::iter::repeat_n(90_000, 50));
        measure(&mut path, 0, u32::MAX - 20_000, delays);
        let queue = path.delay(at(1_200_000)).unwrap().queue;
        assert!((Duration::from_millis(58)..=Duration::from_millis(60)).contains(&queue), "{queue:?}");
    }

    #[test]
    fn an_old_measurement_is_forgotten() {
        let mut path = OneWay::default();
        path.on_sample(at(0), at(0), 7);
        let later = at(0) + KEEPS;
        assert!(path.delay(later - Duration::from_nanos(1)).is_some() && path.delay(later).is_none());
    }
}
