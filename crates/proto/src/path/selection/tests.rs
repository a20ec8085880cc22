use std::time::Duration;

use proptest::prelude::*;

use super::{Candidate, PairMode, breadth, choose, interfaces, is_better, share_an_address, sum};
use crate::{FourTuple, LocalAddress, Rate};

fn pair(local: u8, remote: u8) -> FourTuple {
    let local = LocalAddress { interface: u32::from(local) + 1, address: ([10, 0, local, 1], 1).into() };
    FourTuple::udp(local, ([192, 0, 2, remote + 1], 4433).into())
}

fn candidate(local: u8, remote: u8, rtt: u64, rate: Option<u64>) -> Candidate {
    let rate = rate.map(|kbit| Rate::from_bits_per_second(kbit * 1000));
    let rtt = Duration::from_millis(rtt);
    Candidate { tuple: pair(local, remote), rtt, rate, has_failed_trial: false, penalty: Duration::ZERO }
}

/// The candidate with two local addresses on each interface.
fn doubled(mut candidate: Candidate) -> Candidate {
    candidate.tuple.local.interface = candidate.tuple.local.interface.div_ceil(2);
    candidate
}

/// Some pairs of up to `n` addresses at either end: RTT in ms and rate in kbit/s.
fn some_pairs(n: u8) -> impl Strategy<Value = Vec<(u8, u8, u64, u64)>> {
    let all: Vec<_> = (0..n).flat_map(|local| (0..n).map(move |remote| (local, remote))).collect();
    let count = all.len();
    proptest::sample::subsequence(all, 0..=count).prop_flat_map(|pairs| {
        let each =
            pairs.into_iter().map(|(local, remote)| (Just(local), Just(remote), 1u64..400, 100u64..9000));
        each.collect::<Vec<_>>()
    })
}

/// Every choice of pairs without a common address.
fn matchings(candidates: &[Candidate]) -> Vec<Vec<Candidate>> {
    let Some((first, rest)) = candidates.split_first() else { return vec![Vec::new()] };
    let without = matchings(rest);
    let fits = |matching: &&Vec<Candidate>| {
        matching.iter().all(|other| !share_an_address(&other.tuple, &first.tuple))
    };
    let with: Vec<_> =
        without.iter().filter(fits).map(|matching| [matching.as_slice(), &[*first]].concat()).collect();
    without.into_iter().chain(with).collect()
}

fn chosen(candidates: &[Candidate], tuples: &[FourTuple]) -> Vec<Candidate> {
    tuples.iter().map(|tuple| *candidates.iter().find(|c| c.tuple == *tuple).unwrap()).collect()
}

// spec 6.122
#[test]
fn a_pair_without_a_measured_rate_only_fills_up_the_number_of_pairs() {
    let failed = |candidate| Candidate { has_failed_trial: true, ..candidate };
    let [known, unknown] = [candidate(0, 0, 30, Some(1000)), candidate(0, 1, 20, None)];
    let held = [known.tuple];
    assert_eq!(choose(PairMode::Disjoint, &[known, unknown], &held, 4), [unknown.tuple]);
    assert_eq!(choose(PairMode::Disjoint, &[known, failed(unknown)], &held, 4), held);
    let other = failed(candidate(1, 1, 500, None));
    assert_eq!(choose(PairMode::Disjoint, &[known, other], &held, 4), [known.tuple, other.tuple]);
}

// seed AMS, section 5.3: the first connection is A-C.
#[test]
fn the_two_fast_pairs_of_four_are_chosen_although_a_slow_one_is_in_use() {
    let mesh = [
        candidate(0, 0, 80, None),
        candidate(0, 1, 20, None),
        candidate(1, 0, 20, None),
        candidate(1, 1, 80, None),
    ];
    let mut chosen = choose(PairMode::Disjoint, &mesh, &[pair(0, 0)], 7);
    chosen.sort_by_key(|tuple| tuple.local.interface);
    assert_eq!(chosen, [pair(0, 1), pair(1, 0)]);
    assert_eq!(choose(PairMode::FullMesh, &mesh, &[pair(0, 0)], 8).len(), 4);
}

