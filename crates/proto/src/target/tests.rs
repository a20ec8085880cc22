use proptest::prelude::*;

use super::*;

const RTT: Duration = Duration::from_millis(80);
const SEGMENT: ByteCount = ByteCount(1000);
const WANTED: Rate = Rate::from_bits_per_second(800_000);

/// A network as a fluid: each connection gets its window each round trip, but not more than its share.
struct Fluid {
    controller: RateController,
    now: Instant,
    /// Largest rate of one connection.
    share: Rate,
    most_connections: usize,
    reports: Vec<TargetReport>,
}

impl Fluid {
    fn new(target: TargetRate) -> Self {
        let now = Instant::from_nanos(0);
        let mut controller = RateController::new(target, now, RTT);
        let paths: Vec<_> = (0..u32::from(controller.connections())).map(PathId).collect();
        controller.set_paths(&paths, RTT, SEGMENT);
        let most_connections = usize::from(target.connections);
        Self { controller, now, share: Rate::MAX, most_connections, reports: Vec::new() }
    }

    fn run(&mut self, seconds: u64) -> Rate {
        let until = self.now + Duration::from_secs(seconds);
        let (began_at, mut total) = (self.now, ByteCount::ZERO);
        while self.now < until {
            let at = self.controller.deadline();
            let rates =
                self.controller.windows().map(|(_, window)| (SEGMENT * window).per(RTT).min(self.share));
            let payload = rates.sum::<Rate>() * (at - self.now);
            total += payload;
            let count = usize::from(self.controller.connections()).min(self.most_connections);
            let paths: Vec<_> = (0..).map(PathId).take(count).collect();
            let sample = Sample {
                now: at,
                payload,
                rtt: RTT,
                segment: SEGMENT,
                paths: &paths,
                silent_for: Duration::ZERO,
            };
            self.reports.push(self.controller.on_sample(&sample));
            self.now = at;
            let windows: Vec<_> = self.controller.windows().map(|(_, window)| window).collect();
            let (least, most) = (windows.iter().min().unwrap(), windows.iter().max().unwrap());
            assert!(most - least <= 1, "{windows:?}");
        }
        total.per(self.now - began_at)
    }
}

fn target(algorithm: RateAlgorithm, connections: u8) -> TargetRate {
    TargetRate { algorithm, connections, ..TargetRate::new(WANTED) }
}

#[test]
fn a_sender_that_was_idle_does_not_exceed_the_target_when_it_begins() {
    let target = target(RateAlgorithm::Basic, 2);
    let mut fluid = Fluid::new(target);
    fluid.share = Rate::ZERO;
    fluid.run(60);
    fluid.share = Rate::MAX;
    assert_held(fluid.run(10), &target);
}

/// The gate: from 5 % below the target to the guard above it.
fn assert_held(rate: Rate, target: &TargetRate) {
    let (rate, wanted) = (rate.bytes_per_second(), target.rate.bytes_per_second());
    assert!(rate >= wanted * 95 / 100 && rate <= wanted + target.guard().bytes_per_second(), "{rate}");
}

#[test]
fn the_target_is_held_by_any_number_of_connections_without_congestion() {
    for connections in 1..=8 {
        let target = target(RateAlgorithm::Basic, connections);
        let mut fluid = Fluid::new(target);
        assert_held(fluid.run(60), &target);
    }
}

#[test]
fn five_connections_hold_the_target_where_one_gets_a_third_of_it() {
    let third = WANTED.scaled(1, 3);
    for (connections, is_held) in [(1, false), (2, false), (5, true)] {
        let target = target(RateAlgorithm::Basic, connections);
        let mut fluid = Fluid::new(target);
        fluid.share = third;
        fluid.run(20);
        let rate = fluid.run(60);
        if is_held {
            assert_held(rate, &target);
        } else {
            assert_eq!(
                rate.bytes_per_second() / 1000,
                third.bytes_per_second() * u64::from(connections) / 1000
            );
            let last = fluid.reports.last().unwrap();
            // Six times what is needed, and what the last adjustment added to that.
            assert!((600..750).contains(&last.congestion_percent), "{last:?}");
        }
    }
}

#[test]
fn a_number_of_connections_that_vary_grows_with_congestion_and_falls_after_it() {
    let target = target(RateAlgorithm::Advanced, 5);
    let mut fluid = Fluid::new(target);
    assert_held(fluid.run(20), &target);
    assert_eq!(fluid.controller.connections(), 1);
    fluid.share = WANTED.scaled(2, 5);
    fluid.run(60);
    assert_eq!(fluid.controller.connections(), 3);
    // The windows that congestion left large shrink first.
    fluid.run(30);
    assert_held(fluid.run(60), &target);
    fluid.share = Rate::MAX;
    fluid.run(60);
    assert_eq!(fluid.controller.connections(), 1);
    fluid.run(30);
    assert_held(fluid.run(60), &target);
}

#[test]
fn connections_begin_before_a_fast_rise_of_the_windows_counts_as_severe_congestion() {
    let target = target(RateAlgorithm::Advanced, 5);
    let mut fluid = Fluid::new(target);
    fluid.share = WANTED.scaled(3, 10);
    fluid.run(60);
    let most = fluid.reports.iter().map(|report| report.connections).max();
    assert_eq!(most, Some(4), "three bring nine tenths of the target");
}

