//! The laws of `primary`.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::super::choice::capacity;
use super::super::{Notice, Purpose, View, in_use_for_urgent};
use super::*;

/// Paths that work, with roles and costs.
fn ranked() -> impl Strategy<Value = Vec<PathView>> {
    let roles = prop::sample::select(vec![Role::Primary, Role::Secondary, Role::Backup]);
    let ranks = prop::array::uniform3((roles, 0..3_u8));
    (some_open(), ranks).prop_map(|(paths, ranks)| {
        let ranked = |(path, (role, cost)): (&PathView, (Role, u8))| PathView {
            role,
            terms: PathTerms { cost, ..path.terms },
            ..*path
        };
        paths.iter().zip(ranks).map(ranked).collect()
    })
}

/// Notices to the application: which path is primary from now on, and for which it is asked.
fn told(scheduler: &mut dyn Scheduler) -> Vec<Notice> {
    std::iter::from_fn(|| scheduler.poll_notice()).collect()
}

/// The primary after a decision; the application is notified once of each change.
fn follow(scheduler: &mut dyn Scheduler, before: Option<PathId>) -> Option<PathId> {
    match told(scheduler).as_slice() {
        [] => before,
        [Notice::PrimaryIs(path)] if Some(*path) != before => Some(*path),
        others => panic!("{others:?} after {before:?}"),
    }
}

/// The waiting data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    New,
    Retransmissions,
    Urgent,
}

fn any_load() -> impl Strategy<Value = Load> {
    prop::sample::select(vec![Load::New, Load::Retransmissions, Load::Urgent])
}

/// The paths that get data: for urgent data all that may carry it, otherwise the scheduler's choice.
fn carriers(scheduler: &mut dyn Scheduler, scene: &Scene, load: Load) -> Vec<PathId> {
    if load == Load::Urgent {
        let view = View::new(scene.now, &scene.paths);
        scheduler.on_urgent(&view);
        let paths: Vec<PathId> = in_use_for_urgent(scheduler, &view).map(|path| path.id).collect();
        if !paths.is_empty() {
            return paths;
        }
    }
    chosen(&scene.decide(scheduler)).0
}

fn works(path: &PathView) -> bool {
    path.tier().is_some()
}

/// The fastest path of the best group that works.
fn fastest(paths: &[PathView]) -> Option<&PathView> {
    let working = paths.iter().filter(|path| works(path));
    working.min_by_key(|path| (path.tier(), path.terms.cost, Reverse(capacity(path)), path.id))
}

