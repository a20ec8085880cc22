//! Departure times from a rate: a token bucket in integers, exact to the nanosecond.

use std::time::Duration;

use crate::{ByteCount, Instant, Rate};

/// Below this rate packets leave one by one (as BBR's send quantum).
const SLOW: Rate = Rate::from_bits_per_second(1_200_000);
/// Below this rate packets leave two by two.
const MEDIUM: Rate = Rate::from_bits_per_second(24_000_000);
/// Above, a burst is what leaves within this time.
const BURST_TIME: Duration = Duration::from_millis(1);
/// The bucket holds what leaves within this time.
const BUCKET_TIME: Duration = Duration::from_millis(2);
/// A sender that serves waiting data late, as on a busy system, may make up for at most this time.
const LATE_MAX: Duration = Duration::from_millis(5);
/// Most bytes of a burst: segmentation offload takes 64 KiB including headers.
const BURST_MAX: ByteCount = ByteCount(65_000);

/// A datagram of Ethernet; bursts of larger datagrams have fewer of them.
const ORDINARY: u64 = 1472;

const NEVER: Instant = Instant::from_nanos(u64::MAX);

const NANOS: i64 = 1_000_000_000;

/// Releases bytes at a rate, in bursts that are worth a system call.
///
/// Law: within any time `t` never more than `rate · t + bucket` bytes leave, and once what leaves in [`LATE_MAX`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pacer {
    /// In 1/10⁹ bytes, so rounding loses nothing; negative after sending more than was allowed.
    tokens: i64,
    updated: Option<Instant>,
    /// When the waiting data was due; [`NEVER`] if none waits.
    due: Instant,
}

/// What the pacer permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departure {
    /// This many bytes now.
    Now(ByteCount),
    /// A burst at this instant.
    At(Instant),
}

impl Pacer {
    pub(crate) const fn new() -> Self {
        Self { tokens: 0, updated: None, due: NEVER }
    }

    /// What may leave. A rate below one datagram per second counts as one.
    pub(crate) fn departure(&mut self, now: Instant, rate: Rate, max_datagram: u16) -> Departure {
        let datagram = u64::from(max_datagram.max(1));
        let rate = rate.max(Rate::from_bytes_per_second(datagram));
        self.refill(now, rate, max_datagram);
        let burst = fine(burst(rate, max_datagram));
        if self.tokens >= burst {
            if self.tokens <= fine(bucket(rate, max_datagram)) {
                self.due = NEVER;
            }
            return Departure::Now(ByteCount(u64::try_from(self.tokens / NANOS).unwrap_or(0)));
        }
        let nanos = self.tokens.abs_diff(burst).div_ceil(rate.bytes_per_second());
        let at = now + Duration::from_nanos(nanos);
        self.due = at;
        Departure::At(at)
    }

    /// No data waits: data that comes later is not late.
    pub(crate) fn cancel_departure(&mut self) {
        self.due = NEVER;
    }

    /// Bytes left, whether permitted or not; a debt above `burst` is forgiven.
    pub(crate) fn on_sent(&mut self, bytes: ByteCount) {
        self.tokens = self.tokens.saturating_sub(fine(bytes)).max(-fine(BURST_MAX));
    }

    /// Starts with an empty bucket that fills from `now` on.
    pub(crate) fn restart(&mut self, now: Instant) {
        *self = Self { tokens: 0, updated: Some(now), due: NEVER };
    }

    fn refill(&mut self, now: Instant, rate: Rate, max_datagram: u16) {
        let late = (now - self.due).min(LATE_MAX);
        let bucket = fine(bucket(rate, max_datagram) + rate * late);
        let Some(updated) = self.updated else {
            // The first burst may leave at once.
            self.tokens = self.tokens.saturating_add(fine(burst(rate, max_datagram)));
            self.updated = Some(now);
            return;
        };
        let nanos = u64::try_from((now - updated).as_nanos()).unwrap_or(u64::MAX);
        let gained = i64::try_from(nanos.saturating_mul(rate.bytes_per_second())).unwrap_or(i64::MAX);
        self.tokens = self.tokens.saturating_add(gained).min(bucket);
        self.updated = Some(updated.max(now));
    }
}

/// How many bytes leave together at a rate, in whole datagrams; one datagram above the Ethernet size may exceed it.
pub(crate) fn burst(rate: Rate, max_datagram: u16) -> ByteCount {
    let datagram = u64::from(max_datagram.max(1));
    let ordinary = datagram.min(ORDINARY);
    let bytes = if rate < SLOW {
        ordinary
    } else if rate < MEDIUM {
        2 * ordinary
    } else {
        (rate * BURST_TIME).min(BURST_MAX).get().max(2 * ordinary)
    };
    ByteCount((bytes / datagram).max(1) * datagram)
}

