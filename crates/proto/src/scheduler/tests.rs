//! Decisions of the simplest schedulers; laws for any view are in `laws`.

use std::time::Duration;

use manyway_wire::PathId;

use super::{Decision, MinRtt, PathView, RttView, Source, View, by_name};
use crate::path::{PathState, Role};
use crate::{ByteCount, ConnectionConfig, Instant, Rate};

fn path(id: u32, rtt: u64, sendable: u64) -> PathView {
    let rtt = Duration::from_millis(rtt);
    PathView {
        rtt: RttView { smoothed: rtt, variation: Duration::from_millis(1), minimum: rtt, base: rtt },
        delay: rtt / 2,
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
    view.credit_left = ByteCount(1_000_000);
    view.credit_total = ByteCount(1_000_000);
    view
}

fn send(path: u32, quantum: u64) -> Decision {
    Decision::send(PathId(path), ByteCount(quantum), Source::Next)
}

#[test]
fn min_rtt_takes_the_nearest_path_that_can_send() {
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
            Decision::Copy { .. } | Decision::Wait { .. } => panic!("there is room"),
        })
        .collect();
    assert_eq!(order, [0, 1, 2, 0]);
}

#[test]
fn a_secondary_joins_when_the_primary_is_full_and_a_backup_does_not() {
    let mut paths = [path(0, 10, 0), path(1, 10, 5000), path(2, 10, 5000)];
    paths[1].role = Role::Backup;
    paths[1].state = PathState::Backup;
    assert_eq!(decide("min-rtt", &paths[..2]), Decision::WAIT);
    paths[2].role = Role::Secondary;
    assert_eq!(decide("min-rtt", &paths), send(2, 5000));
    paths[0].state = PathState::Dead;
    assert_eq!(decide("min-rtt", &paths[..2]), send(1, 5000));
}

#[test]
fn a_custom_scheduler_takes_no_known_name() {
    let mut config = ConnectionConfig::default();
    config.add_scheduler("nearest", |_settings| Ok(Box::new(MinRtt))).unwrap();
    config.set_scheduler("nearest").unwrap();
    let unknown = config.set_scheduler("magic").unwrap_err().to_string();
    assert!(unknown.starts_with("scheduler \"magic\" is not one of: earliest, "), "{unknown}");
    assert!(unknown.ends_with(", nearest"), "{unknown}");
    for (name, reason) in [("nearest", "is taken"), ("earliest", "is taken"), ("a=b", "is no name")] {
        let error = config.add_scheduler(name, |_settings| Ok(Box::new(MinRtt))).unwrap_err();
        assert!(error.reason.contains(reason), "{name}: {error}");
    }
}

#[test]
fn the_error_for_wrong_settings_lists_the_valid_ones() {
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