proptest! {
    #[test]
    fn the_first_primary_is_the_oldest_or_the_fastest_of_the_best_role_and_the_least_cost(paths in ranked()) {
        let oldest = paths.iter().min_by_key(|path| (path.role, path.terms.cost, path.id)).unwrap().id;
        let fastest = fastest(&paths).unwrap().id;
        for (choice, expected) in [("primary", oldest), ("primary=rank", fastest)] {
            let mut scheduler = make(choice);
            prop_assert_eq!(chosen(&Scene::bulk(paths.clone()).decide(&mut *scheduler)).0, [expected], "{}", choice);
            prop_assert_eq!(told(&mut *scheduler), [Notice::PrimaryIs(expected)], "{}", choice);
        }
    }

    #[test]
    fn the_primary_alone_carries_new_data_while_it_works(
        paths in some_open(), fullness in prop::collection::vec(any::<[bool; 3]>(), 1..20),
    ) {
        for choice in ["primary", "primary=rank"] {
            let mut scheduler = make(choice);
            let mut primary = None;
            for is_full in &fullness {
                let filter = |(path, is_full): (&PathView, &bool)| if *is_full { full(*path) } else { *path };
                let scene = Scene::bulk(paths.iter().zip(is_full).map(filter).collect());
                for path in chosen(&scene.decide(&mut *scheduler)).0 {
                    prop_assert_eq!(*primary.get_or_insert(path), path, "{}", choice);
                }
            }
        }
    }

    #[test]
    fn urgent_data_goes_where_new_data_goes(paths in ranked(), rounds in fates()) {
        for choice in ["primary", "primary=rank"] {
            let mut scheduler = make(choice);
            for fates in &rounds {
                let scene = Scene::bulk(befallen(&paths, fates));
                let urgent = carriers(&mut *scheduler, &scene, Load::Urgent);
                let sent = chosen(&scene.decide(&mut *scheduler)).0;
                prop_assert!(urgent.len() <= 1 && (sent.is_empty() || sent == urgent), "{choice} {urgent:?} {sent:?}");
            }
        }
    }

    #[test]
    fn retransmissions_go_on_the_fastest_of_the_other_paths(
        paths in some_open(), is_full in any::<[bool; 3]>(), from in 0..4_u32,
    ) {
        let filter = |(path, is_full): (&PathView, &bool)| if *is_full { full(*path) } else { *path };
        let paths = paths.iter().zip(&is_full).map(filter).collect();
        let scene = Scene { retransmissions: 5000, retransmit_off: Some(PathId(from)), ..Scene::bulk(paths) };
        // The primary, which is the oldest, carries them when no other can send; the path that lost them is the last
        // resort.
        let rank = |path: &&&PathView| {
            (path.id == PathId(from), path.id == PathId(0), Reverse(capacity(path)), path.id)
        };
        let roomy = scene.roomy();
        let expected = roomy.iter().min_by_key(rank).map_or(Decision::WAIT, |path| {
            Decision::send(path.id, path.sendable, Source::Retransmission)
        });
        prop_assert_eq!(scene.decide(&mut *make("primary")), expected);
    }

    #[test]
    fn the_fastest_other_path_takes_over_and_stays_until_the_primary_returns_or_the_application_chooses(
        paths in some_open(), secondary in any::<[bool; 3]>(), rounds in fates(),
        wishes in prop::collection::vec(prop::option::weighted(0.2, prop::option::of(0..3_u32)), 40),
    ) {
        let role = |is_secondary| if is_secondary { Role::Secondary } else { Role::Primary };
        let paths: Vec<PathView> =
            paths.iter().zip(secondary).map(|(path, second)| PathView { role: role(second), ..*path }).collect();
        let mut scheduler = make("primary");
        let (mut primary, mut wished) = (None, None);
        for (fates, wish) in rounds.iter().zip(wishes) {
            if let Some(path) = wish {
                wished = path.map(PathId);
                scheduler.on_event(&Event::PrimaryWished { path: wished });
            }
            let scene = Scene::bulk(befallen(&paths, fates));
            let sent = chosen(&scene.decide(&mut *scheduler)).0;
            let before = primary;
            primary = follow(&mut *scheduler, before);
            let Some(fastest) = fastest(&scene.paths) else {
                prop_assert_eq!((sent, primary), (Vec::new(), before));
                continue;
            };
            // The oldest open path of the best role.
            let home = scene.paths.iter().min_by_key(|path| (path.role, path.id)).unwrap().id;
            let is = |id: PathId, state: fn(&PathView) -> bool| scene.find(id).is_some_and(state);
            let if_settled = |id: PathId| Some(id).filter(|id| is(*id, |path| path.state == PathState::Active));
            let expected = wished.filter(|id| is(*id, works))
                .or_else(|| if_settled(home))
                .or_else(|| before.and_then(if_settled))
                .unwrap_or(fastest.id);
            prop_assert_eq!(primary, Some(expected), "home {}, wished {:?}, before {:?}", home, wished, before);
            let has_room = scene.path(expected).sendable > ByteCount::ZERO;
            prop_assert_eq!(sent, Vec::from_iter(primary.filter(|_| has_room)));
        }
    }

    #[test]
    fn by_rank_another_path_takes_over_only_if_it_is_faster_by_a_quarter(
        rounds in fates(), rates in prop::collection::vec(prop::array::uniform3(12_000..40_000_u64), 40),
    ) {
        let mut scheduler = make("primary=rank");
        let mut primary = None;
        for (fates, rates) in rounds.iter().zip(rates) {
            let paths: Vec<_> = (0..).zip(rates).map(|(id, rate)| open(id, 20, rate * 100)).collect();
            let scene = Scene::bulk(befallen(&paths, fates));
            scene.decide(&mut *scheduler);
            let before = primary;
            primary = follow(&mut *scheduler, before);
            let Some(best) = fastest(&scene.paths) else { continue };
            let rate = |path: &PathView| capacity(path).bytes_per_second();
            let is_close = |path: &PathView| path.tier() == best.tier() && rate(path) * 5 >= rate(best) * 4;
            let stays = |id: &PathId| scene.find(*id).is_some_and(is_close);
            prop_assert_eq!(primary, Some(before.filter(stays).unwrap_or(best.id)), "after {:?}", before);
        }
    }

    #[test]
    fn no_costly_path_carries_data_before_the_application_was_asked_and_allowed_it(
        paths in ranked(), rounds in fates(),
        // In percent of the requests; 0 is the policy never, 100 is allow.
        allowed_of_hundred in prop_oneof![Just(0), Just(100), 1..100_u8],
        answers in prop::collection::vec((0..100_u8, any_load()), 40),
    ) {
        let cost = |path: &PathView| path.terms.cost;
        let is_reserve = |path: &PathView| path.tier() == Some(Tier::Reserve);
        for choice in ["primary", "primary=rank"] {
            let mut scheduler = make(choice);
            let mut allowed = BTreeSet::new();
            // The cost of the last primary that needed no permission.
            let (mut free, mut requested) = (None, None);
            for (fates, (answer, load)) in rounds.iter().zip(&answers) {
                let retransmissions = if *load == Load::Retransmissions { 5000 } else { 0 };
                let scene = Scene { retransmissions, ..Scene::bulk(befallen(&paths, fates)) };
                let home = scene.paths.iter().min_by_key(|path| (path.role, cost(path), path.id)).map(cost);
                let working: Vec<&PathView> = scene.paths.iter().filter(|path| works(path)).collect();
                // A second time if the first decision was a request, and the request is granted.
                loop {
                    let carriers = carriers(&mut *scheduler, &scene, *load);
                    let told = told(&mut *scheduler);
                    let may_use = |path: &PathView, free: Option<u8>| {
                        free.or(home).is_none_or(|free| cost(path) <= free) || allowed.contains(&path.id)
                    };
                    let usable: Vec<_> = working.iter().filter(|path| may_use(path, free)).collect();
                    if !usable.is_empty() {
                        if let [Notice::PrimaryIs(path)] = told.as_slice() {
                            let path = scene.path(*path);
                            prop_assert!(may_use(path, free), "{choice} {told:?} {allowed:?}");
                            let before = free.or(home).filter(|_| allowed.contains(&path.id));
                            free = Some(before.unwrap_or(u8::MAX).min(cost(path)));
                        } else {
                            prop_assert!(told.is_empty(), "{choice} {told:?}");
                        }
                        let only_reserves = usable.iter().all(|path| is_reserve(path));
                        for path in carriers.iter().map(|id| scene.path(*id)) {
                            prop_assert!(may_use(path, free), "{choice} {path:?} {allowed:?}");
                            prop_assert_eq!(is_reserve(path), only_reserves, "{} {:?} {:?}", choice, path, allowed);
                        }
                        prop_assert!(*load != Load::Urgent || !carriers.is_empty(), "{choice} {allowed:?}");
                        requested = None;
                        break;
                    }
                    prop_assert!(carriers.is_empty(), "{choice} {carriers:?}");
                    let request = fastest(&scene.paths).map(|path| path.id).filter(|id| requested != Some(*id));
                    prop_assert_eq!(told, Vec::from_iter(request.map(Notice::CostlyPathNeeded)));
                    let Some(path) = request else { break };
                    requested = request;
                    if *answer >= allowed_of_hundred {
                        break;
                    }
                    allowed.insert(path);
                    scheduler.on_event(&Event::CostlyAllowed { path });
                }
            }
            prop_assert!(allowed_of_hundred > 0 || allowed.is_empty());
        }
    }
}

