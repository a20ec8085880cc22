//! Laws that schedulers keep for any view.

mod cost;
mod primary;
mod redundant;
mod simple;
mod stream_bound;
mod waiting;
mod weighted;

use std::time::Duration;

use manyway_wire::{PathId, StreamId};
use proptest::prelude::*;

use super::view::{NextUp, ReadyStream, Stuck};
use super::{Decision, Event, PathTerms, PathView, RttView, Scheduler, Source, Tier, View, by_name, names};
use crate::path::{PathState, Role};
use crate::{ByteCount, Class, Instant, Rate};

/// Every scheduler with each kind of settings.
const CHOICES: [&str; 15] = [
    "earliest",
    "min-rtt",
    "round-robin",
    "weighted",
    "weighted=1:1:2",
    "outstanding-ratio",
    "blest",
    "ecf",
    "primary",
    "primary=rank",
    "stream-bound",
    "redundant",
    "redundant=late",
    "cost",
    "cost=100ms",
];

/// What a view is made of.
#[derive(Debug, Clone)]
struct Scene {
    now: Instant,
    backlog: u64,
    repeats: u64,
    repeats_from: Option<PathId>,
    window_left: u64,
    copy_budget: u64,
    class: Class,
    ready: Vec<ReadyStream>,
    stuck: Option<Stuck>,
    paths: Vec<PathView>,
}

impl Scene {
    /// Much to send, and paths as they are.
    fn bulk(paths: Vec<PathView>) -> Self {
        Self {
            now: Instant::from_nanos(5_000_000_000),
            backlog: 10_000_000,
            repeats: 0,
            repeats_from: None,
            window_left: 1_000_000_000,
            copy_budget: 0,
            class: Class::Bulk,
            ready: vec![ready(0), ready(4), ready(8)],
            stuck: None,
            paths,
        }
    }

    fn view(&self) -> View<'_> {
        let mut view = View::new(self.now, &self.paths);
        view.backlog = ByteCount(self.backlog);
        view.repeats = ByteCount(self.repeats);
        view.repeats_from = self.repeats_from;
        view.window_left = ByteCount(self.window_left);
        view.window_total = ByteCount(self.window_left);
        view.copy_budget = ByteCount(self.copy_budget);
        view.ready = &self.ready;
        view.stuck = self.stuck;
        view.next = (self.backlog > 0).then_some(NextUp {
            stream: StreamId(0),
            class: self.class,
            left: ByteCount(self.backlog),
            deadline: None,
        });
        view
    }

    fn decide(&self, scheduler: &mut dyn Scheduler) -> Decision {
        scheduler.decide(&self.view())
    }

    fn path(&self, id: PathId) -> &PathView {
        self.paths.iter().find(|path| path.id == id).unwrap()
    }
}

fn make(choice: &str) -> Box<dyn Scheduler> {
    by_name(choice).unwrap().make()
}

fn ready(stream: u64) -> ReadyStream {
    let (fresh, repeats) = (ByteCount(1_000_000), ByteCount::ZERO);
    ReadyStream { stream: StreamId(stream), priority: 0, class: Class::Bulk, deadline: None, fresh, repeats }
}

/// A path that works and has room.
fn open(id: u32, rtt: u64, rate: u64) -> PathView {
    let (rtt, rate) = (Duration::from_millis(rtt), Rate::from_bytes_per_second(rate));
    let window = (rate * rtt).max(ByteCount(12_000));
    PathView {
        rtt: RttView { smoothed: rtt, variation: rtt / 10, minimum: rtt, calm: rtt },
        delay: rtt / 2,
        delivery_rate: rate,
        window,
        sendable: window * 3 / 5,
        in_flight: window * 2 / 5,
        ..PathView::new(PathId(id))
    }
}

/// The same without room.
fn full(path: PathView) -> PathView {
    PathView { sendable: ByteCount::ZERO, in_flight: path.window, ..path }
}

fn dead(path: PathView) -> PathView {
    PathView { state: PathState::Dead, sendable: ByteCount::ZERO, in_flight: ByteCount::ZERO, ..path }
}

/// A path that works, of any figures.
fn any_open(id: u32) -> impl Strategy<Value = PathView> {
    (1..500_u64, 1..20_000_000_u64, 1200..2_000_000_u64, 0..100_u64).prop_map(
        move |(rtt, rate, window, part)| PathView {
            window: ByteCount(window),
            in_flight: ByteCount(window * part / 100),
            sendable: ByteCount((window - window * part / 100).max(1)),
            ..open(id, rtt, rate)
        },
    )
}

fn some_open() -> impl Strategy<Value = Vec<PathView>> {
    (any_open(0), any_open(1), any_open(2)).prop_map(|(a, b, c)| vec![a, b, c])
}

