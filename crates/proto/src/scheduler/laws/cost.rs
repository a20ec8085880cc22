//! The laws of `cost`.

use super::super::choice::capacity;
use super::super::in_use_for_urgent;
use super::*;

/// Consecutive decisions: milliseconds since the last one, which paths cannot send, and the waiting bytes.
fn rounds() -> impl Strategy<Value = Vec<(u64, [bool; 3], u64)>> {
    let gap = prop_oneof![8 => 1..100_u64, 1 => 100..1500_u64];
    let backlog = prop_oneof![1..100_000_u64, 1..50_000_000_u64];
    prop::collection::vec((gap, any::<[bool; 3]>(), backlog), 1..60)
}

/// The price of a path: its cost, then its role.
fn price(path: &PathView) -> (u8, Role) {
    (path.terms.cost, path.role)
}

proptest! {
    #[test]
    fn a_dearer_path_is_used_only_for_load_that_the_cheaper_ones_do_not_carry_in_time(
        paths in some_open(), costs in any::<[u8; 3]>(), secondary in any::<[bool; 3]>(), rounds in rounds(),
    ) {
        let priced = |((path, cost), is_secondary): ((&PathView, &u8), bool)| PathView {
            role: if is_secondary { Role::Secondary } else { Role::Primary },
            terms: PathTerms { cost: cost % 3, ..path.terms },
            ..*path
        };
        let paths: Vec<PathView> = paths.iter().zip(&costs).zip(secondary).map(priced).collect();
        for (choice, millis) in [("cost", 1000), ("cost=100ms", 100)] {
            let patience = Duration::from_millis(millis);
            let mut scheduler = make(choice);
            let mut now = Instant::from_nanos(5_000_000_000);
            // For each path: since when data has been waiting for the cheaper ones.
            let mut since = [None; 3];
            for (gap, is_full, backlog) in &rounds {
                now += Duration::from_millis(*gap);
                let filter = |(path, is_full): (&PathView, &bool)| if *is_full { full(*path) } else { *path };
                let paths = paths.iter().zip(is_full).map(filter).collect();
                let scene = Scene { now, backlog: *backlog, ..Scene::bulk(paths) };
                let (mut needed, mut usable) = (Vec::new(), Vec::new());
                for (path, since) in scene.paths.iter().zip(&mut since) {
                    let cheaper = || scene.paths.iter().filter(|other| price(other) < price(path));
                    let room: u64 = cheaper().map(|path| path.sendable.get()).sum();
                    let unbroken = since.filter(|_| Duration::from_millis(*gap) <= patience);
                    *since = (*backlog > room).then(|| unbroken.unwrap_or(now));
                    let rate: Rate = cheaper().map(capacity).sum();
                    let is_needed = cheaper().next().is_none()
                        || *backlog * 1000 > rate.bytes_per_second() * millis
                        || since.is_some_and(|since| now - since > patience);
                    needed.extend(is_needed.then_some(path.id));
                    if is_needed && path.sendable > ByteCount::ZERO {
                        usable.push(path);
                    }
                }
                let view = scene.view();
                scheduler.on_urgent(&view);
                let for_urgent: Vec<PathId> = in_use_for_urgent(&*scheduler, &view).map(|path| path.id).collect();
                prop_assert_eq!(for_urgent, needed, "{}", choice);
                let cheapest = usable.iter().min_by_key(|path| (price(path), path.rtt.smoothed, path.id));
                let expected: Vec<PathId> = cheapest.iter().map(|path| path.id).collect();
                prop_assert_eq!(chosen(&scene.decide(&mut *scheduler)).0, expected, "{}", choice);
            }
        }
    }

    #[test]
    fn a_path_without_quota_carries_nothing(scene in any_scene()) {
        let (chosen, quantum) = chosen(&scene.decide(&mut *make("cost")));
        for id in chosen {
            let path = scene.path(id);
            prop_assert!(path.terms.quota_left.is_none_or(|left| left >= path.datagram.max(quantum)));
        }
        let (mut scheduler, view) = (make("cost"), scene.view());
        scheduler.on_urgent(&view);
        for path in in_use_for_urgent(&*scheduler, &view) {
            prop_assert!(path.terms.quota_left.is_none_or(|left| left >= path.datagram));
        }
    }
}
