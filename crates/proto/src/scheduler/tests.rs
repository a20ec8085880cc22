//! Laws that every scheduler keeps for any view, and what each adds.

use std::time::Duration;

use manyway_wire::PathId;
use proptest::prelude::*;

use super::{Decision, PathView, RttView, View, by_name, names};
use crate::path::{PathState, Role};
use crate::{ByteCount, Instant, Rate};

fn path(id: u32, rtt: u64, sendable: u64) -> PathView {
    let rtt = Duration::from_millis(rtt);
    PathView {
        rtt: RttView { smoothed: rtt, variation: Duration::from_millis(1), minimum: rtt },
        delivery_rate: Rate::from_bits_per_second(1_000_000),
        window: ByteCount(100_000),
        sendable: ByteCount(sendable),
        ..PathView::new(PathId(id))
    }
}

fn decide(name: &str, paths: &[PathView]) -> Decision {
    by_name(name).unwrap().make().decide(&view(paths))
}

fn view(paths: &[PathView]) -> View<'_> {
    let mut view = View::new(Instant::from_nanos(0), paths);
    view.backlog = ByteCount(1_000_000);
    view.window_left = ByteCount(1_000_000);
    view
}

fn send(path: u32, quantum: u64) -> Decision {
    Decision::Send { path: PathId(path), quantum: ByteCount(quantum) }
}

fn any_path(id: u32) -> impl Strategy<Value = PathView> {
    let states = prop::sample::select(PathState::ALL.to_vec());
    let roles = prop::sample::select(vec![Role::Primary, Role::Secondary, Role::Backup, Role::Never]);
    (states, roles, any::<bool>(), 1..500_u64, prop_oneof![Just(0), 1..200_000_u64]).prop_map(
        move |(state, role, peer_ready, rtt, sendable)| PathView {
            state,
            role,
            peer_ready,
            ..path(id, rtt, sendable)
        },
    )
}

proptest! {
    #[test]
    fn every_choice_is_a_usable_path_with_room(paths in (any_path(0), any_path(1), any_path(2))) {
        let paths = [paths.0, paths.1, paths.2];
        for name in names() {
            match decide(name, &paths) {
                Decision::Send { path, quantum } => {
                    let chosen = paths.iter().find(|view| view.id == path).unwrap();
                    prop_assert!(chosen.state.carries_data() && chosen.peer_ready && chosen.role != Role::Never);
                    prop_assert!(quantum > ByteCount::ZERO && quantum <= chosen.sendable);
                    let works = |view: &&PathView| view.state.carries_data() && view.peer_ready;
                    if chosen.role == Role::Backup {
                        prop_assert!(!paths.iter().filter(works).any(|view| view.state != PathState::Backup
                            && matches!(view.role, Role::Primary | Role::Secondary)));
                    }
                }
                Decision::Wait => {
                    let usable = |view: &&PathView| {
                        view.state == PathState::Active && view.peer_ready && view.role == Role::Primary
                            && view.sendable > ByteCount::ZERO
                    };
                    prop_assert!(paths.iter().find(usable).is_none(), "{name} waits although a primary has room");
                }
            }
        }
    }
}

#[test]
fn min_rtt_takes_the_nearest_path_that_has_room() {
    let paths = [path(0, 40, 5000), path(1, 10, 0), path(2, 20, 5000)];
    assert_eq!(decide("min-rtt", &paths), send(2, 5000));
}

#[test]
fn round_robin_visits_every_path_in_turn() {
    let paths = [path(0, 40, 50_000), path(1, 10, 50_000), path(2, 20, 50_000)];
    let mut scheduler = by_name("round-robin").unwrap().make();
    let view = view(&paths);
    let order: Vec<_> = (0..4)
        .map(|_| match scheduler.decide(&view) {
            Decision::Send { path, .. } => path.0,
            Decision::Wait => panic!("there is room"),
        })
        .collect();
    assert_eq!(order, [0, 1, 2, 0]);
}

#[test]
fn a_secondary_joins_when_the_primary_is_full_and_a_backup_does_not() {
    let mut paths = [path(0, 10, 0), path(1, 10, 5000), path(2, 10, 5000)];
    paths[1].role = Role::Backup;
    paths[1].state = PathState::Backup;
    assert_eq!(decide("min-rtt", &paths[..2]), Decision::Wait);
    paths[2].role = Role::Secondary;
    assert_eq!(decide("min-rtt", &paths), send(2, 5000));
    paths[0].state = PathState::Dead;
    assert_eq!(decide("min-rtt", &paths[..2]), send(1, 5000));
}
