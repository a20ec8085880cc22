//! The laws of `outstanding-ratio`.

use super::*;

proptest! {
    #[test]
    fn the_outstanding_ratio_of_the_choice_is_the_least(paths in some_open()) {
        let scene = Scene::bulk(paths);
        let (chosen, quantum) = chosen(&scene.decide(&mut *make("outstanding-ratio")));
        let (chosen, ratio) = (scene.path(chosen[0]), |path: &PathView, more: u64| {
            u128::from(path.in_flight.get() + more) * (1 << 40) / u128::from(path.window.get())
        });
        for other in &scene.paths {
            prop_assert!(ratio(chosen, 0) <= ratio(other, 0));
            let before_last = quantum.get().saturating_sub(1200);
            prop_assert!(other.id == chosen.id || ratio(chosen, before_last) <= ratio(other, 0) + 1);
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
