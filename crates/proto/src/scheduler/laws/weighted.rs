//! The law of `weighted`.

use std::collections::BTreeMap;

use super::*;

/// Lets a scheduler send this many bursts, and counts the bytes of each path.
fn bytes_of(choice: &str, scene: &Scene, bursts: usize) -> BTreeMap<PathId, u64> {
    let mut scheduler = make(choice);
    let mut sent = BTreeMap::new();
    for _ in 0..bursts {
        let Decision::Send { path, quantum, source } = scene.decide(&mut *scheduler) else { break };
        *sent.entry(path).or_default() += quantum.get();
        scheduler.on_event(&Event::Sent { path, bytes: quantum, source });
    }
    sent
}

fn of_weight(id: u32, weight: u32) -> PathView {
    let path = open(id, 20, 1_000_000);
    PathView { terms: PathTerms { weight, ..path.terms }, ..path }
}

#[test]
fn a_weight_out_of_range_counts_as_the_nearest() {
    let scene = Scene::bulk(vec![of_weight(0, 0), of_weight(1, u32::MAX)]);
    let sent = bytes_of("weighted=fixed", &scene, 3 * 1001);
    assert_eq!((sent[&PathId(0)], sent[&PathId(1)]), (3 * 4800, 3000 * 4800));
}

#[test]
fn settings_of_weighted_are_weights_or_fixed() {
    for good in ["weighted", "weighted=1", "weighted=1:1000", "weighted=fixed"] {
        assert_eq!(make(good).name(), "weighted");
    }
    let is_guarded = |choice| make(choice).is_guarded();
    assert_eq!(["weighted", "weighted=1:2", "weighted=fixed"].map(is_guarded), [true, false, false]);
    for wrong in ["weighted=0", "weighted=1001", "weighted=1:", "weighted=Fixed", "weighted=fixed:1"] {
        let error = by_name(wrong).unwrap_err();
        assert!(error.contains("1 to 1000") && error.contains("weighted=fixed"), "{wrong}: {error}");
    }
}

proptest! {
    #[test]
    fn weighted_keeps_each_path_within_a_turn_of_its_share(
        weights in prop::collection::vec(1..1000_u64, 1..6), count in 1..6_u32, bursts in 1..200_usize,
    ) {
        let scene = Scene::bulk((0..count).map(|id| open(id, 20, 1_000_000)).collect());
        let settings: Vec<String> = weights.iter().map(ToString::to_string).collect();
        let sent = bytes_of(&format!("weighted={}", settings.join(":")), &scene, bursts);
        // Paths beyond the list have weight 1.
        let weights: Vec<u64> = (0..scene.paths.len()).map(|place| weights.get(place).copied().unwrap_or(1)).collect();
        let (all, sum) = (sent.values().sum::<u64>(), weights.iter().sum::<u64>());
        prop_assert_eq!(all, 4800 * bursts as u64);
        for (id, weight) in (0..).zip(&weights) {
            let (bytes, share) = (sent.get(&PathId(id)).copied().unwrap_or_default(), all * weight / sum);
            prop_assert!(bytes.abs_diff(share) <= 4800 + 1, "{id}: {bytes} for {share}");
        }
    }

    #[test]
    fn weighted_fixed_keeps_each_path_within_a_turn_of_the_share_of_its_interface(
        weights in prop::collection::vec(1..=1000_u32, 1..6), bursts in 1..200_usize,
    ) {
        let scene = Scene::bulk((0..).zip(&weights).map(|(id, weight)| of_weight(id, *weight)).collect());
        let sent = bytes_of("weighted=fixed", &scene, bursts);
        let (all, sum) = (sent.values().sum::<u64>(), weights.iter().copied().map(u64::from).sum::<u64>());
        prop_assert_eq!(all, 4800 * bursts as u64);
        for (id, weight) in (0..).zip(&weights) {
            let bytes = sent.get(&PathId(id)).copied().unwrap_or_default();
            let share = all * u64::from(*weight) / sum;
            prop_assert!(bytes.abs_diff(share) <= 4800 + 1, "{id}: {bytes} for {share}");
        }
    }

    #[test]
    fn measured_weights_follow_the_rates(rates in prop::collection::vec(10_000..10_000_000_u64, 1..5)) {
        let ids = 0..u32::try_from(rates.len()).unwrap();
        let scene = Scene::bulk(ids.zip(&rates).map(|(id, rate)| open(id, 20, *rate)).collect());
        let sent = bytes_of("weighted", &scene, 300);
        let (all, sum) = (sent.values().sum::<u64>(), rates.iter().sum::<u64>());
        for (id, rate) in (0..).zip(&rates) {
            let (bytes, share) = (sent.get(&PathId(id)).copied().unwrap_or_default(), all * rate / sum);
            prop_assert!(bytes.abs_diff(share) <= 4800 + 1, "{id}: {bytes} for {share}");
        }
    }

    #[test]
    fn beside_a_full_path_fixed_weights_exceed_their_share_by_little_and_measured_ones_freely(weight in 1..1000_u64) {
        let scene = Scene::bulk(vec![open(0, 20, 1_000_000), full(open(1, 20, 1_000_000))]);
        let sent = bytes_of(&format!("weighted=1:{weight}"), &scene, 1000);
        // While the other path carries nothing, the share of this one is nothing: it exceeds its share by all its
        // bytes, less the part due to it.
        let ahead = sent[&PathId(0)] * weight / (weight + 1);
        prop_assert!(((64 << 10)..=(64 << 10) + 4800).contains(&(ahead + 1)), "{ahead}");
        let of_interfaces = Scene::bulk(vec![of_weight(0, 1), full(of_weight(1, u32::try_from(weight).unwrap()))]);
        prop_assert_eq!(bytes_of("weighted=fixed", &of_interfaces, 1000), sent);
        prop_assert_eq!(bytes_of("weighted", &scene, 1000)[&PathId(0)], 4_800_000);
    }
}