#[test]
fn permission_for_a_path_does_not_cover_another_of_the_same_cost() {
    let costing = |path: PathView| PathView { terms: PathTerms { cost: 1, ..path.terms }, ..path };
    let [free, backup, other] = [0, 1, 2].map(|id| open(id, 20, 1_000_000));
    let (backup, other) = (PathView { role: Role::Backup, ..costing(backup) }, costing(other));
    let mut scheduler = make("primary");
    let sent = |scheduler: &mut dyn Scheduler, paths: &[PathView], retransmissions| {
        chosen(&Scene { retransmissions, ..Scene::bulk(paths.to_vec()) }.decide(scheduler)).0
    };
    assert_eq!(sent(&mut *scheduler, &[free, backup, other], 0), [PathId(0)]);
    assert!(sent(&mut *scheduler, &[dead(free), backup, dead(other)], 0).is_empty());
    scheduler.on_event(&Event::CostlyAllowed { path: PathId(1) });
    for retransmissions in [0, 5000, 0] {
        assert_eq!(
            sent(&mut *scheduler, &[dead(free), backup, other], retransmissions),
            [PathId(1)],
            "{retransmissions}"
        );
    }
    let notices = [PathId(0), PathId(1)].map(Notice::PrimaryIs);
    assert_eq!(told(&mut *scheduler), [notices[0], Notice::CostlyPathNeeded(PathId(1)), notices[1]]);
}

