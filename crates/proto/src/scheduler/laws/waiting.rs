//! The laws of those that wait for the nearest path: `blest` and `ecf`.

use super::*;

proptest! {
    #[test]
    fn blest_waits_only_if_the_credit_is_less_than_the_fast_path_needs(
        near in any_open(0), far in any_open(1), credit in 0..5_000_000_u64,
    ) {
        prop_assume!(near.rtt.smoothed < far.rtt.smoothed);
        let scene = Scene { window_left: credit, ..Scene::bulk(vec![full(near), far]) };
        let ratio = far.rtt.smoothed.as_secs_f64() / near.rtt.smoothed.as_secs_f64();
        let window = count(near.window) / 1200.0;
        let meanwhile = 1200.0 * (window + (ratio - 1.0) / 2.0) * ratio;
        let left = count(ByteCount(credit)) - count(far.sendable.min(ByteCount(4800)));
        let waits = scene.decide(&mut *make("blest")) == Decision::WAIT;
        // The law computes in whole bytes.
        prop_assume!((meanwhile - left.max(0.0)).abs() > 4.0 + 2.0 * ratio);
        prop_assert_eq!(waits, meanwhile > left.max(0.0));
    }

    #[test]
    fn ecf_waits_only_if_the_fast_path_is_done_sooner(
        near in any_open(0), far in any_open(1), rest in 1..5_000_000_u64,
    ) {
        prop_assume!(near.rtt.smoothed < far.rtt.smoothed);
        let scene = Scene { backlog: rest, ..Scene::bulk(vec![full(near), far]) };
        let (fast, slow) = (near.rtt.smoothed.as_secs_f64(), far.rtt.smoothed.as_secs_f64());
        let variation = near.rtt.variation.max(far.rtt.variation).as_secs_f64();
        let rest = count(ByteCount(rest));
        let by_fast = (1.0 + rest / count(near.window)) * fast - (slow + variation);
        let on_slow = rest / count(far.window) * slow - (2.0 * fast + variation);
        prop_assume!(by_fast.abs() > 1e-6 && on_slow.abs() > 1e-6);
        let waits = scene.decide(&mut *make("ecf")) == Decision::WAIT;
        prop_assert_eq!(waits, by_fast < 0.0 && on_slow > 0.0);
    }
}

fn count(bytes: ByteCount) -> f64 {
    u32::try_from(bytes.get()).map(f64::from).unwrap()
}
