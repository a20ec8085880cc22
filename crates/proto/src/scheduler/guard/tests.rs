//! The guard parks harmful paths, and never does harm itself.

use proptest::prelude::*;

use super::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_second(rate * 1_000_000)
}

fn candidate(path: u32, rate: u64, rtt: u64) -> Candidate {
    Candidate { path: PathId(path), rate: mbit(rate), delay: ms(rtt) / 2, smoothed_rtt: ms(rtt) }
}

/// A connection whose arrivals depend on the parked paths.
struct World {
    guard: Guard,
    now: Instant,
    arrived: ByteCount,
    out: Vec<PathId>,
    told: Vec<Verdict>,
}

impl World {
    fn new() -> Self {
        Self {
            guard: Guard::new(),
            now: Instant::from_nanos(0),
            arrived: ByteCount::ZERO,
            out: Vec::new(),
            told: Vec::new(),
        }
    }

    fn run(&mut self, seconds: u64, paths: &[Candidate], rate: impl Fn(&[PathId]) -> Rate) {
        for _ in 0..seconds * 100 {
            self.now += ms(10);
            self.arrived += rate(&self.out) * ms(10);
            for verdict in self.guard.on_arrived(self.now, self.arrived, paths.iter().copied()) {
                self.out.retain(|path| *path != verdict.path);
                if verdict.is_parked {
                    self.out.push(verdict.path);
                }
                self.told.push(verdict);
            }
        }
    }
}

#[test]
fn a_path_that_slows_the_connection_is_parked_and_retried_at_growing_intervals() {
    let paths = [candidate(0, 50, 20), candidate(1, 10, 200)];
    let mut world = World::new();
    let rate = |out: &[PathId]| if out.contains(&PathId(1)) { mbit(50) } else { mbit(20) };
    world.run(8, &paths, rate);
    assert_eq!(world.out, [PathId(1)]);
    let PathReason::DoesNotPay { with, without } = world.told[1].reason else { panic!("{:?}", world.told) };
    assert!(with < mbit(21) && without > mbit(49), "{with} {without}");
    world.run(300, &paths, rate);
    let again = world.told.iter().filter(|verdict| verdict.reason == PathReason::TriedAgain).count();
    assert!((3..=5).contains(&again), "{again} times");
}

#[test]
fn rounds_longer_than_the_wait_do_not_reset_it() {
    let paths = [candidate(0, 50, 20), candidate(1, 10, 5000)];
    let mut world = World::new();
    world.run(6000, &paths, |out| if out.contains(&PathId(1)) { mbit(50) } else { mbit(20) });
    let again = world.told.iter().filter(|verdict| verdict.reason == PathReason::TriedAgain).count();
    assert!((5..=15).contains(&again), "{again} times");
}

#[test]
fn a_parked_path_is_restored_once_the_others_collapse() {
    let paths = [candidate(0, 50, 20), candidate(1, 10, 200)];
    let mut world = World::new();
    let harm = |out: &[PathId]| if out.contains(&PathId(1)) { mbit(50) } else { mbit(20) };
    world.run(8, &paths, harm);
    assert_eq!(world.out, [PathId(1)]);
    // Three rounds of 1.2 s, and the round of the collapse.
    world.run(5, &paths, |out| if out.contains(&PathId(1)) { mbit(1) } else { mbit(11) });
    assert!(world.out.is_empty(), "{:?}", world.told);
}

#[test]
fn after_a_long_harmless_period_a_path_is_parked_no_longer_than_at_first() {
    let paths = [candidate(0, 50, 20), candidate(1, 10, 200)];
    let mut world = World::new();
    let harm = |out: &[PathId]| if out.contains(&PathId(1)) { mbit(50) } else { mbit(20) };
    world.run(8, &paths, harm);
    world.run(60, &paths, |_| mbit(60));
    assert!(world.out.is_empty() && world.guard.is_at_rest(), "{:?}", world.guard);
}

#[test]
fn a_path_is_restored_if_nothing_improves_without_it() {
    let paths = [candidate(0, 50, 20), candidate(1, 10, 200)];
    let mut world = World::new();
    world.run(60, &paths, |_| mbit(20));
    assert!(world.out.is_empty(), "{:?}", world.told);
    let trials = world.told.iter().filter(|verdict| verdict.reason == PathReason::TriedWithout).count();
    assert!((2..=4).contains(&trials), "{trials} trials");
}

#[test]
fn the_harmful_one_of_three_paths_is_found() {
    let paths = [candidate(0, 50, 20), candidate(1, 40, 100), candidate(2, 10, 60)];
    let mut world = World::new();
    world.run(20, &paths, |out| match (out.contains(&PathId(1)), out.contains(&PathId(2))) {
        (false, true) => mbit(90),
        (true, true) => mbit(50),
        (_, false) => mbit(30),
    });
    assert_eq!(world.out, [PathId(2)], "{:?}", world.told);
}

#[test]
fn a_connection_that_is_faster_than_its_best_path_is_left_alone() {
    let paths = [candidate(0, 50, 20), candidate(1, 10, 200)];
    let mut world = World::new();
    world.run(60, &paths, |_| mbit(58));
    assert!(world.told.is_empty());
}

#[test]
fn a_connection_without_data_is_not_judged() {
    let paths = [candidate(0, 50, 20), candidate(1, 10, 200)];
    let mut world = World::new();
    for _ in 0..300 {
        world.guard.on_idle();
        world.run(1, &paths, |_| mbit(1));
    }
    assert!(world.told.is_empty(), "{:?}", world.told);
}

proptest! {
    #[test]
    fn the_best_path_is_never_left_out_and_no_path_for_ever(
        rates in prop::collection::vec((1u64..100, 5u64..300), 2..5),
        arrivals in prop::collection::vec(0u64..100, 16),
    ) {
        let paths: Vec<_> =
            (0u32..).zip(&rates).map(|(id, (rate, rtt))| candidate(id, *rate, *rtt)).collect();
        let best = paths.iter().map(|path| path.rate).max().unwrap();
        let mut world = World::new();
        let rate = |out: &[PathId]| mbit(arrivals[out.iter().map(|path| 1 << path.0).sum::<usize>()]);
        world.run(60, &paths, rate);
        prop_assert!(paths.iter().any(|path| path.rate == best && !world.out.contains(&path.path)));
        // Without further harm no path stays parked for more than the longest wait.
        let well = |_: &[PathId]| mbit(1000);
        world.run(LONGEST_WAIT.as_secs() + 10, &paths, well);
        prop_assert!(world.out.is_empty(), "{:?}", world.told);
    }
}