#[test]
fn a_near_pair_that_proves_slow_is_left_for_a_known_one_and_not_tried_again() {
    let known = candidate(0, 0, 30, Some(8000));
    let held = [pair(0, 0)];
    let near = |rate| [known, candidate(0, 1, 20, rate)];
    let chosen = choose(PairMode::Disjoint, &near(None), &held, 7);
    assert_eq!(chosen, [pair(0, 1)], "its rate is not known: the distance decides");
    assert_eq!(choose(PairMode::Disjoint, &near(None), &chosen, 7), chosen);
    let back = choose(PairMode::Disjoint, &near(Some(300)), &chosen, 7);
    assert_eq!(back, held);
    assert_eq!(choose(PairMode::Disjoint, &near(Some(300)), &back, 7), held);
}

// spec 6.67
#[test]
fn a_near_pair_that_proves_slow_is_left_for_one_of_unknown_rate_that_is_not_too_far() {
    let held = [pair(0, 0)];
    let pairs = |distance| [candidate(0, 0, 20, Some(2000)), candidate(0, 1, distance, None)];
    assert_eq!(choose(PairMode::Disjoint, &pairs(30), &held, 7), [pair(0, 1)]);
    // 256 KiB take 1.05 s at 2 Mbit/s.
    assert_eq!(choose(PairMode::Disjoint, &pairs(960), &held, 7), [pair(0, 1)]);
    assert_eq!(choose(PairMode::Disjoint, &pairs(970), &held, 7), held);
}

#[test]
fn a_gain_of_a_tenth_or_less_changes_nothing() {
    let pairs = [candidate(0, 0, 100, None), candidate(0, 1, 91, None)];
    assert_eq!(choose(PairMode::Disjoint, &pairs, &[pair(0, 0)], 7), [pair(0, 0)]);
    let pairs = [candidate(0, 0, 100, None), candidate(0, 1, 89, None)];
    assert_eq!(choose(PairMode::Disjoint, &pairs, &[pair(0, 0)], 7), [pair(0, 1)]);
}

#[test]
fn a_pair_that_is_gone_is_replaced_at_once() {
    let pairs = [candidate(0, 0, 100, None), candidate(1, 1, 99, None)];
    let chosen = choose(PairMode::Disjoint, &pairs, &[pair(0, 0), pair(1, 2)], 7);
    assert!(chosen.contains(&pair(0, 0)) && chosen.contains(&pair(1, 1)) && chosen.len() == 2);
    assert_eq!(choose(PairMode::Disjoint, &[], &[pair(0, 0)], 7), []);
}

#[test]
fn two_ports_of_one_address_are_one_address() {
    let mut other = candidate(1, 0, 20, None);
    other.tuple.remote.set_port(9);
    assert_eq!(choose(PairMode::Disjoint, &[candidate(0, 0, 30, None), other], &[], 7), [other.tuple]);
}

// spec 6.47
#[test]
fn another_interface_is_worth_more_than_a_nearer_address_of_the_same() {
    // Two addresses on a near interface and one on a far one, two addresses of the peer.
    let pairs = [(0, 0, 10), (0, 1, 10), (1, 0, 10), (1, 1, 10), (2, 0, 70), (2, 1, 71)];
    let pairs = pairs.map(|(local, remote, rtt)| doubled(candidate(local, remote, rtt, None)));
    let held = [pairs[0].tuple, pairs[3].tuple];
    for held in [&[][..], &held] {
        let best = chosen(&pairs, &choose(PairMode::Disjoint, &pairs, held, 7));
        assert_eq!((breadth(&best), sum(&best)), ((2, 2), Duration::from_millis(80)));
    }
    assert_eq!(breadth(&chosen(&pairs, &choose(PairMode::Disjoint, &pairs[..4], &[], 7))), (2, 1));
    // A mesh does not crowd out the far pair.
    let mesh = chosen(&pairs, &choose(PairMode::FullMesh, &pairs, &[], 3));
    assert_eq!(mesh.iter().map(|candidate| candidate.rtt.as_millis()).collect::<Vec<_>>(), [10, 70, 10]);
}

