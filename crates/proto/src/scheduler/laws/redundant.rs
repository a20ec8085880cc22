//! The laws of `redundant`.

use super::super::choice::capacity;
use super::*;

proptest! {
    #[test]
    fn redundant_sends_every_burst_on_every_path_with_room(
        paths in some_open(), is_full in any::<[bool; 3]>(), repeats in 0..2_u64,
    ) {
        let pick = |(path, is_full): (&PathView, &bool)| if *is_full { full(*path) } else { *path };
        let scene = Scene {
            repeats: repeats * 9000, ..Scene::bulk(paths.iter().zip(&is_full).map(pick).collect())
        };
        let mut expected: Vec<PathId> = scene.paths.iter().filter(|path| path.sendable.get() > 0).map(|path| path.id).collect();
        let pace = scene.paths.iter().max_by_key(|path| capacity(path)).unwrap();
        if pace.sendable == ByteCount::ZERO && repeats == 0 {
            expected.clear();
        }
        let mut paths = chosen(&scene.decide(&mut *make("redundant"))).0;
        paths.sort();
        prop_assert_eq!(paths, expected);
    }
}

#[test]
fn redundant_late_sends_twice_only_what_is_urgent_or_goes_again() {
    let scene = Scene::bulk(vec![open(0, 20, 1_000_000), open(1, 40, 9_000_000), open(2, 60, 9_000_000)]);
    let pair = [PathId(0), PathId(1)];
    assert_eq!(chosen(&scene.decide(&mut *make("redundant=late"))).0, pair[..1]);
    let urgent = Scene { class: Class::Interactive, ..scene.clone() };
    assert_eq!(chosen(&urgent.decide(&mut *make("redundant=late"))).0, pair);
    let late = Scene { repeats: 1000, ..scene.clone() };
    assert_eq!(chosen(&late.decide(&mut *make("redundant=late"))).0, pair);
    let stuck = Stuck {
        stream: StreamId(0),
        path: PathId(0),
        bytes: ByteCount(1200),
        sent_at: Instant::from_nanos(4_970_000_000),
        copies: 0,
    };
    let holds_up = Scene { stuck: Some(stuck), copy_budget: 1200, ..scene };
    let expected = Decision::send(PathId(1), ByteCount(1200), Source::Reinject);
    assert_eq!(holds_up.decide(&mut *make("redundant=late")), expected);
}
