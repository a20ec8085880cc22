//! The law of `cost`.

use super::super::choice::capacity;
use super::*;

proptest! {
    #[test]
    fn a_dearer_path_is_used_only_for_what_the_cheaper_ones_do_not_carry_in_time(
        paths in some_open(), costs in any::<[bool; 3]>(), is_full in any::<[bool; 3]>(), backlog in 1..50_000_000_u64,
    ) {
        let pick = |((path, cost), is_full): ((&PathView, &bool), &bool)| {
            let path = PathView { terms: PathTerms { cost: u8::from(*cost), ..path.terms }, ..*path };
            if *is_full { full(path) } else { path }
        };
        let scene = Scene {
            backlog, ..Scene::bulk(paths.iter().zip(&costs).zip(&is_full).map(pick).collect())
        };
        let free: u64 = scene.paths.iter().filter(|path| path.terms.cost == 0)
            .map(|path| capacity(path).bytes_per_second()).sum();
        for id in chosen(&scene.decide(&mut *make("cost"))).0 {
            let is_needed = free == 0 || backlog * 10 > free * 5;
            prop_assert!(scene.path(id).terms.cost == 0 || is_needed);
        }
        for id in chosen(&scene.decide(&mut *make("cost=100ms"))).0 {
            prop_assert!(scene.path(id).terms.cost == 0 || free == 0 || backlog * 10 > free);
        }
    }

    #[test]
    fn a_path_without_quota_carries_nothing(scene in any_scene()) {
        for id in chosen(&scene.decide(&mut *make("cost"))).0 {
            let path = scene.path(id);
            prop_assert!(path.terms.quota_left.is_none_or(|left| left >= path.datagram));
        }
    }
}

#[test]
fn a_dearer_path_helps_while_the_cheaper_ones_have_been_full_for_the_patience() {
    let costly = PathView { terms: PathTerms { cost: 1, ..PathTerms::default() }, ..open(1, 20, 1_000_000) };
    let mut scheduler = make("cost");
    let mut decide = |millis: u64, free: PathView, backlog| {
        let now = Instant::from_nanos(5_000_000_000 + millis * 1_000_000);
        chosen(&Scene { now, backlog, ..Scene::bulk(vec![free, costly]) }.decide(&mut *scheduler)).0
    };
    let free = open(0, 20, 10_000_000);
    for millis in (0..=1000).step_by(100) {
        assert_eq!(decide(millis, full(free), 100_000), [], "{millis}");
    }
    assert_eq!(decide(1001, full(free), 100_000), [PathId(1)]);
    // There is room for all that is left: the time begins anew.
    assert_eq!(decide(1002, free, 50_000), [PathId(0)]);
    assert_eq!(decide(1003, full(free), 100_000), []);
}