proptest! {
    // spec 6.47
    #[test]
    fn an_assignment_uses_no_address_twice_and_is_never_worse_than_any_other(
        pairs in some_pairs(4), known in any::<u16>(), share in any::<bool>(), most in 1usize..6
    ) {
        // Keeps the rates whose bit is set.
        let rate = |rate| (known >> (rate % 16) & 1 == 1).then_some(rate);
        let each =
            pairs.iter().map(|(local, remote, rtt, kbit)| candidate(*local, *remote, *rtt, rate(*kbit)));
        let candidates: Vec<_> = each.map(|one| if share { doubled(one) } else { one }).collect();
        let best = chosen(&candidates, &choose(PairMode::Disjoint, &candidates, &[], most));
        for (place, one) in best.iter().enumerate() {
            prop_assert!(best[..place].iter().all(|other| !share_an_address(&one.tuple, &other.tuple)));
        }
        for other in matchings(&candidates).iter().filter(|other| other.len() <= most) {
            prop_assert!(breadth(other) <= breadth(&best));
            prop_assert!(breadth(other) < breadth(&best) || sum(&best) <= sum(other));
        }
    }

    // spec 6.48, 6.66: the rate of a pair is known once it was used, and stays known.
    #[test]
    fn on_constant_paths_the_choice_converges_to_one_that_no_known_or_unknown_pair_beats(
        pairs in some_pairs(4), start in any::<prop::sample::Index>()
    ) {
        let mut used: Vec<FourTuple> = Vec::new();
        let candidates = |used: &[FourTuple]| -> Vec<Candidate> {
            let each = pairs.iter().map(|(local, remote, rtt, kbit)| {
                let is_known = used.contains(&pair(*local, *remote));
                candidate(*local, *remote, *rtt, is_known.then_some(*kbit))
            });
            each.collect()
        };
        let all = matchings(&candidates(&[]));
        let start = start.get(&all);
        let mut held: Vec<_> = start.iter().map(|candidate| candidate.tuple).collect();
        let mut last_change = 0;
        for round in 1..=60 {
            used.extend(&held);
            let next = choose(PairMode::Disjoint, &candidates(&used), &held, 7);
            if next != held {
                last_change = round;
                let known = candidates(&used);
                let (here, there) = (chosen(&known, &held), chosen(&known, &next));
                prop_assert!(breadth(&there) > breadth(&here) || is_better(sum(&there), sum(&here)));
            }
            held = next;
        }
        // Each pair is unknown once at most, and between two trials only better choices follow.
        prop_assert!(last_change <= 40, "{last_change}");
        let known = candidates(&used);
        let rest = chosen(&known, &held);
        for other in matchings(&known).iter().filter(|other| breadth(other) == breadth(&rest)) {
            prop_assert!(!is_better(sum(other), sum(&rest)), "{rest:?} {other:?}");
        }
    }

    // spec 6.47
    #[test]
    fn a_full_mesh_is_the_cheapest_pair_of_each_interface_then_the_cheapest_others_and_keeps_its_pairs(
        pairs in some_pairs(4), share in any::<bool>(), most in 1usize..9
    ) {
        let each = pairs.iter().map(|(local, remote, rtt, _)| candidate(*local, *remote, *rtt, None));
        let candidates: Vec<_> = each.map(|one| if share { doubled(one) } else { one }).collect();
        let first = choose(PairMode::FullMesh, &candidates, &[], most);
        prop_assert_eq!(first.len(), candidates.len().min(most));
        let again = choose(PairMode::FullMesh, &candidates, &first, most);
        prop_assert_eq!(&again, &first);
        let mesh = chosen(&candidates, &first);
        prop_assert_eq!(interfaces(&mesh), interfaces(&candidates).min(most));
        for left_out in candidates.iter().filter(|candidate| !first.contains(&candidate.tuple)) {
            let over = |chosen: &&Candidate| chosen.tuple.local.interface == left_out.tuple.local.interface;
            prop_assert!(mesh.iter().filter(over).all(|chosen| chosen.cost() <= left_out.cost()));
            // Dearer pairs are there only as the first of another interface.
            let dearer: Vec<_> = mesh.iter().filter(|chosen| chosen.cost() > left_out.cost()).copied().collect();
            prop_assert_eq!(interfaces(&dearer), dearer.len());
            prop_assert!(dearer.is_empty() || mesh.iter().any(|chosen| over(&chosen)));
        }
    }
}
