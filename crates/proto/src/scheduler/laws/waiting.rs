//! The laws of the schedulers that wait for the nearest path: `blest` and `ecf`.

use super::*;

proptest! {
    #[test]
    fn blest_waits_only_if_the_credit_is_less_than_the_fast_path_needs(
        near in any_open(0), far in any_open(1), part in 1..250_u128, blocked in 0..80_u32, free in 0..80_u32,
    ) {
        let (fast, slow) = (near.rtt.smoothed.as_millis(), far.rtt.smoothed.as_millis());
        prop_assume!(fast < slow);
        let window = u128::from(near.window.get());
        // datagram · (window + (r − 1) / 2) · r with r = slow / fast
        let meanwhile = (2 * window * fast + 1200 * (slow - fast)) * slow / (2 * fast * fast);
        let credit = meanwhile * part / 100;
        let left = credit.saturating_sub(far.sendable.get().min(4800).into());

        let mut scheduler = make("blest");
        let mut now = Instant::from_nanos(5_000_000_000);
        for credit_left in (0..blocked).map(|_| 0).chain((0..free).map(|_| 1 << 40)) {
            now += far.rtt.smoothed;
            Scene { now, credit_left, ..Scene::bulk(vec![full(near), far]) }.decide(&mut *scheduler);
        }
        let percent = (100 + blocked).min(150).saturating_sub(free).max(100);
        let needed = meanwhile * u128::from(percent) / 100;
        // The scheduler computes in whole bytes.
        prop_assume!(needed.abs_diff(left) > 4 + 4 * slow / fast);
        let credit_left = u64::try_from(credit).unwrap();
        let scene = Scene { now, credit_left, ..Scene::bulk(vec![full(near), far]) };
        prop_assert_eq!(scene.decide(&mut *scheduler) == Decision::WAIT, needed > left);
    }

    #[test]
    fn ecf_waits_only_if_the_fast_path_completes_sooner(
        near in any_open(0), far in any_open(1), rests in prop::collection::vec(1..5_000_000_u64, 1..8),
    ) {
        prop_assume!(near.rtt.smoothed < far.rtt.smoothed);
        let (fast, slow) = (near.rtt.smoothed.as_secs_f64(), far.rtt.smoothed.as_secs_f64());
        let variation = near.rtt.variation.max(far.rtt.variation).as_secs_f64();
        let mut scheduler = make("ecf");
        let mut waits = false;
        for backlog in rests {
            let scene = Scene { backlog, ..Scene::bulk(vec![full(near), far]) };
            let rest = count(ByteCount(backlog));
            // A scheduler that waited favours waiting by a quarter, until the first test fails.
            let factor = if waits { 1.25 } else { 1.0 };
            let by_fast = (1.0 + rest / count(near.window)) * fast - factor * (slow + variation);
            let on_slow = rest / count(far.window) * slow - (2.0 * fast + variation);
            prop_assume!(by_fast.abs() > 1e-6 && on_slow.abs() > 1e-6);
            prop_assert_eq!(scene.decide(&mut *scheduler) == Decision::WAIT, by_fast < 0.0 && on_slow > 0.0);
            waits = by_fast < 0.0 && (on_slow > 0.0 || waits);
        }
    }
}

fn count(bytes: ByteCount) -> f64 {
    u32::try_from(bytes.get()).map(f64::from).unwrap()
}