/// Any path at all.
fn any_path(id: u32) -> impl Strategy<Value = PathView> {
    let standing = (
        prop::sample::select(PathState::ALL.to_vec()),
        prop::sample::select(vec![Role::Primary, Role::Secondary, Role::Backup, Role::Never]),
        prop::bool::weighted(0.9),
    );
    let extreme = prop_oneof![8 => 0..200_000_u64, 1 => Just(0), 1 => Just(u64::MAX)];
    let figures = (extreme.clone(), extreme.clone(), extreme, 0..2_000_u64, prop::bool::ANY);
    let terms = (0..3_u8, prop::option::of(0..5_000_u64));
    (standing, figures, terms).prop_map(move |(standing, figures, (cost, quota))| {
        let (window, in_flight, sendable, rtt, is_paced) = figures;
        PathView {
            state: standing.0,
            role: standing.1,
            peer_ready: standing.2,
            window: ByteCount(window),
            in_flight: ByteCount(in_flight),
            sendable: ByteCount(sendable),
            next_departure: is_paced.then_some(Instant::from_nanos(6_000_000_000)),
            terms: PathTerms { cost, quota_left: quota.map(ByteCount), ..PathTerms::default() },
            ..open(id, rtt, window)
        }
    })
}

/// Any view at all.
fn any_scene() -> impl Strategy<Value = Scene> {
    let bytes = || prop_oneof![4 => 0..3_000_000_u64, 1 => Just(0), 1 => Just(u64::MAX)];
    let loads = (bytes(), bytes(), bytes(), 0..100_000_u64);
    let paths = (0..5_u32).prop_flat_map(|count| (0..count).map(any_path).collect::<Vec<_>>());
    let classes = prop::sample::select(Class::ALL.to_vec());
    let stuck = prop::option::of((0..4_u32, 0..5_u64, 0..2_u32));
    let streams = prop::collection::vec((0..9_u64, bytes(), bytes()), 0..6);
    (loads, prop::option::of(0..4_u32), paths, classes, stuck, streams).prop_map(
        |((backlog, repeats, window_left, copy_budget), from, paths, class, stuck, streams)| Scene {
            backlog,
            repeats,
            repeats_from: from.map(PathId),
            window_left,
            copy_budget,
            class,
            ready: streams
                .into_iter()
                .map(|(stream, fresh, repeats)| ReadyStream {
                    fresh: ByteCount(fresh),
                    repeats: ByteCount(repeats),
                    ..ready(stream)
                })
                .collect(),
            stuck: stuck.map(|(path, seconds, copies)| Stuck {
                stream: StreamId(0),
                path: PathId(path),
                bytes: ByteCount(1200),
                sent_at: Instant::from_nanos(seconds * 1_000_000_000),
                copies,
            }),
            ..Scene::bulk(paths)
        },
    )
}

/// The paths of an answer, the first first.
fn chosen(decision: &Decision) -> (Vec<PathId>, ByteCount) {
    match decision {
        Decision::Send { path, quantum, .. } => (vec![*path], *quantum),
        Decision::Copy { paths, quantum, .. } => (paths.as_slice().to_vec(), *quantum),
        Decision::Wait { .. } => (Vec::new(), ByteCount::ZERO),
    }
}

#[test]
fn the_laws_are_checked_of_every_scheduler() {
    for name in names() {
        assert!(CHOICES.iter().any(|choice| choice.split('=').next() == Some(name)), "{name}");
    }
}

proptest! {
    #[test]
    fn every_choice_is_a_usable_path_with_room(scenes in prop::collection::vec(any_scene(), 1..6)) {
        for choice in CHOICES {
            let mut scheduler = make(choice);
            for scene in &scenes {
                let decision = scene.decide(&mut *scheduler);
                let (paths, quantum) = chosen(&decision);
                for id in &paths {
                    let path = scene.path(*id);
                    prop_assert!(path.tier().is_some() && path.sendable > ByteCount::ZERO, "{choice} {decision:?}");
                    let has_better = || scene.paths.iter().any(|path| path.tier().is_some_and(|tier| tier < Tier::Reserve));
                    prop_assert!(path.tier() != Some(Tier::Reserve) || !has_better(), "{choice} {decision:?}");
                }
                if let Some(first) = paths.first() {
                    prop_assert!(quantum > ByteCount::ZERO, "{choice} {decision:?}");
                    prop_assert!(quantum <= scene.path(*first).sendable, "{choice} {decision:?}");
                    let sent = Event::Sent { path: *first, bytes: quantum, source: Source::Next };
                    scheduler.on_event(&sent);
                }
                while scheduler.poll_notice().is_some() {}
            }
        }
    }

    #[test]
    fn nobody_waits_while_every_free_path_has_room(paths in some_open()) {
        let scene = Scene::bulk(paths);
        for choice in CHOICES {
            let decision = scene.decide(&mut *make(choice));
            prop_assert!(!matches!(decision, Decision::Wait { .. }), "{choice}");
        }
    }

    #[test]
    fn nobody_waits_for_a_path_that_will_not_have_room(paths in some_open()) {
        // On one there is room, on the others nothing is in flight that could give any.
        let closed = |path: PathView| PathView { in_flight: ByteCount::ZERO, sendable: ByteCount::ZERO, ..path };
        let scene = Scene::bulk(vec![paths[0], closed(paths[1]), closed(paths[2])]);
        for choice in ["weighted", "weighted=1:1000:1000", "outstanding-ratio", "blest", "ecf", "redundant", "min-rtt"] {
            let mut scheduler = make(choice);
            for _ in 0..50 {
                let (path, bytes) = chosen(&scene.decide(&mut *scheduler));
                prop_assert_eq!(&path, &[PathId(0)], "{}", choice);
                scheduler.on_event(&Event::Sent { path: PathId(0), bytes, source: Source::Next });
            }
        }
    }
}
