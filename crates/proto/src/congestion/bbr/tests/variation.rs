//! The signs of a rate that varies, and what follows.

use super::*;

const RTT: Duration = Duration::from_millis(20);
const KNOWN: u64 = 50;

/// A round of a path that has known [`KNOWN`] Mbit/s.
#[derive(Debug, Clone, Copy)]
struct Round {
    megabits: u64,
    packets: u64,
    app_limited: bool,
    /// By how much the shortest of its round trips exceeds the smallest one of the path.
    queue: Duration,
}

impl Round {
    fn at(megabits: u64) -> Self {
        Self { megabits, packets: 24, app_limited: false, queue: MS * 5 }
    }
}

/// In cruise for some rounds, without any sign so far.
fn cruising() -> Bbr {
    let mut path = Path::new(mbit(KNOWN), RTT);
    path.run_to(|state| state == State::ProbeBw(Phase::Cruise));
    path.run(RTT * 4);
    let mut bbr = path.bbr;
    bbr.bandwidth.lower(mbit(KNOWN));
    assert_eq!(
        (bbr.state, bbr.rounds.was_cruise(), bbr.variation.is_on()),
        (State::ProbeBw(Phase::Cruise), true, false)
    );
    bbr
}

/// In a bandwidth probe.
fn probing() -> Bbr {
    let mut path = Path::new(mbit(KNOWN), RTT);
    path.run_to(|state| state == State::ProbeBw(Phase::Up));
    path.bbr
}

fn feed(bbr: &mut Bbr, now: Instant, rounds: &[Round]) -> bool {
    let smallest = bbr.round_trip.minimum().unwrap();
    for round in rounds {
        for number in 0..round.packets {
            let queue = if number == 7 { round.queue } else { round.queue + MS * 5 };
            let sample = AckSample {
                now,
                latest_rtt: Some(smallest + queue),
                app_limited: round.app_limited && number == 3,
                ..laws::sample()
            };
            bbr.observe_queue(&sample);
        }
        bbr.notice_variation(now, mbit(round.megabits));
    }
    bbr.variation.is_on()
}

/// Whether these rounds are a sign. The first of them ends a round that was not whole.
fn is_sign(mut bbr: Bbr, rounds: &[Round]) -> bool {
    bbr.variation = Variation::default();
    feed(&mut bbr, Instant::from_nanos(0), rounds)
}

#[test]
fn a_second_round_with_a_queue_below_0_88_of_the_bandwidth_is_a_fall() {
    let [low, usual] = [43, 45].map(Round::at);
    assert!(is_sign(cruising(), &[usual, low]));
    assert!(!is_sign(cruising(), &[low]), "the first round");
    assert!(!is_sign(cruising(), &[usual, usual]));
    assert!(!is_sign(probing(), &[usual, low]), "a probe shares the path with those of others");
}

#[test]
fn a_second_round_with_a_queue_above_1_12_of_the_bandwidth_before_the_probe_is_a_rise() {
    let bbr = probing();
    let known = bbr.cycle.known().bytes_per_second() / 125_000;
    let [usual, high] = [known * 28 / 25 - 1, known * 28 / 25 + 1].map(Round::at);
    assert!(is_sign(bbr.clone(), &[usual, high]));
    assert!(!is_sign(bbr.clone(), &[high]), "the first round");
    assert!(!is_sign(bbr, &[usual, usual]));
    assert!(!is_sign(cruising(), &[usual, high]), "in cruise");
}

#[test]
fn a_round_that_the_path_does_not_limit_is_no_sign() {
    let low = Round::at(30);
    let of_application = Round { app_limited: true, ..low };
    let without_queue = Round { queue: MS, ..low };
    let short = Round { packets: 23, ..low };
    assert!(is_sign(cruising(), &[low, low]));
    for lacking in [of_application, without_queue] {
        assert!(
            !is_sign(cruising(), &[low, lacking]) && !is_sign(cruising(), &[lacking, low]),
            "{lacking:?}"
        );
    }
    assert!(!is_sign(cruising(), &[low, short]));
}

