//! Random views.

use std::time::Duration;

use manyway_wire::{PathId, StreamId};
use proptest::prelude::*;

use super::super::view::{HeadOfLine, NextUp, ReadyStream};
use super::super::{Decision, PathTerms, PathView, RttView, Scheduler, Tier, View, by_name};
use crate::path::{PathState, Role};
use crate::{ByteCount, Class, Instant, Rate};

/// The ingredients of a view.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub(super) now: Instant,
    pub(super) backlog: u64,
    pub(super) retransmissions: u64,
    pub(super) retransmit_off: Option<PathId>,
    pub(super) credit_left: u64,
    /// Credit of unacknowledged bytes.
    pub(super) window_used: u64,
    pub(super) copy_budget: u64,
    pub(super) class: Class,
    pub(super) ready: Vec<ReadyStream>,
    pub(super) head_of_line: Option<HeadOfLine>,
    pub(super) paths: Vec<PathView>,
}

impl Scene {
    /// A large backlog, with the given paths.
    pub(super) fn bulk(paths: Vec<PathView>) -> Self {
        Self {
            now: Instant::from_nanos(5_000_000_000),
            backlog: 10_000_000,
            retransmissions: 0,
            retransmit_off: None,
            credit_left: 1_000_000_000,
            window_used: 0,
            copy_budget: 0,
            class: Class::Bulk,
            ready: vec![ready(0), ready(4), ready(8)],
            head_of_line: None,
            paths,
        }
    }

    pub(super) fn view(&self) -> View<'_> {
        let mut view = View::new(self.now, &self.paths);
        view.backlog = ByteCount(self.backlog);
        view.retransmissions = ByteCount(self.retransmissions);
        view.retransmit_off = self.retransmit_off;
        view.credit_left = ByteCount(self.credit_left);
        view.credit_total = ByteCount(self.credit_left) + ByteCount(self.window_used);
        view.copy_budget = ByteCount(self.copy_budget);
        view.ready = &self.ready;
        view.head_of_line = self.head_of_line;
        view.next = (self.backlog > 0).then_some(NextUp {
            stream: StreamId(0),
            class: self.class,
            left: ByteCount(self.backlog),
            deadline: None,
        });
        view
    }

    pub(super) fn decide(&self, scheduler: &mut dyn Scheduler) -> Decision {
        scheduler.decide(&self.view())
    }

    /// An open path.
    pub(super) fn path(&self, id: PathId) -> &PathView {
        self.find(id).unwrap()
    }

    pub(super) fn find(&self, id: PathId) -> Option<&PathView> {
        self.paths.iter().find(|path| path.id == id)
    }

    /// The paths that may carry data and can send: reserves only while nothing else works.
    pub(super) fn roomy(&self) -> Vec<&PathView> {
        let is_reserve = |path: &&PathView| path.tier() == Some(Tier::Reserve);
        let working = || self.paths.iter().filter(|path| path.tier().is_some());
        let only_reserves = working().all(|path| is_reserve(&path));
        let in_use = working().filter(|path| is_reserve(path) == only_reserves);
        in_use.filter(|path| path.sendable > ByteCount::ZERO).collect()
    }

    /// The part of them that is due by role: secondaries when the primaries are full.
    pub(super) fn due(&self) -> Vec<&PathView> {
        let roomy = self.roomy();
        let best = roomy.iter().map(|path| path.tier()).min();
        roomy.into_iter().filter(|path| Some(path.tier()) == best).collect()
    }
}

/// The fate of a path for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Open,
    Full,
    Dead,
    /// It is back, on probation.
    Returning,
    /// It is closed, and appears in no view any more.
    Gone,
}

impl Fate {
    pub(super) fn befalls(self, path: &PathView) -> Option<PathView> {
        match self {
            Self::Open => Some(*path),
            Self::Full => Some(full(*path)),
            Self::Dead => Some(dead(*path)),
            Self::Returning => Some(PathView { state: PathState::Probation, ..*path }),
            Self::Gone => None,
        }
    }
}

pub(super) fn any_fate() -> impl Strategy<Value = Fate> {
    let passing = prop::sample::select(vec![Fate::Open, Fate::Open, Fate::Full, Fate::Dead, Fate::Returning]);
    prop_oneof![40 => passing, 1 => Just(Fate::Gone)]
}

/// The fates of the paths of a scene, repeatedly. A closed path stays closed.
pub(super) fn fates() -> impl Strategy<Value = Vec<[Fate; 5]>> {
    prop::collection::vec(prop::array::uniform5(any_fate()), 1..40).prop_map(|mut rounds| {
        for place in 0..5 {
            let of_path = rounds.iter_mut().map(|fates| &mut fates[place]);
            of_path.skip_while(|fate| **fate != Fate::Gone).for_each(|fate| *fate = Fate::Gone);
        }
        rounds
    })
}

/// Applies its fate to each path.
pub(super) fn befallen(paths: &[PathView], fates: &[Fate]) -> Vec<PathView> {
    paths.iter().zip(fates).filter_map(|(path, fate)| fate.befalls(path)).collect()
}

pub(super) fn make(choice: &str) -> Box<dyn Scheduler> {
    by_name(choice).unwrap().make()
}

