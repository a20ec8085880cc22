//! Cases of the draft's appendix, and cases of the deviations from it.

use super::*;

const RTT: Duration = Duration::from_millis(20);

fn path() -> Path {
    Path::new(mbit(50), RTT)
}

/// A path whose bandwidth has been found.
fn probing() -> Path {
    let mut path = path();
    path.run_to(|state| matches!(state, State::ProbeBw(_)));
    path
}

/// The same on a link with a known queue from the start.
fn probing_behind(queue: Duration) -> Path {
    let mut path = path();
    path.queue = queue;
    path.run_to(|state| matches!(state, State::ProbeBw(_)));
    path
}

fn is(phase: Phase) -> impl Fn(State) -> bool {
    move |state| state == State::ProbeBw(phase)
}

fn is_drained(state: State) -> bool {
    matches!(state, State::ProbeRtt(_))
}

/// The bandwidth-delay product.
fn product(path: &Path) -> ByteCount {
    path.rate * path.round_trip
}

/// The round trip that the window covers without its gain.
fn spanned(path: &Path) -> Duration {
    let round_trip = &path.bbr.round_trip;
    round_trip.minimum().unwrap() + round_trip.wait_back()
}

#[test]
fn startup_ends_when_the_bandwidth_stops_growing_and_is_known_within_two_percent() {
    let mut path = path();
    let took = path.run_to(|state| state != State::Startup);
    assert!(matches!(path.bbr.state, State::Drain { .. }));
    assert!(took < RTT * 14, "{took:?}");
    let known = path.bbr.bandwidth.get().bytes_per_second();
    let real = path.rate.bytes_per_second();
    assert!(known.abs_diff(real) * 50 <= real, "{known}, not {real}");
}

#[test]
fn drain_ends_when_no_more_is_in_flight_than_the_path_holds() {
    let mut path = path();
    path.run_to(|state| matches!(state, State::Drain { .. }));
    assert_eq!(path.bbr.state.pacing_gain(), 50);
    assert!(path.waiting() > RTT / 2);
    let took = path.run_to(|state| matches!(state, State::ProbeBw(_)));
    assert!(took <= RTT * 3 && path.waiting() < RTT / 5, "{took:?} {:?}", path.waiting());
}

#[test]
fn drain_ends_after_three_round_trips_when_the_path_has_become_slower() {
    let mut path = path();
    path.run_to(|state| matches!(state, State::Drain { .. }));
    path.rate = mbit(10);
    let State::Drain { since_round } = path.bbr.state else { panic!() };
    path.run_to(|state| matches!(state, State::ProbeBw(_)));
    assert!(path.bbr.rounds.count() <= since_round + 4);
}

#[test]
fn startup_ends_by_a_full_queue_even_if_the_application_limits_it() {
    let mut path = path();
    path.produces = Some(mbit(20));
    path.run(SECOND);
    assert_eq!(path.bbr.state, State::Startup);
    (path.rate, path.queue) = (mbit(10), MS * 10);
    path.run_to(|state| state != State::Startup);
    assert!(path.bbr.full_pipe.is_reached());
}

#[test]
fn startup_does_not_end_while_the_application_limits_it() {
    let mut path = path();
    path.produces = Some(mbit(5));
    path.run(SECOND * 10);
    assert_eq!(path.bbr.state, State::Startup);
    assert!(path.waiting() < MS);
    path.produces = None;
    path.run_to(|state| matches!(state, State::ProbeBw(_)));
}

#[test]
fn startup_tolerates_random_loss() {
    let mut path = path();
    path.lose_one_in = 50;
    path.run_to(|state| state != State::Startup);
    let known = path.bbr.bandwidth.get();
    assert!(known >= mbit(47), "{known}");
}

#[test]
fn a_cycle_goes_down_cruises_refills_and_probes() {
    let mut path = probing();
    path.run_to(is(Phase::Cruise));
    path.run_to(is(Phase::Refill));
    path.run_to(is(Phase::Up));
    let up = path.run_to(is(Phase::Down));
    // Three round trips without growth, and the first to see the result of the probe.
    assert!(up >= RTT * 3 && up < RTT * 7, "{up:?}");
    path.run_to(is(Phase::Cruise));
    let states: Vec<_> = path.states.iter().map(|(_, state)| *state).collect();
    // Drain has already done the work of the phase down.
    let phases = [Phase::Cruise, Phase::Refill, Phase::Up, Phase::Down, Phase::Cruise];
    assert_eq!(states[2..], phases.map(State::ProbeBw));
    assert!(states[0] == State::Startup && matches!(states[1], State::Drain { .. }));
}

