//! Shared and separate queues.

use std::time::Duration;

use proptest::prelude::*;

use super::history::{LATELY, REMEMBERED};
use super::*;
use crate::ByteCount;

const MS: Duration = Duration::from_millis(1);
const PATHS: [PathId; 2] = [PathId(0), PathId(1)];

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// A queue that fills within `period` ms and is emptied by half, with some noise; in µs.
fn queue(millis: u64, period: u64, seed: u64) -> u64 {
    let mut noise = (millis / 100).wrapping_add(seed << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    noise ^= noise >> 29;
    noise = noise.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40;
    let filled = millis % period * 40_000 / period;
    40_000 + filled + noise % 6000
}

/// Samples of a path every 20 ms, whose packets take `base` ms besides their time in the queue.
fn sample(history: &mut DelayHistory, millis: u64, base: u64, queue: u64, clock: u32) {
    let sent = millis * 1000;
    let received = u32::try_from((sent + base * 1000 + queue) % (1 << 32)).unwrap().wrapping_add(clock);
    let now = at(millis) + MS * u32::try_from(2 * base).unwrap() + Duration::from_micros(queue);
    history.on_sample(now, at(millis), received);
    history.on_outcome(ByteCount(2400), ByteCount::ZERO);
}

/// Observes two paths from `from` until `until` ms; returns the time, in ms, from which on they were found separate.
fn watch(
    known: &mut SharedBottlenecks,
    histories: &mut [DelayHistory; 2],
    (from, until): (u64, u64),
    queues: impl Fn(u64) -> [u64; 2],
) -> Option<u64> {
    let mut since = None;
    for millis in (from..until).step_by(20) {
        let [near, far] = histories;
        let [first, second] = queues(millis);
        sample(near, millis, 10, first, 17);
        sample(far, millis, 40, second, 17);
        known.judge(at(millis + 200), PATHS.into_iter().zip(&*histories));
        since = (!known.shared(PATHS)).then(|| since.unwrap_or(millis));
    }
    since
}

#[test]
fn paths_through_one_queue_stay_one_group() {
    for (period, seed) in [(1500, 1), (4000, 2), (9000, 3)] {
        let mut known = SharedBottlenecks::default();
        let mut histories = Default::default();
        let one = |millis| [queue(millis, period, seed); 2];
        for second in 0..60 {
            let stretch = (second * 1000, (second + 1) * 1000);
            assert_eq!(watch(&mut known, &mut histories, stretch, one), None, "{period} {second}");
        }
    }
}

#[test]
fn queues_with_the_same_pace_but_different_phases_are_separated_within_twelve_seconds() {
    for seed in 0..20 {
        let mut known = SharedBottlenecks::default();
        let mut histories = Default::default();
        let two = |millis| [queue(millis, 4000, seed), queue(millis + 500, 4000, seed + 100)];
        let since = watch(&mut known, &mut histories, (0, 60_000), two);
        assert!(since.is_some_and(|since| since < 12_000), "{seed} {since:?}");
    }
}

#[test]
fn diverging_paths_are_two_groups_within_twenty_seconds_and_one_again_as_soon() {
    let mut known = SharedBottlenecks::default();
    let mut histories = Default::default();
    let one = |millis| [queue(millis, 4000, 1); 2];
    let two = |millis| [queue(millis, 4000, 1), queue(millis + 1500, 5000, 2)];
    assert_eq!(watch(&mut known, &mut histories, (0, 30_000), one), None);
    assert!(watch(&mut known, &mut histories, (30_000, 50_000), two).is_some());
    assert_eq!(watch(&mut known, &mut histories, (50_000, 70_000), one), None);
}

#[test]
fn a_verdict_is_forgotten_after_a_pause_and_with_its_path() {
    let two = |millis| [queue(millis, 4000, 1), queue(millis + 1500, 5000, 2)];
    for forget in [false, true] {
        let mut known = SharedBottlenecks::default();
        let mut histories = Default::default();
        assert!(watch(&mut known, &mut histories, (0, 30_000), two).is_some());
        if forget {
            known.forget(PathId(1));
        } else {
            known.judge(at(30_000 + 9000), PATHS.into_iter().zip(&histories));
            assert!(!known.shared(PATHS));
            known.judge(at(30_000 + 11_500), PATHS.into_iter().zip(&histories));
        }
        assert!(known.shared(PATHS));
    }
}

#[test]
fn queues_that_are_never_full_do_not_join_diverged_paths() {
    // Short peaks above an empty queue: the delay is below its mean most of the time.
    let mut known = SharedBottlenecks::default();
    let mut histories = Default::default();
    let two = |millis| [queue(millis, 4000, 1), queue(millis + 1500, 5000, 2)];
    let peaks = |millis: u64| [if millis % 1400 < 200 { 20_000 } else { millis % 100 }; 2];
    assert!(watch(&mut known, &mut histories, (0, 30_000), two).is_some());
    assert!(watch(&mut known, &mut histories, (30_000, 39_000), peaks).is_some());
}

#[test]
fn the_statistics_are_those_of_rfc_8382() {
    let mut history = DelayHistory::default();
    // Four intervals at 10 ms, two at 40 ms: in a third of them all samples are above the mean.
    for millis in (0..35_000).step_by(10) {
        let high = (millis + 1) / 350 % 6 >= 4;
        history.on_sample(
            at(millis + 2),
            at(millis),
            u32::try_from(millis * 1000).unwrap() + if high { 40_000 } else { 10_000 },
        );
        history.on_outcome(ByteCount(900), ByteCount(100));
    }
    let now = interval_of(at(35_000));
    let figures = Summary::of(&history, now).unwrap();
    assert!((300..=366).contains(&figures.skewness), "{figures:?}");
    // One of three intervals differs by 30 ms from the one before.
    assert!((9_000..=11_000).contains(&figures.deviation), "{figures:?}");
    assert!((300..=360).contains(&figures.frequency), "{figures:?}");
    assert_eq!(figures.loss, 100);
    // The newest interval is unfinished.
    assert_eq!(history.last(now, LATELY).count(), 29);
    assert!(history.last(now, u32::MAX).count() <= usize::try_from(REMEMBERED).unwrap());
}

proptest! {
    #[test]
    fn the_clock_offset_does_not_matter(clock: u32, start in 0u64..1 << 40) {
        let summary = |clock| {
            let mut history = DelayHistory::default();
            for millis in (start..start + 15_000).step_by(20) {
                sample(&mut history, millis, 20, queue(millis, 3000, 1), clock);
            }
            Summary::of(&history, interval_of(at(start + 15_000)))
        };
        prop_assert!(summary(0).is_some());
        prop_assert_eq!(summary(clock), summary(0));
    }

    #[test]
    fn a_peer_that_invents_times_breaks_nothing(
        times in proptest::collection::vec((any::<u32>(), any::<u32>(), 0u64..400), 1..300)
    ) {
        let mut known = SharedBottlenecks::default();
        let mut histories = <[DelayHistory; 2]>::default();
        let mut millis = 0;
        for (first, second, gap) in times {
            millis += gap;
            for (history, received) in histories.iter_mut().zip([first, second]) {
                history.on_sample(at(millis + 30), at(millis), received);
                history.on_outcome(ByteCount(first.into()), ByteCount(second.into()));
            }
            known.judge(at(millis + 30), PATHS.into_iter().zip(&histories));
        }
    }
}
