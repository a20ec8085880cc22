//! The laws of `stream-bound`.

use std::collections::BTreeMap;

use manyway_wire::StreamId;

use super::super::Binding;
use super::super::choice::capacity;
use super::*;

proptest! {
    #[test]
    fn a_stream_leaves_its_path_only_while_that_carries_no_data(paths in some_open(), rounds in fates()) {
        let mut scheduler = make("stream-bound");
        let streams = [0, 4, 8, 12];
        let mut path_of = |stream, scene: &Scene| {
            let scene = Scene { ready: vec![ready(stream)], ..scene.clone() };
            chosen(&scene.decide(&mut *scheduler)).0.first().copied()
        };
        let at_first = Scene::bulk(paths.clone());
        let mut homes = streams.map(|stream| path_of(stream, &at_first));
        for fates in &rounds {
            let scene = Scene::bulk(befallen(&paths, fates));
            for (stream, home) in streams.into_iter().zip(&mut homes) {
                let Some(at_home) = home.and_then(|home| scene.find(home)) else {
                    // The path is closed for good. The new path of the stream shows only if none is full.
                    let has_room = |path: &PathView| path.tier().is_none() || path.sendable > ByteCount::ZERO;
                    *home = scene.paths.iter().all(has_room).then(|| path_of(stream, &scene)).flatten();
                    continue;
                };
                let path = path_of(stream, &scene);
                let expected = (at_home.sendable > ByteCount::ZERO).then_some(at_home.id);
                prop_assert!(path == expected || at_home.state == PathState::Dead, "{path:?} for {at_home:?}");
            }
        }
    }

    #[test]
    fn a_stream_that_the_application_binds_leaves_that_place_only_while_it_carries_no_data(
        paths in some_open(), rounds in fates(), place in any::<prop::sample::Index>(), by_interface: bool,
    ) {
        let paths: Vec<PathView> =
            paths.into_iter().map(|path| PathView { interface: 10 + path.id.0 / 2, ..path }).collect();
        let place = paths[place.index(paths.len())];
        let to = if by_interface { Binding::Interface(place.interface) } else { Binding::Path(place.id) };
        let is_there =
            |path: &PathView| if by_interface { path.interface == place.interface } else { path.id == place.id };
        let mut scheduler = make("stream-bound");
        scheduler.on_event(&Event::StreamBound { stream: StreamId(0), to: Some(to) });
        for fates in &rounds {
            let scene = Scene { ready: vec![ready(0)], ..Scene::bulk(befallen(&paths, fates)) };
            let chosen = chosen(&scene.decide(&mut *scheduler)).0.first().copied();
            let working = scene.paths.iter().filter(|path| is_there(path) && path.tier().is_some());
            let carries = scene.paths.iter().any(|path| path.tier().is_some_and(|tier| tier != Tier::Reserve));
            if carries && working.clone().count() > 0 && working.clone().all(|path| path.tier() != Some(Tier::Reserve)) {
                prop_assert!(chosen.is_none_or(|id| is_there(scene.path(id))), "{chosen:?} for {to:?}");
            }
        }
    }

    #[test]
    fn a_new_stream_gets_the_path_with_the_most_capacity_for_each_of_its_streams(
        paths in many_open(), streams in 1..30_u64, searching in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut paths: Vec<PathView> =
            paths.into_iter().map(|path| PathView { in_slow_start: false, ..path }).collect();
        if let Some(path) = searching.map(|index| index.index(paths.len())) {
            paths[path].in_slow_start = true;
        }
        let mut scheduler = make("stream-bound");
        let mut bound: BTreeMap<PathId, u64> = BTreeMap::new();
        let scene = Scene::bulk(paths);
        for stream in 0..streams {
            let scene = Scene { ready: vec![ready(stream * 4)], ..scene.clone() };
            let count = |path: &PathView| bound.get(&path.id).copied().unwrap_or_default();
            let share = |path: &PathView| capacity(path).bytes_per_second() / (count(path) + 1);
            let home = chosen(&scene.decide(&mut *scheduler)).0[0];
            if searching.is_some() {
                // The rates are not known yet.
                let first = scene.paths.iter().min_by_key(|path| (count(path), path.id)).map(|path| path.id);
                prop_assert_eq!(Some(home), first);
            } else {
                prop_assert_eq!(Some(share(scene.path(home))), scene.paths.iter().map(share).max());
            }
            *bound.entry(home).or_default() += 1;
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