#[test]
fn the_path_is_filled_with_a_short_queue() {
    let mut path = probing();
    let mut longest = Duration::ZERO;
    let mut share = 0;
    for _ in 0..500 {
        share += path.run(MS * 20);
        longest = longest.max(path.waiting());
    }
    assert!(share >= 98 * 500, "{share}");
    assert!(longest < RTT * 3 / 2, "{longest:?}");
}

#[test]
fn random_loss_costs_no_more_than_the_lost_packets() {
    for one_in in [200, 100, 50] {
        let mut path = path();
        path.lose_one_in = one_in;
        path.run(SECOND);
        let share = path.run(SECOND * 20);
        assert!(share >= 97 - 100 / one_in, "one in {one_in}: {share}");
    }
}

#[test]
fn a_short_queue_sets_a_bound_that_losses_stay_below() {
    let mut path = path();
    path.queue = RTT / 4;
    path.run(SECOND);
    let (lost, share) = (path.lost(), path.run(SECOND * 20));
    assert!(share >= 90, "{share}");
    let lost = (path.lost() - lost).get() * 1000 / (path.rate * (SECOND * 20)).get();
    assert!(lost < 10, "{lost} per mille");
    assert!(path.bbr.bounds.flight < product(&path) * 2);
}

#[test]
fn loss_while_probing_ends_the_probe_and_the_next_one_is_cautious() {
    let mut path = probing_behind(MS * 4);
    path.run_to(is(Phase::Up));
    path.run_to(is(Phase::Down));
    let bound = path.bbr.bounds.flight;
    assert!(bound >= product(&path) * 7 / 10 && bound <= product(&path) * 5 / 4, "{bound}");
    path.run_to(is(Phase::Cruise));
    assert!(path.bbr.window() <= path.bbr.bounds.flight * 86 / 100);
    path.queue = SECOND;
    path.run_to(is(Phase::Up));
    let cautious = path.run_to(is(Phase::Down));
    assert!(cautious < RTT * 2, "{cautious:?}");
    // The probe succeeded: the next one follows at once, for as long as it takes.
    let again = path.run_to(is(Phase::Refill));
    assert!(again <= RTT * 2, "{again:?} {:?}", path.states);
}

#[test]
fn a_tenfold_rate_is_found_within_one_probe() {
    let mut path = probing();
    path.run(SECOND);
    path.rate = mbit(500);
    path.run(SECOND * 4);
    assert!(path.bbr.bandwidth.get() >= mbit(480), "{}", path.bbr.bandwidth.get());
    assert!(path.run(SECOND) >= 95);
}

#[test]
fn a_rate_of_a_tenth_is_accepted_within_seconds() {
    for queue in [RTT, SECOND] {
        let mut path = probing();
        path.run(SECOND);
        (path.rate, path.queue) = (mbit(5), queue);
        path.run(SECOND * 4);
        assert!(path.bbr.rate() <= mbit(6), "{queue:?}: {}", path.bbr.rate());
        let share = path.run(SECOND * 2);
        assert!(share >= 93, "{queue:?}: {share} {:?}", path.bbr);
    }
}

#[test]
fn a_path_with_delayed_acknowledgements_is_filled_and_not_drained() {
    let mut path = probing();
    path.wait_back = RTT * 5;
    path.run(SECOND);
    let now = path.now;
    let share = path.run(SECOND * 20);
    assert!(share >= 97, "{share} {:?}", path.bbr);
    assert!(!path.states.iter().any(|(at, state)| *at > now && is_drained(*state)), "{:?}", path.states);
    path.run_to(is(Phase::Cruise));
    assert!(path.waiting() < RTT / 4, "{:?}", path.waiting());
    // The delay has ended. Its memory fades with the burst of acknowledgements in which it ended: at 0.5 % below the
    // rate of the path that takes two hundred times as long as the burst saved.
    path.wait_back = Duration::ZERO;
    path.run(SECOND * 24);
    assert!(path.bbr.window() < product(&path) * 5 / 2, "{:?}", path.bbr);
}

#[test]
fn the_queue_of_the_path_is_not_mistaken_for_one_of_acknowledgements_after_a_clock_jump() {
    for offset in [0, 1_000_000_000, 3_000_000_000] {
        let mut path = probing();
        path.offset = offset;
        path.run(SECOND);
        // A packet takes twice as long, and the queue grows.
        path.rate = mbit(25);
        path.run(MS * 100);
        assert!(path.waiting() > RTT, "{offset}: {:?}", path.waiting());
        assert!(spanned(&path) < RTT * 5 / 4, "{offset}: {:?}", path.bbr);
    }
}

