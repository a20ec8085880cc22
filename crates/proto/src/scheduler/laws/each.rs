//! The law of each scheduler.

use std::collections::BTreeMap;

use super::super::Notice;
use super::super::choice::capacity;
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
        weights in prop::collection::vec(1..1000_u64, 1..6), bursts in 1..200_usize,
    ) {
        let ids = 0..u32::try_from(weights.len()).unwrap();
        let scene = Scene::bulk(ids.map(|id| open(id, 20, 1_000_000)).collect());
        let settings: Vec<String> = weights.iter().map(ToString::to_string).collect();
        let sent = bytes_of(&format!("weighted={}", settings.join(":")), &scene, bursts);
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

    #[test]
    fn blest_waits_only_if_the_credit_is_less_than_the_fast_path_needs(
        near in any_open(0), far in any_open(1), credit in 0..5_000_000_u64,
    ) {
        prop_assume!(near.rtt.smoothed < far.rtt.smoothed);
        let scene = Scene { window_left: credit, ..Scene::bulk(vec![full(near), far]) };
        let ratio = far.rtt.smoothed.as_secs_f64() / near.rtt.smoothed.as_secs_f64();
        let window = count(near.window) / 1200.0;
        let meanwhile = 1200.0 * (window + (ratio - 1.0) / 2.0) * ratio;
        let left = count(ByteCount(credit)) - count(far.sendable.min(ByteCount(4800)));
        let waits = scene.decide(&mut *make("blest")) == Decision::WAIT;
        // The law computes in whole bytes.
        prop_assume!((meanwhile - left.max(0.0)).abs() > 4.0 + 2.0 * ratio);
        prop_assert_eq!(waits, meanwhile > left.max(0.0));
    }

    #[test]
    fn ecf_waits_only_if_the_fast_path_is_done_sooner(
        near in any_open(0), far in any_open(1), rest in 1..5_000_000_u64,
    ) {
        prop_assume!(near.rtt.smoothed < far.rtt.smoothed);
        let scene = Scene { backlog: rest, ..Scene::bulk(vec![full(near), far]) };
        let (fast, slow) = (near.rtt.smoothed.as_secs_f64(), far.rtt.smoothed.as_secs_f64());
        let variation = near.rtt.variation.max(far.rtt.variation).as_secs_f64();
        let rest = count(ByteCount(rest));
        let by_fast = (1.0 + rest / count(near.window)) * fast - (slow + variation);
        let on_slow = rest / count(far.window) * slow - (2.0 * fast + variation);
        prop_assume!(by_fast.abs() > 1e-6 && on_slow.abs() > 1e-6);
        let waits = scene.decide(&mut *make("ecf")) == Decision::WAIT;
        prop_assert_eq!(waits, by_fast < 0.0 && on_slow > 0.0);
    }

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

#[test]
fn wrong_settings_are_told_what_there_is() {
    for (choice, hint) in [
        ("weighted=0:1", "weighted=1:1:2"),
        ("weighted=1:x", "from 1 to 1000"),
        ("primary=wifi", "rank"),
        ("redundant=some", "late"),
        ("cost=cheap", "cost=500ms"),
        ("ecf=1", "no settings"),
        ("fastest", "stream-bound"),
    ] {
        let error = by_name(choice).unwrap_err();
        assert!(error.contains(hint), "{choice}: {error}");
    }
}

fn count(bytes: ByteCount) -> f64 {
    u32::try_from(bytes.get()).map(f64::from).unwrap()
}
