//! The purposes of each scheduler, and that its decisions match them.

use std::time::Duration;

use manyway_wire::{PathId, StreamId};
use proptest::prelude::*;

use super::super::{
    Decision, Event, NextUp, PathView, ReadyStream, RttView, Scheduler, Source, View, by_name, names,
};
use super::{background, purpose_of, with_purpose};
use crate::path::{PathState, Role};
use crate::{ByteCount, Class, Instant};

fn make(choice: &str) -> Box<dyn Scheduler> {
    by_name(choice).unwrap().make()
}

fn path(id: u32, rtt: u64) -> PathView {
    let rtt = Duration::from_millis(rtt);
    let rtt = RttView { smoothed: rtt, variation: rtt / 10, minimum: rtt, base: rtt };
    PathView { rtt, delay: rtt.smoothed / 2, ..PathView::new(PathId(id)) }
}

fn dead(path: PathView) -> PathView {
    PathView { state: PathState::Dead, sendable: ByteCount::ZERO, ..path }
}

fn costing(cost: u8, mut path: PathView) -> PathView {
    path.terms.cost = cost;
    path
}

/// A far path, a near one, and a secondary that is the nearest.
fn three() -> Vec<PathView> {
    vec![path(0, 40), path(1, 20), PathView { role: Role::Secondary, ..path(2, 10) }]
}

fn view(paths: &[PathView]) -> View<'_> {
    let mut view = View::new(Instant::from_nanos(0), paths);
    view.backlog = ByteCount(1_000_000);
    view.credit_left = ByteCount(1_000_000);
    view.credit_total = ByteCount(1_000_000);
    view.next =
        Some(NextUp { stream: StreamId(0), class: Class::Bulk, left: ByteCount(1_000_000), deadline: None });
    view
}

fn in_background(mut view: View<'_>) -> View<'_> {
    view.next = view.next.map(|next| NextUp { class: Class::Background, ..next });
    view
}

/// The words for the paths in use, in the order of their ids.
fn words(scheduler: &dyn Scheduler, view: &View<'_>) -> String {
    let purposes: Vec<_> = view.in_use().map(|path| purpose_of(scheduler, path, view).word()).collect();
    purposes.join(" ")
}

fn new_data(choice: &str, paths: &[PathView]) -> String {
    words(&*make(choice), &view(paths))
}

#[test]
fn schedulers_by_distance_name_the_nearest_path_and_the_tiers() {
    for choice in ["min-rtt", "blest", "ecf"] {
        assert_eq!(new_data(choice, &three()), "higher-rtt lowest-rtt secondary", "{choice}");
    }
    assert_eq!(new_data("redundant=late", &three()), "urgent lowest-rtt urgent");
    assert_eq!(new_data("redundant", &three()), "copies copies copies");
}

#[test]
fn schedulers_with_turns_say_so_and_small_traffic_stays_on_the_oldest_path() {
    for choice in ["round-robin", "weighted", "weighted=1:1:2"] {
        assert_eq!(new_data(choice, &three()), "round-robin round-robin secondary", "{choice}");
    }
    assert_eq!(new_data("outstanding-ratio", &three()), "round-robin bulk secondary");
}

#[test]
fn earliest_goes_by_arrival() {
    assert_eq!(new_data("earliest", &three()), "earliest-arrival earliest-arrival secondary");
    assert_eq!(
        new_data("earliest", &[path(0, 40), costing(1, path(1, 20))]),
        "earliest-arrival earliest-arrival"
    );
}

// spec 8.44
#[test]
fn no_scheduler_pays_for_background_data() {
    let paths = [path(0, 40), costing(1, path(1, 20))];
    let words = |choice| words(&*make(choice), &in_background(view(&paths)));
    assert_eq!(words("earliest"), "earliest-arrival no-background");
    assert_eq!(words("round-robin"), "round-robin no-background");
    assert_eq!(words("min-rtt"), "higher-rtt no-background");
    // A path without new data keeps its own reason.
    assert_eq!(words("primary"), "primary needs-consent");
}

#[test]
fn the_primary_path_differs_from_its_stand_in_and_from_the_others() {
    let mut scheduler = make("primary");
    let mut paths = vec![path(0, 40), path(1, 20), costing(2, path(2, 10))];
    scheduler.decide(&view(&paths));
    assert_eq!(words(&*scheduler, &view(&paths)), "primary retransmissions needs-consent");
    paths[0] = dead(paths[0]);
    assert_eq!(words(&*scheduler, &view(&paths)), "fallback needs-consent");
    paths[1] = dead(paths[1]);
    scheduler.decide(&view(&paths));
    assert_eq!(words(&*scheduler, &view(&paths)), "needs-consent");
    scheduler.on_event(&Event::CostlyAllowed { path: PathId(2) });
    assert_eq!(words(&*scheduler, &view(&paths)), "fallback");
    let paths = [path(0, 40), path(1, 20)];
    scheduler.on_event(&Event::PrimaryWished { path: Some(PathId(1)) });
    assert_eq!(words(&*scheduler, &view(&paths)), "retransmissions primary");
    assert_eq!(words(&*scheduler, &view(&[paths[0], dead(paths[1])])), "fallback");
    // The fastest path is primary, whichever it is.
    assert_eq!(new_data("primary=rank", &paths), "retransmissions primary");
    assert_eq!(new_data("primary=rank", &[paths[0], dead(paths[1])]), "primary");
}

#[test]
fn bound_streams_differ_from_streams_without_a_path_of_their_own() {
    let mut scheduler = make("stream-bound");
    let mut paths = vec![path(0, 40), path(1, 20)];
    assert_eq!(words(&*scheduler, &view(&paths)), "unbound unbound");
    let (unsent, retransmissions) = (ByteCount(1000), ByteCount::ZERO);
    let stream = StreamId(0);
    let ready =
        [ReadyStream { stream, priority: 0, class: Class::Bulk, deadline: None, unsent, retransmissions }];
    let mut decide = |paths: &[PathView]| {
        let view = View { ready: &ready, ..view(paths) };
        scheduler.decide(&view);
        words(&*scheduler, &view)
    };
    assert_eq!(decide(&paths), "unbound streams");
    paths[1] = dead(paths[1]);
    assert_eq!(decide(&paths), "orphaned-streams");
    paths[1].state = PathState::Active;
    assert_eq!(decide(&paths), "unbound streams");
}

#[test]
fn cost_names_the_dearer_paths_even_while_the_cheaper_ones_fail() {
    let mut paths = three();
    paths.push(costing(2, path(3, 1)));
    assert_eq!(new_data("cost", &paths), "higher-rtt lowest-rtt secondary more-costly");
    assert_eq!(
        words(&*make("cost"), &in_background(view(&paths))),
        "higher-rtt lowest-rtt secondary no-background"
    );
    paths[3].terms.quota_left = Some(ByteCount(100));
    assert_eq!(new_data("cost", &paths), "higher-rtt lowest-rtt secondary cap-reached");
    assert_eq!(new_data("cost", &[dead(path(0, 40)), costing(1, path(1, 20))]), "more-costly");
    // A free path in reserve makes no other dear.
    let backup = PathView { role: Role::Backup, state: PathState::Backup, ..path(0, 40) };
    assert_eq!(new_data("cost", &[backup, costing(1, path(1, 20))]), "lowest-rtt");
}

/// A scheduler that does not explain itself.
#[derive(Debug)]
struct Silent;

impl Scheduler for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn decide(&mut self, _view: &View<'_>) -> Decision {
        Decision::WAIT
    }
}

