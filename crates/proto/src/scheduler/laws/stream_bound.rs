//! The law of `stream-bound`.

use super::*;

proptest! {
    #[test]
    fn a_stream_leaves_its_path_only_while_that_carries_nothing(
        paths in some_open(), states in prop::collection::vec(any::<[u8; 3]>(), 1..40),
    ) {
        let mut scheduler = make("stream-bound");
        let streams = [0, 4, 8, 12];
        let mut path_of = |stream, scene: &Scene| {
            let scene = Scene { ready: vec![ready(stream)], ..scene.clone() };
            chosen(&scene.decide(&mut *scheduler)).0.first().copied()
        };
        let at_first = Scene::bulk(paths.clone());
        let homes = streams.map(|stream| path_of(stream, &at_first).unwrap());
        for state in &states {
            let pick = |(path, state): (&PathView, &u8)| match state % 4 {
                0 => dead(*path),
                1 => full(*path),
                _ => *path,
            };
            let scene = Scene::bulk(paths.iter().zip(state).map(pick).collect());
            for (stream, home) in streams.into_iter().zip(homes) {
                if let Some(path) = path_of(stream, &scene) {
                    prop_assert!(path == home || scene.path(home).state == PathState::Dead);
                }
            }
        }
    }
}

#[test]
fn streams_of_one_path_take_turns() {
    let mut scene = Scene::bulk(vec![open(0, 20, 1_000_000)]);
    scene.ready = vec![ready(0), ready(4), ready(8)];
    let mut scheduler = make("stream-bound");
    let mut order = Vec::new();
    for _ in 0..6 {
        let Decision::Send { source: Source::Stream(stream), .. } = scene.decide(&mut *scheduler) else {
            break;
        };
        order.push(stream.0);
    }
    assert_eq!(order, [0, 4, 8, 0, 4, 8]);
}

#[test]
fn new_streams_are_spread_by_rate() {
    let mut scene = Scene::bulk(vec![open(0, 20, 1_000_000), open(1, 20, 3_000_000)]);
    let mut scheduler = make("stream-bound");
    let homes: Vec<u32> = (0..8_u64)
        .map(|stream| {
            scene.ready = vec![ready(stream * 4)];
            chosen(&scene.decide(&mut *scheduler)).0[0].0
        })
        .collect();
    assert_eq!(homes.iter().filter(|home| **home == 1).count(), 6, "{homes:?}");
}