pub(super) fn ready(stream: u64) -> ReadyStream {
    let (unsent, retransmissions) = (ByteCount(1_000_000), ByteCount::ZERO);
    ReadyStream {
        stream: StreamId(stream),
        priority: 0,
        class: Class::Bulk,
        deadline: None,
        unsent,
        retransmissions,
    }
}

/// A path that works and can send.
pub(super) fn open(id: u32, rtt: u64, rate: u64) -> PathView {
    let (rtt, rate) = (Duration::from_millis(rtt), Rate::from_bytes_per_second(rate));
    let window = (rate * rtt).max(ByteCount(12_000));
    PathView {
        rtt: RttView { smoothed: rtt, variation: rtt / 10, minimum: rtt, base: rtt },
        delay: rtt / 2,
        delivery_rate: rate,
        window,
        sendable: window * 3 / 5,
        in_flight: window * 2 / 5,
        ..PathView::new(PathId(id))
    }
}

/// The path with a full window.
pub(super) fn full(path: PathView) -> PathView {
    PathView { sendable: ByteCount::ZERO, in_flight: path.window, ..path }
}

pub(super) fn dead(path: PathView) -> PathView {
    PathView { state: PathState::Dead, sendable: ByteCount::ZERO, in_flight: ByteCount::ZERO, ..path }
}

/// A path that works, with any properties.
pub(super) fn any_open(id: u32) -> impl Strategy<Value = PathView> {
    (1..500_u64, 1..20_000_000_u64, 1200..2_000_000_u64, 0..100_u64).prop_map(
        move |(rtt, rate, window, part)| PathView {
            window: ByteCount(window),
            in_flight: ByteCount(window * part / 100),
            sendable: ByteCount((window - window * part / 100).max(1)),
            ..open(id, rtt, rate)
        },
    )
}

pub(super) fn some_open() -> impl Strategy<Value = Vec<PathView>> {
    (any_open(0), any_open(1), any_open(2)).prop_map(|(a, b, c)| vec![a, b, c])
}

/// One to five of them.
pub(super) fn many_open() -> impl Strategy<Value = Vec<PathView>> {
    (1..6_u32).prop_flat_map(|count| (0..count).map(any_open).collect::<Vec<_>>())
}

/// Any path.
pub(super) fn any_path(id: u32) -> impl Strategy<Value = PathView> {
    let standing = (
        prop_oneof![Just(PathState::Active), prop::sample::select(PathState::ALL.to_vec())],
        prop::sample::select(vec![Role::Primary, Role::Secondary, Role::Backup, Role::Never]),
        prop::bool::weighted(0.9),
    );
    let extreme = prop_oneof![8 => 0..200_000_u64, 1 => Just(0), 1 => Just(u64::MAX)];
    let figures = (extreme.clone(), extreme.clone(), extreme, 0..2_000_u64, prop::bool::ANY);
    let weight = prop_oneof![8 => 0..1_100_u32, 1 => Just(u32::MAX)];
    let terms = (0..3_u8, weight, prop::option::of(0..5_000_u64));
    (standing, figures, terms).prop_map(move |(standing, figures, (cost, weight, quota))| {
        let (window, in_flight, sendable, rtt, is_paced) = figures;
        PathView {
            state: standing.0,
            role: standing.1,
            peer_ready: standing.2,
            window: ByteCount(window),
            in_flight: ByteCount(in_flight),
            sendable: ByteCount(sendable),
            next_departure: is_paced.then_some(Instant::from_nanos(6_000_000_000)),
            terms: PathTerms { cost, weight, quota_left: quota.map(ByteCount), renewal: None },
            ..open(id, rtt, window)
        }
    })
}

/// Any view.
pub(super) fn any_scene() -> impl Strategy<Value = Scene> {
    let bytes = || prop_oneof![4 => 0..3_000_000_u64, 1 => Just(0), 1 => Just(u64::MAX)];
    let budget = prop_oneof![0..2_400_u64, 0..100_000_u64];
    let loads = (bytes(), bytes(), bytes(), bytes(), budget);
    let paths = (0..6_u32).prop_flat_map(|count| (0..count).map(any_path).collect::<Vec<_>>());
    let classes = prop::sample::select(Class::ALL.to_vec());
    let head_of_line = prop::option::of((0..4_u32, 0..5_u64, 0..2_u32));
    let streams = prop::collection::vec((0..9_u64, bytes(), bytes()), 0..6);
    (loads, prop::option::of(0..4_u32), paths, classes, head_of_line, streams).prop_map(
        |(
            (backlog, retransmissions, credit_left, window_used, copy_budget),
            from,
            paths,
            class,
            head_of_line,
            streams,
        )| {
            Scene {
                backlog,
                retransmissions,
                retransmit_off: from.map(PathId),
                credit_left,
                window_used,
                copy_budget,
                class,
                ready: streams
                    .into_iter()
                    .map(|(stream, unsent, retransmissions)| ReadyStream {
                        unsent: ByteCount(unsent),
                        retransmissions: ByteCount(retransmissions),
                        ..ready(stream)
                    })
                    .collect(),
                head_of_line: head_of_line.map(|(path, seconds, copies)| HeadOfLine {
                    stream: StreamId(0),
                    path: PathId(path),
                    bytes: ByteCount(1200),
                    sent_at: Instant::from_nanos(seconds * 1_000_000_000),
                    copies,
                }),
                ..Scene::bulk(paths)
            }
        },
    )
}