#[test]
fn a_receiver_that_lies_about_the_queue_fills_its_own_path_until_that_loses() {
    let mut path = probing();
    (path.lie, path.queue) = (Some(0), MS * 100);
    let arrived = path.run(SECOND * 20);
    let (sent, lost) = ((path.rate * (SECOND * 20)).get(), path.lost().get());
    assert!(arrived >= 97 && lost > 0 && lost * 25 <= sent, "{arrived} {lost}");
    assert!(spanned(&path) <= path.smoothed() * 5 / 4, "{:?}", path.bbr);
    // The overestimated rate is corrected as soon as it reports the truth.
    path.lie = None;
    path.run(SECOND * 12);
    path.run_to(is(Phase::Cruise));
    assert!(path.waiting() < RTT / 4 && path.bbr.rate() <= path.rate.scaled(51, 50), "{:?}", path.bbr);
}

#[test]
fn the_path_is_drained_when_the_smallest_rtt_was_not_measured_for_five_seconds() {
    let mut path = probing();
    path.round_trip = RTT * 3 / 2;
    let waited = path.run_to(is_drained);
    assert!(waited > SECOND * 4 && waited < SECOND * 6, "{waited:?}");
    let lasted = path.run_to(is(Phase::Cruise));
    assert!(lasted >= MS * 200 && lasted < MS * 300, "{lasted:?}");
    path.run(SECOND * 6);
    assert!(spanned(&path) >= RTT * 3 / 2);
    assert!(path.run(SECOND) >= 95);
}

#[test]
fn draining_ends_as_soon_as_the_smallest_rtt_is_measured() {
    let mut path = probing();
    path.round_trip = RTT * 3 / 2;
    path.run_to(is_drained);
    path.round_trip = RTT;
    let lasted = path.run_to(is(Phase::Cruise));
    assert!(lasted <= RTT * 4, "{lasted:?}");
    assert!(path.run(SECOND) >= 95);
}

#[test]
fn the_queue_of_the_first_flight_is_not_mistaken_for_the_route() {
    // A packet takes 86 ms.
    let mut path = Path::new(Rate::from_bytes_per_second(14_000), MS * 10);
    path.run(SECOND * 4);
    assert!(path.bbr.round_trip.minimum() <= Some(MS * 100), "{:?}", path.bbr);
    assert!(path.waiting() <= MS * 500, "{:?}", path.waiting());
    assert!(path.run(SECOND * 4) >= 98);
}

#[test]
fn a_path_whose_queue_drains_by_itself_is_not_drained() {
    let mut path = probing();
    path.run(SECOND * 20);
    assert!(!path.states.iter().any(|(_, state)| is_drained(*state)), "{:?}", path.states);
}

#[test]
fn a_path_waits_for_the_drain_of_another_but_not_for_ever() {
    let subflow = Subflow::new(ByteCount(1), RTT, ByteCount(1)).with_activity(Activity::Draining);
    let mut path = probing();
    path.subflows = vec![subflow];
    path.round_trip = RTT * 3 / 2;
    let waited = path.run_to(is_drained);
    assert!(waited > MS * 5700 && waited < MS * 6900, "{waited:?}");
    let mut path = probing();
    path.subflows = vec![subflow];
    path.round_trip = RTT * 3 / 2;
    path.run(MS * 5300);
    assert_eq!(path.bbr.activity(), Activity::Steady);
    path.subflows.clear();
    assert!(path.run_to(is_drained) < MS * 100);
    assert_eq!(path.bbr.activity(), Activity::Draining);
}

#[test]
fn a_path_waits_for_the_probe_of_another_but_not_for_ever() {
    let alone = probing().run_to(is(Phase::Refill));
    let mut path = probing();
    path.subflows = vec![Subflow::new(ByteCount(1), RTT, ByteCount(1)).with_activity(Activity::Probing)];
    let beside = path.run_to(is(Phase::Refill));
    assert!(alone < RTT * 70, "{alone:?}");
    assert!(beside >= SECOND * 2 && beside <= SECOND * 3 + MS * 100, "{beside:?}");
}

#[test]
fn paths_with_different_seeds_start_their_probes_at_different_times() {
    let first_search = |seed| {
        let mut path = Path::with_seed(mbit(50), RTT, seed);
        path.run_to(is(Phase::Refill));
        path.now
    };
    let mut times: Vec<_> = (0..8).map(first_search).collect();
    times.sort();
    times.dedup();
    assert!(times.len() >= 6, "{times:?}");
}

