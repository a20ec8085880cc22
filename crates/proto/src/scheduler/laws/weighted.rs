//! The law of `weighted`.

use std::collections::BTreeMap;

use super::*;

/// Lets a scheduler send so many bursts, and counts the bytes of each path.
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

proptest! {
    #[test]
    fn weighted_keeps_each_path_within_a_turn_of_its_share(
        weights in prop::collection::vec(1..1000_u64, 1..6), count in 1..6_u32, bursts in 1..200_usize,
    ) {
        let scene = Scene::bulk((0..count).map(|id| open(id, 20, 1_000_000)).collect());
        let settings: Vec<String> = weights.iter().map(ToString::to_string).collect();
        let sent = bytes_of(&format!("weighted={}", settings.join(":")), &scene, bursts);
        // Paths beyond the list have 1.
        let weights: Vec<u64> = (0..scene.paths.len()).map(|place| weights.get(place).copied().unwrap_or(1)).collect();
        let (all, sum) = (sent.values().sum::<u64>(), weights.iter().sum::<u64>());
        prop_assert_eq!(all, 4800 * bursts as u64);
        for (id, weight) in (0..).zip(&weights) {
            let (bytes, share) = (sent.get(&PathId(id)).copied().unwrap_or_default(), all * weight / sum);
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
    fn fixed_weights_run_ahead_of_a_full_path_by_little_and_measured_ones_by_any_amount(weight in 1..1000_u64) {
        let scene = Scene::bulk(vec![open(0, 20, 1_000_000), full(open(1, 20, 1_000_000))]);
        let sent = bytes_of(&format!("weighted=1:{weight}"), &scene, 1000);
        // Its share is nothing while the other one has nothing: it is ahead with all that it has, but for what is due
        // to it of that.
        let ahead = sent[&PathId(0)] * weight / (weight + 1);
        prop_assert!(((64 << 10)..=(64 << 10) + 4800).contains(&(ahead + 1)), "{ahead}");
        prop_assert_eq!(bytes_of("weighted", &scene, 1000)[&PathId(0)], 4_800_000);
    }
}