/// How many bytes may leave at once after a pause.
pub(crate) fn bucket(rate: Rate, max_datagram: u16) -> ByteCount {
    burst(rate, max_datagram).max(rate * BUCKET_TIME)
}

fn fine(bytes: ByteCount) -> i64 {
    i64::try_from(bytes.get()).unwrap_or(i64::MAX).saturating_mul(NANOS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bursts_grow_with_the_rate_in_whole_datagrams() {
        let mbit = |n: u64| Rate::from_bits_per_second(n * 1_000_000);
        assert_eq!(burst(mbit(1), 1200), ByteCount(1200));
        assert_eq!(burst(mbit(10), 1200), ByteCount(2400));
        assert_eq!(burst(mbit(50), 1200), ByteCount(6000));
        assert_eq!(burst(mbit(10_000), 1200), ByteCount(64_800));
        assert_eq!(bucket(mbit(50), 1200), ByteCount(12_500));
        assert_eq!(burst(mbit(50), 8972), ByteCount(8972));
        assert_eq!(burst(mbit(400), 8972), ByteCount(5 * 8972));
        assert_eq!(burst(mbit(10_000), 65_000), ByteCount(65_000));
    }

    /// What may leave `late` after the due time, with or without waiting data.
    fn after(late: Duration, waits: bool) -> ByteCount {
        let rate = Rate::from_bytes_per_second(10_000_000);
        let (mut pacer, start) = (Pacer::new(), Instant::from_nanos(0));
        let Departure::Now(first) = pacer.departure(start, rate, 1000) else {
            panic!("the first burst waits")
        };
        pacer.on_sent(first);
        let Departure::At(due) = pacer.departure(start, rate, 1000) else { panic!("no pace") };
        if !waits {
            pacer.cancel_departure();
        }
        match pacer.departure(due + late, rate, 1000) {
            Departure::Now(bytes) => bytes,
            Departure::At(_) => panic!("it does not keep its promise"),
        }
    }

    #[test]
    fn data_delayed_by_a_late_timer_leaves_at_once_within_bounds_but_a_pause_is_not_made_up_for() {
        let millis = Duration::from_millis;
        assert_eq!(after(millis(0), true), ByteCount(10_000));
        assert_eq!(after(millis(3), true), ByteCount(40_000));
        assert_eq!(after(millis(50), true), ByteCount(70_000));
        assert_eq!(after(millis(50), false), ByteCount(20_000));
    }

    proptest! {
        #[test]
        fn the_pacer_never_releases_more_than_rate_times_time_and_one_bucket(
            rate in 2_000u64..2_000_000_000, greed in 1u64..5, waits in proptest::collection::vec(0u64..5_000_000, 1..200)
        ) {
            let rate = Rate::from_bytes_per_second(rate);
            let (mut pacer, mut now, mut sent) = (Pacer::new(), 0, ByteCount::ZERO);
            for wait in waits {
                now += wait;
                while let Departure::Now(bytes) = pacer.departure(Instant::from_nanos(now), rate, 1200) {
                    let take = bytes / greed + ByteCount(u64::from(bytes / greed == ByteCount::ZERO));
                    pacer.on_sent(take);
                    sent += take;
                }
                let allowed = rate * Duration::from_nanos(now) + bucket(rate, 1200) + rate * LATE_MAX;
                prop_assert!(sent <= allowed + ByteCount(1));
            }
        }

        #[test]
        fn a_greedy_sender_that_keeps_the_times_gets_the_whole_rate(rate in 2_000u64..2_000_000_000) {
            let rate = Rate::from_bytes_per_second(rate);
            let (mut pacer, mut now, mut sent) = (Pacer::new(), Instant::from_nanos(0), ByteCount::ZERO);
            for _ in 0..2000 {
                match pacer.departure(now, rate, 1200) {
                    Departure::Now(bytes) => {
                        pacer.on_sent(bytes);
                        sent += bytes;
                    }
                    Departure::At(later) => {
                        prop_assert!(later > now);
                        now = later;
                    }
                }
            }
            if let Departure::Now(bytes) = pacer.departure(now, rate, 1200) {
                sent += bytes;
            }
            // One burst was available at the start; less than a byte is left in the bucket.
            prop_assert!(sent + ByteCount(1) >= rate * (now - Instant::from_nanos(0)) + burst(rate, 1200));
        }
    }
}