#[test]
fn connections_end_one_by_one_in_severe_congestion_that_is_silent() {
    let mut controller = RateController::new(target(RateAlgorithm::Advanced, 5), Instant::from_nanos(0), RTT);
    controller.connections = 5;
    let paths: Vec<_> = (0..5).map(PathId).collect();
    controller.set_paths(&paths, RTT * 5, SEGMENT);
    let mut seen = Vec::new();
    for _ in 0..24 {
        let now = controller.deadline();
        let (payload, silent_for) = (ByteCount::ZERO, RTT * 4);
        controller.on_sample(&Sample { now, payload, rtt: RTT, segment: SEGMENT, paths: &paths, silent_for });
        seen.push(controller.connections());
    }
    assert_eq!(seen.iter().min(), Some(&1));
    assert!(seen.windows(4).all(|four| four[0] - four[3] <= 1), "{seen:?}");
}

#[test]
fn the_sum_of_the_windows_stays_when_paths_come_and_go() {
    let mut controller = RateController::new(target(RateAlgorithm::Basic, 5), Instant::from_nanos(0), RTT);
    let paths: Vec<_> = (0..5).map(PathId).collect();
    let rtt = Duration::from_millis(200);
    controller.set_paths(&paths[..1], rtt, SEGMENT);
    assert_eq!(controller.windows().collect::<Vec<_>>(), [(PathId(0), 20)]);
    controller.set_paths(&paths[..3], rtt, SEGMENT);
    assert_eq!(controller.windows().map(|(_, window)| window).collect::<Vec<_>>(), [7, 7, 6]);
    controller.set_paths(&paths[3..], rtt, SEGMENT);
    assert_eq!(controller.windows().map(|(_, window)| window).collect::<Vec<_>>(), [10, 10]);
}

#[test]
fn a_rate_bounds_each_path_where_a_segment_in_the_shortest_round_trip_exceeds_the_target() {
    let wanted = target(RateAlgorithm::Basic, 4);
    let most = wanted.rate + wanted.guard().scaled(1, 2);
    let mut controller = RateController::new(wanted, Instant::from_nanos(0), RTT);
    let paths: Vec<_> = (0..4).map(PathId).collect();
    controller.set_paths(&paths, RTT, SEGMENT);
    let millis = Duration::from_millis;
    assert_eq!(controller.rate_of_segment((RTT, millis(40)), SEGMENT), None, "windows are fine enough");
    // Eight segments need 80 ms, though they took 1 ms once.
    assert_eq!(controller.rate_of_segment((RTT, millis(1)), SEGMENT), Some(most.scaled(1, 8)));
    assert_eq!(controller.rate_of_segment((millis(1), millis(1)), SEGMENT), Some(most.scaled(1, 4)));
}

#[test]
fn a_target_out_of_range_names_its_field() {
    let with = |change: fn(&mut TargetRate)| {
        let mut target = TargetRate::new(WANTED);
        change(&mut target);
        target.validate().map_err(|error| error.field)
    };
    assert_eq!(with(|_| {}), Ok(()));
    assert_eq!(with(|target| target.rate = Rate::from_bytes_per_second(999)), Err("rate"));
    assert_eq!(with(|target| target.connections = 0), Err("connections"));
    assert_eq!(with(|target| target.connections = 17), Err("connections"));
    assert_eq!(with(|target| target.interval = Some(Duration::ZERO)), Err("interval"));
    assert_eq!(with(|target| target.smoothing = 100), Err("smoothing"));
    assert_eq!(with(|target| target.spike = 1), Err("spike"));
    assert_eq!(with(|target| target.congestion = 1), Err("congestion"));
    assert_eq!(with(|target| target.most_receive_window = Some(ByteCount(999))), Err("most_receive_window"));
}

proptest! {
    #[test]
    fn no_sample_makes_a_window_smaller_than_a_segment_or_the_number_leave_its_range(
        rate in 1000_u64..1 << 40,
        connections in 1_u8..=16,
        is_advanced in any::<bool>(),
        samples in proptest::collection::vec((any::<u64>(), 0_u64..10_000_000, 0_u64..70_000, 0_usize..20, any::<bool>()), 1..50),
    ) {
        let algorithm = if is_advanced { RateAlgorithm::Advanced } else { RateAlgorithm::Basic };
        let mut target = TargetRate::new(Rate::from_bytes_per_second(rate));
        (target.algorithm, target.connections) = (algorithm, connections);
        let mut controller = RateController::new(target, Instant::from_nanos(0), RTT);
        for (payload, rtt, segment, count, is_silent) in samples {
            let paths: Vec<_> = (0..).map(PathId).take(count).collect();
            let (payload, rtt, segment) = (ByteCount(payload), Duration::from_micros(rtt), ByteCount(segment));
            let silent_for = if is_silent { Duration::MAX } else { Duration::ZERO };
            let now = controller.deadline();
            let report = controller.on_sample(&Sample { now, payload, rtt, segment, paths: &paths, silent_for });
            prop_assert_eq!(report.paths, count);
            prop_assert!(controller.windows().all(|(_, window)| window >= 1));
            prop_assert!((1..=connections).contains(&controller.connections()));
            prop_assert!(controller.deadline() > now);
        }
    }
}