#[test]
fn the_rate_varies_for_ten_seconds_after_the_last_sign() {
    let at = |seconds| Instant::from_nanos(0) + SECOND * seconds;
    let (low, usual) = (Round::at(30), Round::at(KNOWN));
    let mut bbr = cruising();
    assert!(feed(&mut bbr, at(100), &[usual, low, low]));
    assert!(feed(&mut bbr, at(109), &[usual, low]));
    assert!(feed(&mut bbr, at(119), &[usual]));
    assert!(!feed(&mut bbr, at(119) + MS, &[usual]));
}

#[test]
fn a_fixed_rate_does_not_vary() {
    for (rate, round_trip, produces) in [
        (mbit(50), RTT, None),
        (mbit(50), MS * 100, None),
        (mbit(50), RTT, Some(mbit(30))),
        (mbit(1), MS * 50, None),
    ] {
        let mut path = Path::new(rate, round_trip);
        for _ in 0..6 {
            path.run(SECOND * 5);
            assert!(!path.bbr.variation.is_on(), "{rate} {round_trip:?} {produces:?}");
            path.produces = produces;
        }
    }
}

#[test]
fn a_slow_path_of_few_packets_does_not_vary_whatever_its_rate() {
    let mut path = Path::new(Rate::from_bits_per_second(400_000), MS * 60);
    path.queue = MS * 200;
    for change in 0..60 {
        path.rate = Rate::from_bits_per_second(if change % 2 == 0 { 600_000 } else { 400_000 });
        path.run(MS * 500);
        assert!(!path.bbr.variation.is_on(), "{change}");
    }
}

/// A path whose rate varies, at the beginning of the phase cruise.
fn varying() -> Path {
    let mut path = Path::new(mbit(50), RTT);
    path.run_to(|state| state == State::ProbeBw(Phase::Cruise));
    for change in 0..20 {
        path.rate = mbit(if change % 2 == 0 { 30 } else { 50 });
        path.run(MS * 400);
    }
    assert!(path.bbr.variation.is_on());
    path.run_to(|state| state == State::ProbeBw(Phase::Cruise));
    path
}

#[test]
fn cruise_on_a_varying_path_forgets_losses_when_no_queue_stands() {
    let path = varying();
    let minimum = path.bbr.round_trip.minimum().unwrap();
    let after = |queue, bound| {
        let mut bbr = path.bbr.clone();
        bbr.bounds = Bounds { rate: bound, ..Bounds::UNLIMITED };
        let sample = AckSample { now: path.now, latest_rtt: Some(minimum + queue), ..laws::sample() };
        bbr.round_trip.on_ack(&sample, false);
        bbr.update_cycle(&sample, &[]);
        bbr.state
    };
    assert_eq!(after(MS, mbit(20)), State::ProbeBw(Phase::Refill));
    assert_eq!(after(MS * 3, mbit(20)), State::ProbeBw(Phase::Cruise), "a queue stands");
    assert_eq!(after(MS, Rate::MAX), State::ProbeBw(Phase::Cruise), "no loss");
}

#[test]
fn a_varying_path_is_drained_less() {
    let mut bbr = varying().bbr;
    assert_eq!(bbr.drained_window(), bbr.product(85));
    bbr.variation = Variation::default();
    assert_eq!(bbr.drained_window(), bbr.product(50));
}

#[test]
fn cruise_probes_a_varying_path_where_no_queue_stands() {
    let mut path = varying();
    let mut gain = |queue| {
        let minimum = path.bbr.round_trip.minimum().unwrap();
        path.bbr.round_trip.on_ack(&AckSample { latest_rtt: Some(minimum + queue), ..laws::sample() }, false);
        let paced = path.bbr.pacing_rate(RTT);
        let of = |gain: u64| path.bbr.rate().scaled(gain * 199, 100 * 200);
        (paced == of(125), paced == of(100))
    };
    assert_eq!((gain(MS), gain(MS * 3)), ((true, false), (false, true)));
}