#[test]
fn the_choice_of_a_path_does_not_permit_another_of_the_same_cost() {
    let costing = |path: PathView| PathView { terms: PathTerms { cost: 1, ..path.terms }, ..path };
    let [free, wished, other] = [0, 1, 2].map(|id| open(id, 20, 1_000_000));
    let (wished, other) = (costing(wished), costing(other));
    let mut scheduler = make("primary");
    let sent = |scheduler: &mut dyn Scheduler, paths: &[PathView], retransmissions| {
        chosen(&Scene { retransmissions, ..Scene::bulk(paths.to_vec()) }.decide(scheduler)).0
    };
    scheduler.on_event(&Event::PrimaryWished { path: Some(PathId(1)) });
    assert_eq!(sent(&mut *scheduler, &[free, wished, other], 0), [PathId(1)]);
    assert_eq!(sent(&mut *scheduler, &[free, wished, other], 5000), [PathId(0)]);
    assert_eq!(sent(&mut *scheduler, &[dead(free), wished, other], 5000), [PathId(1)]);
    scheduler.on_event(&Event::PrimaryWished { path: None });
    assert!(sent(&mut *scheduler, &[dead(free), wished, other], 0).is_empty());
}

#[test]
fn a_path_that_costs_the_peer_needs_no_permission_and_gives_way_to_a_cheaper_one() {
    let [free, other, costly] = [0, 1, 2].map(|id| open(id, 20, 1_000_000));
    let costly = PathView { terms: PathTerms { cost: 1, ..costly.terms }, peer_pays: true, ..costly };
    let (mut scheduler, mut purposes) = (make("primary"), Vec::new());
    for (paths, retransmissions, carries) in [
        ([free, other, costly], 0, Some(0)),
        ([full(free), full(other), costly], 5000, None),
        ([dead(free), dead(other), costly], 0, Some(2)),
        ([dead(free), dead(other), costly], 5000, Some(2)),
        // Not the first primary, but cheaper.
        ([dead(free), other, costly], 0, Some(1)),
    ] {
        let scene = Scene { retransmissions, ..Scene::bulk(paths.to_vec()) };
        let sent = chosen(&scene.decide(&mut *scheduler)).0;
        assert_eq!(sent.first().copied(), carries.map(PathId), "{purposes:?}");
        purposes.push(scheduler.purpose(&costly, &scene.view()));
    }
    let (spared, used) = (Purpose::MoreCostly, Purpose::Fallback);
    assert_eq!(purposes, [spared, spared, used, used, spared]);
    assert_eq!(told(&mut *scheduler), [0, 2, 1].map(|path| Notice::PrimaryIs(PathId(path))));
}
