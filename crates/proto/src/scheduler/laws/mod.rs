//! Laws of all schedulers, for any view.

mod cost;
mod primary;
mod redundant;
mod scene;
mod simple;
mod stream_bound;
mod waiting;
mod weighted;

use std::time::Duration;

use manyway_wire::PathId;
use proptest::prelude::*;
use scene::{
    Scene, any_fate, any_open, any_scene, befallen, dead, fates, full, make, many_open, open, ready,
    some_open,
};

use super::view::HeadOfLine;
use super::{Decision, Event, PathTerms, PathView, Scheduler, Source, Tier, by_name, names};
use crate::path::{PathState, Role};
use crate::{ByteCount, Class, Instant, Rate};

/// Every scheduler with each kind of settings.
const CHOICES: [&str; 16] = [
    "earliest",
    "min-rtt",
    "round-robin",
    "weighted",
    "weighted=1:1:2",
    "weighted=fixed",
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

/// The paths of a decision, the first path first.
fn chosen(decision: &Decision) -> (Vec<PathId>, ByteCount) {
    match decision {
        Decision::Send { path, quantum, .. } => (vec![*path], *quantum),
        Decision::Copy { paths, quantum, .. } => (paths.as_slice().to_vec(), *quantum),
        Decision::Wait { .. } => (Vec::new(), ByteCount::ZERO),
    }
}

#[test]
fn every_scheduler_is_checked_by_the_laws() {
    for name in names() {
        assert!(CHOICES.iter().any(|choice| choice.split('=').next() == Some(name)), "{name}");
    }
}

proptest! {
    #[test]
    fn every_choice_is_a_usable_path_that_can_send(scenes in prop::collection::vec(any_scene(), 1..6)) {
        for choice in CHOICES {
            let mut scheduler = make(choice);
            for scene in &scenes {
                // A path that needs permission is no better than a backup that needs none.
                let is_better = |path: &PathView| {
                    path.tier().is_some_and(|tier| tier < Tier::Reserve)
                        && scheduler.may_use(path, &scene.paths)
                };
                let has_better = scene.paths.iter().any(is_better);
                let decision = scene.decide(&mut *scheduler);
                let (paths, quantum) = chosen(&decision);
                for id in &paths {
                    let path = scene.path(*id);
                    prop_assert!(path.tier().is_some() && path.sendable > ByteCount::ZERO, "{choice} {decision:?}");
                    prop_assert!(path.tier() != Some(Tier::Reserve) || !has_better, "{choice} {decision:?}");
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
    fn secondaries_are_used_when_the_primaries_are_full(
        paths in some_open(), secondary in any::<[bool; 3]>(), fates in prop::array::uniform5(any_fate()),
    ) {
        let role = |is_secondary| if is_secondary { Role::Secondary } else { Role::Primary };
        let paths: Vec<PathView> =
            paths.iter().zip(secondary).map(|(path, second)| PathView { role: role(second), ..*path }).collect();
        let scene = Scene::bulk(befallen(&paths, &fates));
        // The other schedulers use them by laws of their own.
        let by_role = [
            "min-rtt", "round-robin", "weighted", "weighted=1:1:2", "weighted=fixed", "outstanding-ratio", "blest", "ecf", "redundant=late",
        ];
        for choice in by_role {
            let decision = scene.decide(&mut *make(choice));
            if let Some(id) = chosen(&decision).0.first() {
                prop_assert!(scene.due().iter().any(|path| path.id == *id), "{choice} {decision:?}");
            }
        }
    }

    #[test]
    fn no_scheduler_waits_while_every_free_path_can_send(paths in some_open()) {
        let scene = Scene::bulk(paths);
        for choice in CHOICES {
            let decision = scene.decide(&mut *make(choice));
            prop_assert!(!matches!(decision, Decision::Wait { .. }), "{choice}");
        }
    }

    #[test]
    fn no_scheduler_waits_for_a_path_that_will_not_be_able_to_send(paths in some_open(), open in 0..3_usize) {
        // One path can send; on the others no packet is in flight that could free their windows.
        let closed = |path: PathView| PathView { in_flight: ByteCount::ZERO, sendable: ByteCount::ZERO, ..path };
        let id = paths[open].id;
        let scene = Scene::bulk(paths.into_iter().map(|path| if path.id == id { path } else { closed(path) }).collect());
        // Other schedulers are bound to a path by their laws, or (earliest) to its estimated capacity.
        let free = [
            "min-rtt", "round-robin", "weighted", "weighted=1:1:2", "weighted=fixed", "outstanding-ratio", "blest", "ecf", "redundant",
            "redundant=late",
        ];
        for choice in free {
            let mut scheduler = make(choice);
            for _ in 0..50 {
                let (path, bytes) = chosen(&scene.decide(&mut *scheduler));
                prop_assert_eq!(&path, &[id], "{}", choice);
                scheduler.on_event(&Event::Sent { path: id, bytes, source: Source::Next });
            }
        }
    }
}