#[test]
fn a_path_that_holds_less_than_a_packet_gets_four() {
    let mut path = Path::new(Rate::from_bits_per_second(100_000), MS);
    path.run(SECOND * 20);
    assert_eq!(path.bbr.window(), path.bbr.window().max(ByteCount(4 * 1200)));
    let share = path.run(SECOND * 20);
    assert!(share >= 95, "{share}");
    assert!(path.waiting() < SECOND, "{:?}", path.waiting());
}

#[test]
fn small_traffic_does_not_lower_the_known_bandwidth() {
    let mut path = probing();
    path.run(SECOND);
    let known = path.bbr.bandwidth.get();
    path.produces = Some(mbit(2));
    path.run(SECOND * 20);
    assert!(path.bbr.bandwidth.get() >= known);
    path.produces = None;
    path.run(MS * 100);
    assert!(path.run(SECOND) >= 97);
}

#[test]
fn a_spurious_loss_restores_startup() {
    let mut path = path();
    path.run(MS * 60);
    path.lose_one_in = 4;
    path.run_to(|state| state != State::Startup);
    let window = path.bbr.window();
    path.bbr.on_spurious_loss(path.now);
    assert_eq!(path.bbr.state, State::Startup);
    assert!(path.bbr.window() >= window && path.bbr.bounds.flight == ByteCount::MAX);
    // A second one has nothing to undo.
    let before = path.bbr.clone();
    path.bbr.on_spurious_loss(path.now);
    assert_eq!(before.window(), path.bbr.window());
}

#[test]
fn a_spurious_loss_restores_the_probe() {
    let mut path = probing_behind(MS * 4);
    path.run_to(is(Phase::Up));
    let before = path.bbr.bounds.flight;
    path.run_to(is(Phase::Down));
    path.bbr.on_spurious_loss(path.now);
    assert_eq!(path.bbr.state, State::ProbeBw(Phase::Refill));
    assert!(path.bbr.bounds.flight >= before);
}

fn mark(path: &mut Path) {
    let (now, in_flight) = (path.now, product(path));
    path.bbr.on_mark(now, in_flight);
}

#[test]
fn a_mark_while_cruising_lowers_the_rate_by_the_shortfall_of_the_round() {
    let mut path = probing();
    path.run_to(is(Phase::Cruise));
    mark(&mut path);
    path.run(RTT * 2);
    assert!(path.bbr.bounds.rate < Rate::MAX && path.bbr.bounds.recent_flight < ByteCount::MAX);
}

#[test]
fn a_mark_ends_a_probe_and_startup() {
    let mut path = probing();
    path.run_to(is(Phase::Up));
    mark(&mut path);
    assert_eq!(path.bbr.state, State::ProbeBw(Phase::Down));
    assert!(path.bbr.bounds.flight <= product(&path));
    let mut path = Path::new(mbit(50), RTT);
    path.run(RTT * 3);
    mark(&mut path);
    path.run(RTT * 2);
    assert!(path.bbr.full_pipe.is_reached());
}

#[test]
fn after_persistent_congestion_the_window_is_minimal_and_grows_back() {
    let mut path = probing();
    path.run(SECOND);
    path.bbr.on_persistent_congestion(path.now);
    assert_eq!(path.bbr.window(), ByteCount(2400));
    path.run(RTT * 10);
    assert!(path.run(SECOND) >= 95);
}

#[test]
fn a_restarted_path_has_the_given_window_and_no_history() {
    let mut path = probing();
    path.bbr.on_restart(path.now, ByteCount(60_000));
    assert_eq!((path.bbr.window(), path.bbr.state), (ByteCount(60_000), State::Startup));
    assert_eq!(path.bbr.bandwidth.get(), Rate::ZERO);
    // 2.77 windows in a round trip.
    assert_eq!(path.bbr.pacing_rate(RTT), ByteCount(60_000).per(RTT).scaled(277, 100));
    path.bbr.on_restart(path.now, ByteCount::ZERO);
    assert_eq!(path.bbr.window(), ByteCount(2400));
}

#[test]
fn after_a_pause_it_sends_at_the_rate_of_the_path() {
    let mut path = probing();
    path.run_to(is(Phase::Down));
    let sample = SentSample {
        now: path.now,
        packet_number: 0,
        bytes: ByteCount(1200),
        in_flight: ByteCount::ZERO,
        app_limited: true,
    };
    let known = path.bbr.bandwidth.get();
    path.bbr.on_sent(&sample);
    assert_eq!(path.bbr.pacing_rate(RTT), known.scaled(199, 200));
}

#[test]
fn a_route_five_times_as_long_is_accepted_within_ten_seconds() {
    let mut path = probing();
    path.run(SECOND);
    path.round_trip = RTT * 5;
    path.run(SECOND * 14);
    assert!(path.run(SECOND * 4) >= 93);
}
