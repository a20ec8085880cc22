//! How long packets need to the peer, as far as two clocks that nobody compares can tell.
//!
//! An acknowledgement says when a packet arrived by the receiver's clock. That less the time it left is the delay and
//! an unknown difference of the clocks, which is the same for all paths of a connection: what the delays of two paths
//! differ by is exact. So is what the delay of one path is above its smallest: the queue in front of its bottleneck.

use std::time::Duration;

use crate::Instant;

/// The smallest delay counts for once to twice as long: the clocks drift apart, and the path may become another.
const HALF: Duration = Duration::from_secs(5);
/// Without a measurement for so long nothing is known.
const KEEPS: Duration = Duration::from_secs(30);

/// The delay of one path by a clock that is off by an unknown time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OneWay {
    measured: Option<Measured>,
}

/// All but the first in µs above the first.
#[derive(Debug, Clone, Copy)]
struct Measured {
    /// The first delay in µs, modulo 2³².
    first: u32,
    /// Moving average.
    average: i32,
    /// The smallest since `turned_at`, and in the stretch before.
    smallest: [i32; 2],
    turned_at: Instant,
    at: Instant,
}

/// The delay of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OneWayDelay {
    /// The smallest lately, in µs, modulo 2³²; only what it differs by from that of another path means anything.
    pub(crate) smallest: u32,
    /// How long packets waited in queues on the way, on average.
    pub(crate) queue: Duration,
    /// Time since the last measurement.
    pub(crate) age: Duration,
}

impl OneWay {
    /// A packet that left at `sent` arrived when the receiver's clock showed `received` µs. Returns the delay by these two
    /// clocks, in µs modulo 2³².
    pub(crate) fn on_sample(&mut self, now: Instant, sent: Instant, received: u32) -> u32 {
        let sample = received.wrapping_sub(micros(sent));
        let fresh = Measured { first: sample, average: 0, smallest: [0; 2], turned_at: now, at: now };
        let mut measured = self.current(now).unwrap_or(fresh);
        let above = difference(sample, measured.first);
        // An eighth, as for the round trip.
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

    /// How long acknowledgements need back on average, in µs modulo 2³², by the same two clocks, where round trips last so
    /// long on average.
    pub(crate) fn return_delay(&self, now: Instant, round_trip: Duration) -> Option<u32> {
        let Measured { first, average, .. } = self.current(now)?;
        let round_trip = u32::try_from(round_trip.as_micros()).unwrap_or(u32::MAX);
        Some(round_trip.wrapping_sub(first.wrapping_add_signed(average)))
    }

    /// What is known of the delay.
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

    /// Samples each 10 ms by a clock that is off by `offset`.
    fn measure(path: &mut OneWay, start: u64, offset: u32, delays: impl Iterator<Item = u64>) {
        for (sent, delay) in (start..).step_by(10_000).zip(delays) {
            let received = u32::try_from((sent + delay) % (1 << 32)).unwrap().wrapping_add(offset);
            path.on_sample(at(sent + 2 * delay), at(sent), received);
        }
    }

    proptest! {
        #[test]
        fn the_difference_of_two_paths_is_that_of_their_delays(
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
    fn a_queue_is_what_the_delay_is_above_its_smallest() {
        let mut path = OneWay::default();
        let delays = std::iter::repeat_n(30_000, 50).chain(std::iter::repeat_n(90_000, 50));
        measure(&mut path, 0, u32::MAX - 20_000, delays);
        let queue = path.delay(at(1_200_000)).unwrap().queue;
        assert!((Duration::from_millis(58)..=Duration::from_millis(60)).contains(&queue), "{queue:?}");
    }

    #[test]
    fn a_measurement_of_long_ago_is_forgotten() {
        let mut path = OneWay::default();
        path.on_sample(at(0), at(0), 7);
        let later = at(0) + KEEPS;
        assert!(path.delay(later - Duration::from_nanos(1)).is_some() && path.delay(later).is_none());
    }
}
