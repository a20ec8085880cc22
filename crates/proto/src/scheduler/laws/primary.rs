//! The laws of `primary`.

use super::super::Notice;
use super::super::choice::capacity;
use super::*;

proptest! {
    #[test]
    fn the_primary_alone_carries_new_data_while_it_works(
        paths in some_open(), fullness in prop::collection::vec(any::<[bool; 3]>(), 1..20),
    ) {
        for choice in ["primary", "primary=rank"] {
            let mut scheduler = make(choice);
            let mut primary = None;
            for is_full in &fullness {
                let pick = |(path, is_full): (&PathView, &bool)| if *is_full { full(*path) } else { *path };
                let scene = Scene::bulk(paths.iter().zip(is_full).map(pick).collect());
                for path in chosen(&scene.decide(&mut *scheduler)).0 {
                    prop_assert_eq!(*primary.get_or_insert(path), path, "{}", choice);
                }
            }
        }
    }

    #[test]
    fn repeats_go_on_the_fastest_path_beside_the_primary(paths in some_open()) {
        let scene = Scene { repeats: 5000, repeats_from: Some(PathId(0)), ..Scene::bulk(paths) };
        let Decision::Send { path, source, .. } = scene.decide(&mut *make("primary")) else {
            panic!("there is room")
        };
        prop_assert_eq!(source, Source::Repeat);
        let other = scene.path(PathId(if path.0 == 1 { 2 } else { 1 }));
        prop_assert!(path != PathId(0) && capacity(scene.path(path)) >= capacity(other));
    }
}

#[test]
fn the_primary_returns_home_after_the_fastest_other_took_over() {
    let paths = [open(0, 20, 1_000_000), open(1, 20, 2_000_000), open(2, 20, 3_000_000)];
    let mut scheduler = make("primary");
    let mut primary = |paths: &[PathView]| chosen(&Scene::bulk(paths.to_vec()).decide(&mut *scheduler)).0;
    assert_eq!(primary(&paths), [PathId(0)]);
    assert_eq!(primary(&[dead(paths[0]), paths[1], paths[2]]), [PathId(2)]);
    // Who took over stays, even when it is not the fastest any more.
    assert_eq!(primary(&[dead(paths[0]), open(1, 20, 9_000_000), paths[2]]), [PathId(2)]);
    let returning = PathView { state: PathState::Probation, ..paths[0] };
    assert_eq!(primary(&[returning, paths[1], paths[2]]), [PathId(2)]);
    assert_eq!(primary(&paths), [PathId(0)]);
}

#[test]
fn the_application_may_choose_the_primary_and_take_that_back() {
    let scene = Scene::bulk(vec![open(0, 20, 1_000_000), open(1, 20, 2_000_000)]);
    let mut scheduler = make("primary");
    scheduler.on_event(&Event::PrimaryWished { path: Some(PathId(1)) });
    assert_eq!(chosen(&scene.decide(&mut *scheduler)).0, [PathId(1)]);
    assert_eq!(scheduler.poll_notice(), Some(Notice::PrimaryIs(PathId(1))));
    scheduler.on_event(&Event::PrimaryWished { path: None });
    assert_eq!(chosen(&scene.decide(&mut *scheduler)).0, [PathId(0)]);
    assert_eq!(scheduler.poll_notice(), Some(Notice::PrimaryIs(PathId(0))));
    assert_eq!(scheduler.poll_notice(), None);
}

#[test]
fn the_rank_changes_the_primary_only_for_a_clearly_faster_path() {
    let mut scheduler = make("primary=rank");
    let mut primary = |rate| {
        chosen(&Scene::bulk(vec![open(0, 20, 1_000_000), open(1, 20, rate)]).decide(&mut *scheduler)).0
    };
    assert_eq!(primary(900_000), [PathId(0)]);
    assert_eq!(primary(1_200_000), [PathId(0)]);
    assert_eq!(primary(1_300_000), [PathId(1)]);
    assert_eq!(primary(900_000), [PathId(1)]);
    assert_eq!(primary(700_000), [PathId(0)]);
}

#[test]
fn a_costly_path_takes_over_only_when_that_was_allowed() {
    let costly =
        |id| PathView { terms: PathTerms { cost: 2, ..PathTerms::default() }, ..open(id, 20, 9_000_000) };
    let mut scheduler = make("primary");
    let works = Scene::bulk(vec![open(0, 20, 1_000_000), costly(1)]);
    assert_eq!(chosen(&works.decide(&mut *scheduler)).0, [PathId(0)]);
    assert_eq!(scheduler.poll_notice(), Some(Notice::PrimaryIs(PathId(0))));
    // Not even what goes again may cost.
    let late = Scene { repeats: 5000, repeats_from: Some(PathId(0)), ..works.clone() };
    assert_eq!(chosen(&late.decide(&mut *scheduler)).0, [PathId(0)]);

    let fails = Scene::bulk(vec![dead(open(0, 20, 1_000_000)), costly(1)]);
    assert_eq!(fails.decide(&mut *scheduler), Decision::WAIT);
    assert_eq!(fails.decide(&mut *scheduler), Decision::WAIT);
    assert_eq!(scheduler.poll_notice(), Some(Notice::AsksForCostly(PathId(1))));
    assert_eq!(scheduler.poll_notice(), None);
    scheduler.on_event(&Event::CostlyAllowed { path: PathId(1) });
    assert_eq!(chosen(&fails.decide(&mut *scheduler)).0, [PathId(1)]);
    assert_eq!(chosen(&works.decide(&mut *scheduler)).0, [PathId(0)]);
}
