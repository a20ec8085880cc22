//! The laws of `redundant`.

use super::super::choice::capacity;
use super::*;

proptest! {
    #[test]
    fn redundant_sends_every_burst_on_every_path_that_can_send(
        paths in some_open(), is_full in any::<[bool; 3]>(), retransmissions in 0..2_u64,
    ) {
        let filter = |(path, is_full): (&PathView, &bool)| if *is_full { full(*path) } else { *path };
        let scene = Scene {
            retransmissions: retransmissions * 9000, ..Scene::bulk(paths.iter().zip(&is_full).map(filter).collect())
        };
        let mut expected: Vec<PathId> = scene.roomy().iter().map(|path| path.id).collect();
        let pace = scene.paths.iter().max_by_key(|path| capacity(path)).unwrap();
        if pace.sendable == ByteCount::ZERO && retransmissions == 0 {
            expected.clear();
        }
        let mut paths = chosen(&scene.decide(&mut *make("redundant"))).0;
        paths.sort();
        prop_assert_eq!(paths, expected);
    }

    #[test]
    fn late_sends_twice_only_retransmissions_urgent_data_and_overdue_head_of_line_data(
        scene in any_scene(), open in prop::option::of(some_open()), goes_again in any::<bool>(),
    ) {
        let retransmissions = if goes_again { scene.retransmissions } else { 0 };
        let scene = Scene { retransmissions, paths: open.unwrap_or(scene.paths), ..scene };
        let decision = scene.decide(&mut *make("redundant=late"));
        let nearest = |paths: Vec<&PathView>, but: Option<PathId>| {
            let others = paths.into_iter().filter(|path| Some(path.id) != but);
            others.min_by_key(|path| (path.rtt.smoothed, path.id)).map(|path| path.id)
        };
        let is_late = |head_of_line: &HeadOfLine| {
            let holder = scene.paths.iter().find(|path| path.id == head_of_line.path);
            let patience = holder.map_or(Duration::ZERO, |path| path.rtt.smoothed * 5 / 4);
            scene.now - head_of_line.sent_at > patience && head_of_line.copies == 0 && head_of_line.bytes.get() <= scene.copy_budget
        };
        let late = scene.head_of_line.filter(is_late);
        let elsewhere = late.and_then(|head_of_line| nearest(scene.due(), Some(head_of_line.path)));
        let is_copy = matches!(decision, Decision::Send { source: Source::Reinject, .. });
        prop_assert_eq!(is_copy, elsewhere.is_some());
        if let Some(path) = elsewhere {
            prop_assert_eq!(chosen(&decision).0, [path]);
        } else {
            let first = nearest(scene.due(), None);
            let is_urgent = scene.backlog > 0 && matches!(scene.class, Class::Interactive | Class::Deadline);
            let goes_twice = first.is_some() && (scene.retransmissions > 0 || is_urgent);
            let second = nearest(scene.roomy(), first).filter(|_| goes_twice);
            prop_assert_eq!(chosen(&decision).0, first.into_iter().chain(second).collect::<Vec<_>>());
        }
    }
}