#[test]
fn a_custom_scheduler_need_not_explain_itself() {
    assert_eq!(words(&Silent, &view(&three())), "any any any");
}

fn any_path(id: u32) -> impl Strategy<Value = PathView> {
    let states = vec![PathState::Active, PathState::Active, PathState::Probation, PathState::Dead];
    let roles = vec![Role::Primary, Role::Primary, Role::Secondary, Role::Backup];
    let standing = (prop::sample::select(states), prop::sample::select(roles));
    (standing, 1..300_u64, 0..3_u8, prop::bool::ANY).prop_map(move |((state, role), rtt, cost, has_room)| {
        let sendable = if has_room { ByteCount(12_000) } else { ByteCount::ZERO };
        PathView { state, role, sendable, ..costing(cost, path(id, rtt)) }
    })
}

proptest! {
    #[test]
    fn new_data_goes_only_where_the_purpose_says(
        paths in (any_path(0), any_path(1), any_path(2)), is_background in prop::bool::ANY,
    ) {
        let paths = [paths.0, paths.1, paths.2];
        let bounded = paths.map(|path| background::bounded(&path));
        let view = if is_background { in_background(view(&bounded)) } else { view(&paths) };
        for choice in names().chain(["weighted=1:1:2", "primary=rank", "redundant=late"]) {
            let mut scheduler = make(choice);
            let (path, source) = match scheduler.decide(&view) {
                Decision::Send { path, source, .. } => (path, source),
                Decision::Copy { paths, source, .. } => (paths.as_slice()[0], source),
                Decision::Wait { .. } => continue,
            };
            prop_assert!(!matches!(source, Source::Retransmission | Source::Reinject), "{choice}: nothing is on its way");
            let path = view.path(path).unwrap();
            let purpose = purpose_of(&*scheduler, path, &view);
            prop_assert!(with_purpose(&*scheduler, &view).any(|used| used.id == path.id), "{choice}");
            prop_assert!(purpose.takes_new_data(), "{choice}: {purpose:?}");
        }
    }
}
