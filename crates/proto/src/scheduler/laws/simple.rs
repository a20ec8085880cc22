//! The laws of `min-rtt`, `round-robin` and `outstanding-ratio`.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

proptest! {
    #[test]
    fn min_rtt_takes_the_nearest_path_that_can_send(scene in any_scene()) {
        let decision = scene.decide(&mut *make("min-rtt"));
        match chosen(&decision).0.first() {
            Some(id) => {
                let nearest = scene.due().iter().map(|path| path.rtt.smoothed).min();
                prop_assert_eq!(Some(scene.path(*id).rtt.smoothed), nearest);
            }
            None => prop_assert!(scene.due().is_empty()),
        }
    }

    #[test]
    fn round_robin_visits_every_path_that_can_send_once_a_round(paths in many_open(), rounds in fates()) {
        let mut scheduler = make("round-robin");
        let mut last = None;
        // For each path, the paths that could send all the time since its last visit and were not visited.
        let mut owed: BTreeMap<PathId, BTreeSet<PathId>> = BTreeMap::new();
        for fates in &rounds {
            let scene = Scene::bulk(befallen(&paths, fates));
            let due: BTreeSet<PathId> = scene.due().iter().map(|path| path.id).collect();
            owed.values_mut().for_each(|others| others.retain(|other| due.contains(other)));
            let Decision::Send { path, quantum, .. } = scene.decide(&mut *scheduler) else {
                prop_assert!(due.is_empty());
                continue;
            };
            prop_assert!(due.contains(&path));
            prop_assert_eq!(quantum, scene.path(path).sendable.min(ByteCount(4 * 1200)));
            prop_assert!(owed.get(&path).is_none_or(BTreeSet::is_empty), "{path} again before {owed:?}");
            let is_next = last < Some(path) && !due.iter().any(|other| last < Some(*other) && *other < path);
            let is_first = due.iter().all(|other| Some(*other) <= last && path <= *other);
            prop_assert!(is_next || is_first, "{path} after {last:?}");
            owed.values_mut().for_each(|others| others.retain(|other| *other != path));
            owed.insert(path, paths.iter().map(|other| other.id).filter(|other| *other != path).collect());
            last = Some(path);
        }
    }

    #[test]
    fn the_outstanding_ratio_of_the_choice_is_the_least(paths in some_open(), is_full in any::<[bool; 3]>()) {
        let filter = |(path, is_full): (&PathView, &bool)| if *is_full { full(*path) } else { *path };
        let scene = Scene::bulk(paths.iter().zip(&is_full).map(filter).collect());
        let (chosen, quantum) = chosen(&scene.decide(&mut *make("outstanding-ratio")));
        prop_assert_eq!(chosen.is_empty(), scene.roomy().is_empty());
        let ratio = |path: &PathView, more: u64| {
            u128::from(path.in_flight.get() + more) * (1 << 40) / u128::from(path.window.get())
        };
        for chosen in chosen.into_iter().map(|id| scene.path(id)) {
            for other in scene.roomy() {
                prop_assert!(ratio(chosen, 0) <= ratio(other, 0));
                let before_last = quantum.get().saturating_sub(1200);
                prop_assert!(other.id == chosen.id || ratio(chosen, before_last) <= ratio(other, 0) + 1);
            }
        }
    }

    #[test]
    fn small_traffic_stays_on_the_oldest_path(paths in some_open(), bytes in 1..2400_u64) {
        let mut scene = Scene { backlog: bytes, ..Scene::bulk(paths) };
        prop_assert_eq!(chosen(&scene.decide(&mut *make("outstanding-ratio"))).0, vec![PathId(0)]);
        scene.paths[0] = full(scene.paths[0]);
        prop_assert_eq!(scene.decide(&mut *make("outstanding-ratio")), Decision::WAIT);
        scene.paths[0] = dead(scene.paths[0]);
        prop_assert_eq!(chosen(&scene.decide(&mut *make("outstanding-ratio"))).0, vec![PathId(1)]);
    }
}
