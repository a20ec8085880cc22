//! Laws of the controllers, and the values of the RFCs.

use std::time::Duration;

use proptest::prelude::*;

use super::cubic_curve::Curve;
use super::*;
use crate::{ByteCount, Instant, Rate};

/// Controllers whose window follows losses.
const LOSS_BASED: &[&str] = &["cubic", "coupled-cubic", "new-reno", "lia", "olia", "balia"];
const SIZE: u64 = 1000;
const RTT: Duration = Duration::from_millis(100);

fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

/// An acknowledgement of a flow that uses its whole window.
fn ack(now: Instant, bytes: u64, window: ByteCount) -> AckSample {
    AckSample {
        now,
        bytes: ByteCount(bytes),
        bytes_outside_recovery: ByteCount(bytes),
        in_flight: window,
        pipe: window,
        latest_rtt: Some(RTT),
        latest_one_way: None,
        smoothed_rtt: RTT,
        rtt_variation: Duration::ZERO,
        minimum_rtt: RTT,
        largest_acked: 0,
        next_packet_number: 1,
        delivery_rate: None,
        app_limited: false,
        delivered: ByteCount::ZERO,
        delivered_at_sent: ByteCount::ZERO,
        in_flight_at_sent: window,
        lost_since_sent: ByteCount::ZERO,
        gaps_since_sent: 0,
        newly_lost: ByteCount::ZERO,
        loss_interval: ByteCount::ZERO,
    }
}

fn loss(now: Instant) -> LossSample {
    LossSample {
        now,
        sign: CongestionSign::Loss,
        sent_at: now,
        bytes: ByteCount(SIZE),
        in_flight: ByteCount::ZERO,
        smoothed_rtt: RTT,
    }
}

fn config(datagrams: u32) -> ControllerConfig {
    ControllerConfig { initial_window: datagrams, ..ControllerConfig::new(1000) }
}

/// Acknowledges a whole window within a round trip, in ten parts.
fn round(controller: &mut dyn CongestionController, now: &mut Instant) {
    for _ in 0..10 {
        *now += RTT / 10;
        let window = controller.window();
        controller.on_ack(&ack(*now, window.get() / 10, window), &[]);
    }
}

#[test]
fn every_name_makes_a_controller_of_that_name() {
    for name in names() {
        let controller = by_name(name).unwrap()(&ControllerConfig::default());
        assert_eq!((controller.name(), controller.window()), (name, ByteCount(12_000)));
    }
    assert!(by_name("no-such").is_none());
}

#[test]
fn slow_start_doubles_and_new_reno_then_adds_a_datagram_each_round_trip() {
    let mut reno = NewReno::new(&config(10));
    reno.on_ack(&ack(at(0), 10_000, reno.window()), &[]);
    assert_eq!(reno.window(), ByteCount(20_000));
    reno.on_loss(&loss(at(1)));
    assert_eq!(reno.window(), ByteCount(10_000));
    assert!(!reno.is_in_slow_start());
    let mut now = at(2);
    for datagrams in 11..30 {
        reno.on_ack(&ack(now, reno.window().get(), reno.window()), &[]);
        now += RTT;
        assert_eq!(reno.window(), ByteCount(datagrams * SIZE));
    }
}

#[test]
fn no_window_grows_during_recovery() {
    for name in LOSS_BASED {
        let mut controller = by_name(name).unwrap()(&config(100));
        controller.on_loss(&loss(at(0)));
        let window = controller.window();
        let sample = AckSample { bytes_outside_recovery: ByteCount::ZERO, ..ack(at(9), 50_000, window) };
        controller.on_ack(&sample, &[]);
        assert_eq!(controller.window(), window, "{name}");
    }
}

#[test]
fn cubic_keeps_seven_tenths_and_converges_fast_below_the_last_plateau() {
    let mut cubic = Cubic::new(&config(1000));
    cubic.on_loss(&loss(at(0)));
    assert_eq!(cubic.window(), ByteCount(700_000));
    // RFC 9438, section 4.7: W_max = 700 · 0.85 = 595, window 490, so K = cbrt(105 / 0.4).
    cubic.on_loss(&loss(at(1)));
    assert_eq!(cubic.window(), ByteCount(490_000));
    let k = Curve::new(ByteCount(490_000), ByteCount(595_000), 1000).time_to_plateau();
    assert_eq!(k.as_millis(), 6402);
    let mut now = at(2);
    while now < at(2) + k {
        round(&mut cubic, &mut now);
    }
    let window = cubic.window().get();
    assert!((590_000..=600_000).contains(&window), "{window}");
}

/// RFC 9438, section 4.2 in floats, with the Reno-friendly estimate of section 4.3.
fn reference(prior: f64, rtt: f64, rounds: u32) -> f64 {
    let (mut window, mut estimate) = (prior * 0.7, prior * 0.7);
    let k = (prior * 0.3 / 0.4).cbrt();
    let curve = |t: f64| 0.4 * (t - k).powi(3) + prior;
    let mut start = None;
    let mut now = 0.0;
    for _ in 0..rounds * 10 {
        now += rtt / 10.0;
        let t = now - *start.get_or_insert(now);
        let acked = window / 10.0;
        let alpha = if estimate >= prior { 1.0 } else { 9.0 / 17.0 };
        estimate += alpha * acked / window;
        if curve(t) < estimate {
            window = f64::max(window, estimate);
        } else {
            window += (curve(t + rtt).clamp(window, window * 1.5) - window) * acked / window;
        }
    }
    window
}

#[test]
fn the_window_of_cubic_follows_the_curve_of_the_rfc_within_a_hundredth() {
    for datagrams in [10, 50, 300, 2000, 20_000] {
        for rounds in [1, 5, 20, 60, 150, 300] {
            let mut cubic = Cubic::new(&config(datagrams));
            cubic.on_loss(&loss(at(0)));
            let mut now = at(0);
            for _ in 0..rounds {
                round(&mut cubic, &mut now);
            }
            let expected = reference(f64::from(datagrams), 0.1, rounds) * SIZE as f64;
            let found = cubic.window().get() as f64;
            assert!((found / expected - 1.0).abs() < 0.01, "{datagrams}, {rounds}: {found}, not {expected}");
        }
    }
}

#[test]
fn cubic_is_never_slower_than_reno_where_reno_is_faster() {
    // RFC 9438, section 4.3: with a small window and a short round trip the estimate leads.
    let mut cubic = Cubic::new(&config(10));
    cubic.on_loss(&loss(at(0)));
    let mut now = at(0);
    let mut estimate = 7.0;
    for _ in 0..200 {
        for _ in 0..10 {
            now += Duration::from_micros(500);
            let window = cubic.window();
            let sample =
                AckSample { smoothed_rtt: Duration::from_millis(5), ..ack(now, window.get() / 10, window) };
            cubic.on_ack(&sample, &[]);
            estimate += 0.1 * if estimate >= 10.0 { 1.0 } else { 9.0 / 17.0 };
        }
    }
    let window = cubic.window().get() as f64 / SIZE as f64;
    assert!((window / estimate - 1.0).abs() < 0.02, "{window} instead of {estimate}");
}

#[test]
fn time_without_use_of_the_window_does_not_move_cubic_along_its_curve() {
    let grow = |pause: bool| {
        let mut cubic = Cubic::new(&config(1000));
        cubic.on_loss(&loss(at(0)));
        let mut now = at(0);
        for _ in 0..20 {
            round(&mut cubic, &mut now);
        }
        if pause {
            // Application-limited for a minute, then idle for another one.
            for _ in 0..600 {
                now += RTT;
                let window = cubic.window();
                cubic.on_ack(&AckSample { pipe: ByteCount(SIZE), ..ack(now, SIZE, window) }, &[]);
                assert_eq!(cubic.window(), window);
            }
            now += Duration::from_secs(60);
            cubic.on_sent(&SentSample {
                now,
                packet_number: 0,
                bytes: ByteCount(SIZE),
                in_flight: ByteCount::ZERO,
                app_limited: true,
            });
        }
        for _ in 0..20 {
            round(&mut cubic, &mut now);
        }
        cubic.window()
    };
    assert_eq!(grow(true), grow(false));
}

#[test]
fn after_slow_start_without_loss_cubic_starts_flat() {
    // RFC 9438, section 4.10; the same after persistent congestion (section 4.8).
    let mut cubic = Cubic::new(&config(100));
    cubic.on_loss(&loss(at(0)));
    cubic.on_persistent_congestion(at(0));
    assert_eq!(cubic.window(), ByteCount(2000));
    let mut now = at(0);
    while cubic.is_in_slow_start() {
        round(&mut cubic, &mut now);
    }
    assert_eq!(cubic.window().get() / SIZE, 70);
    for _ in 0..10 {
        round(&mut cubic, &mut now);
    }
    // One second from the plateau: 0.4 datagrams; Reno with α = 1 gives ten.
    let window = cubic.window().get();
    assert!((79_000..=81_000).contains(&window), "{window}");
}

/// A round trip of slow start: each packet is acknowledged with this RTT.
fn slow_start_round(controller: &mut dyn CongestionController, next: &mut u64, rtt: Duration) {
    let window = controller.window();
    let packets = window.get() / SIZE;
    let first = *next;
    *next += packets;
    for number in first..first + packets {
        let sample = AckSample {
            latest_rtt: Some(rtt),
            largest_acked: number,
            next_packet_number: *next,
            ..ack(at(0), SIZE, controller.window())
        };
        controller.on_ack(&sample, &[]);
    }
}

#[test]
fn a_rise_of_the_rtt_slows_slow_start_down_and_ends_it_after_five_rounds() {
    let mut reno = NewReno::new(&config(10));
    let mut next = 0;
    slow_start_round(&mut reno, &mut next, RTT);
    slow_start_round(&mut reno, &mut next, RTT);
    assert_eq!(reno.window(), ByteCount(40_000));
    // An eighth of 100 ms is 12.5 ms: less is no sign.
    slow_start_round(&mut reno, &mut next, RTT + Duration::from_millis(12));
    assert_eq!(reno.window(), ByteCount(80_000));
    for _ in 0..7 {
        slow_start_round(&mut reno, &mut next, RTT + Duration::from_millis(30));
    }
    assert!(!reno.is_in_slow_start());
    // Five rounds by a quarter each, from 80 to about 244 datagrams, instead of 2560.
    let window = reno.window().get() / SIZE;
    assert!((200..=300).contains(&window), "{window}");
}

#[test]
fn slow_start_resumes_when_the_rise_was_only_jitter() {
    let mut reno = NewReno::new(&config(10));
    let mut next = 0;
    slow_start_round(&mut reno, &mut next, RTT);
    slow_start_round(&mut reno, &mut next, RTT);
    slow_start_round(&mut reno, &mut next, RTT + Duration::from_millis(20));
    let slowed = reno.window();
    assert!(slowed < ByteCount(60_000));
    slow_start_round(&mut reno, &mut next, RTT);
    slow_start_round(&mut reno, &mut next, RTT);
    assert!(reno.is_in_slow_start() && reno.window() > slowed * 3);
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Ack { part: u64, micros: u64, outside: bool, used: bool },
    Loss,
    Undo,
    Persistent,
    Restart(u64),
    Size(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (1u64..8, 0u64..200_000, any::<bool>(), any::<bool>())
            .prop_map(|(part, micros, outside, used)| Step::Ack { part, micros, outside, used }),
        3 => Just(Step::Loss),
        2 => Just(Step::Undo),
        1 => Just(Step::Persistent),
        1 => (0u64..5_000_000).prop_map(Step::Restart),
        1 => (500u16..9000).prop_map(Step::Size),
    ]
}

proptest! {
    #[test]
    fn no_window_falls_below_two_datagrams_and_only_use_makes_it_grow(
        name in prop::sample::select(LOSS_BASED),
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let mut controller = by_name(name).unwrap()(&config(10));
        let (mut now, mut size) = (at(0), 1000);
        for step in steps {
            let before = controller.window();
            match step {
                Step::Ack { part, micros, outside, used } => {
                    now += Duration::from_micros(micros);
                    let bytes = before.get() / part;
                    let mut sample = ack(now, bytes, before);
                    if !outside {
                        sample.bytes_outside_recovery = ByteCount::ZERO;
                    }
                    if !used {
                        sample.pipe = before / 3;
                    }
                    controller.on_ack(&sample, &[]);
                    prop_assert!(controller.window() >= before);
                    prop_assert!(controller.window() <= before * 2 + ByteCount(u64::from(size)));
                    prop_assert!((outside && used) || controller.window() == before);
                }
                Step::Loss => {
                    controller.on_loss(&loss(now));
                    prop_assert!(controller.window() <= before);
                }
                Step::Undo => controller.on_spurious_loss(now),
                Step::Persistent => controller.on_persistent_congestion(now),
                Step::Restart(bytes) => controller.on_restart(now, ByteCount(bytes)),
                Step::Size(bytes) => {
                    size = bytes;
                    controller.on_max_datagram(bytes);
                }
            }
            prop_assert!(controller.window() >= ByteCount(2 * u64::from(size)));
            prop_assert!(controller.pacing_rate(RTT) > Rate::ZERO);
        }
    }

    #[test]
    fn an_undone_loss_leaves_no_trace(
        name in prop::sample::select(LOSS_BASED),
        before in proptest::collection::vec(step(), 0..60),
        after in proptest::collection::vec(1u64..8, 0..20),
    ) {
        // Two controllers with the same past; one has a loss undone.
        let make = || {
            let mut controller = by_name(name).unwrap()(&config(10));
            let mut now = at(0);
            for step in &before {
                match *step {
                    Step::Ack { part, micros, .. } => {
                        now += Duration::from_micros(micros);
                        let window = controller.window();
                        controller.on_ack(&ack(now, window.get() / part, window), &[]);
                    }
                    Step::Loss => controller.on_loss(&loss(now)),
                    Step::Undo | Step::Persistent | Step::Restart(_) | Step::Size(_) => {}
                }
            }
            (controller, now)
        };
        let (mut one, mut now) = make();
        let (mut other, _) = make();
        one.on_loss(&loss(now));
        one.on_spurious_loss(now);
        prop_assert_eq!(one.window(), other.window());
        for part in after {
            now += RTT / 4;
            let window = one.window();
            one.on_ack(&ack(now, window.get() / part, window), &[]);
            other.on_ack(&ack(now, window.get() / part, window), &[]);
            prop_assert_eq!(one.window(), other.window());
        }
    }
}

/// Controllers of one group; each receives the figures of the others.
struct Flows(Vec<Box<dyn CongestionController>>);

impl Flows {
    fn new(name: &str, datagrams: &[u32]) -> Self {
        let make = |datagrams: &u32| by_name(name).unwrap()(&config(*datagrams));
        Self(datagrams.iter().map(make).collect())
    }

    fn subflows(&self, except: usize) -> Vec<Subflow> {
        let others = self.0.iter().enumerate().filter(|(at, _)| *at != except);
        let subflow = |other: &dyn CongestionController| {
            Subflow::new(other.window(), RTT, ByteCount::ZERO)
                .with_reduced_at(other.reduced_at())
                .with_bottleneck(Bottleneck::Same)
        };
        others.map(|(_, other)| subflow(other.as_ref())).collect()
    }

    /// Each receives the figures of the others.
    fn look(&mut self) {
        for at in 0..self.0.len() {
            let subflows = self.subflows(at);
            self.0[at].on_subflows(&subflows);
        }
    }

    /// A round trip in ten parts.
    fn round(&mut self, now: &mut Instant) {
        for _ in 0..10 {
            *now += RTT / 10;
            for at in 0..self.0.len() {
                let subflows = self.subflows(at);
                let window = self.0[at].window();
                self.0[at].on_subflows(&subflows);
                self.0[at].on_ack(&ack(*now, window.get() / 10, window), &subflows);
            }
        }
    }

    fn datagrams(&self) -> f64 {
        self.0.iter().map(|flow| flow.window().get()).sum::<u64>() as f64 / SIZE as f64
    }
}

#[test]
fn the_paths_of_a_group_are_together_one_cubic_flow() {
    let history = |name: &str, shares: &[u32]| {
        let mut flows = Flows::new(name, shares);
        // All leave slow start at once: one path is reduced.
        let mut now = at(1_000_000);
        let first = LossSample { sent_at: now - RTT, ..loss(now) };
        flows.look();
        for at in 0..flows.0.len() {
            flows.0[at].on_loss(&first);
            flows.look();
        }
        let mut datagrams = Vec::new();
        for _ in 0..4 {
            for _ in 0..100 {
                flows.round(&mut now);
            }
            datagrams.push(flows.datagrams());
            let largest = flows.0.iter_mut().max_by_key(|flow| flow.window()).unwrap();
            largest.on_loss(&loss(now));
            datagrams.push(flows.datagrams());
        }
        datagrams
    };
    let one = history("cubic", &[1000]);
    for shares in [&[1000][..], &[500, 500], &[800, 200], &[600, 200, 200]] {
        let group = history("coupled-cubic", shares);
        for (one, group) in one.iter().zip(&group) {
            assert!((group / one - 1.0).abs() < 0.03, "{shares:?}: {group}, not {one}");
        }
    }
}

#[test]
fn a_path_that_joins_a_group_adds_no_initial_window_and_grows_from_there() {
    let mut flows = Flows::new("coupled-cubic", &[40, 10]);
    let subflows = flows.subflows(1);
    flows.0[1].on_validated(&subflows);
    assert_eq!(flows.0[1].window(), ByteCount(2 * SIZE));
    // One by one, beyond the initial window.
    for count in 3..20 {
        let subflows = flows.subflows(1);
        let window = flows.0[1].window();
        flows.0[1].on_subflows(&subflows);
        flows.0[1].on_ack(&ack(at(count), SIZE, window), &subflows);
        assert_eq!(flows.0[1].window(), ByteCount(count * SIZE));
    }
    // A path without predecessors is the flow itself, and an uncoupled one is a flow of its own.
    for (name, others) in [("coupled-cubic", &[10, 4][..]), ("cubic", &[10, 40])] {
        let mut flows = Flows::new(name, others);
        let subflows = flows.subflows(0);
        flows.0[0].on_validated(&subflows);
        assert_eq!(flows.0[0].window(), ByteCount(10 * SIZE));
    }
}

#[test]
fn a_group_is_reduced_once_for_simultaneous_losses_of_its_paths() {
    let mut flows = Flows::new("coupled-cubic", &[500, 500]);
    let mut now = at(0);
    flows.round(&mut now);
    let sent_at = now - RTT / 2;
    flows.0[0].on_loss(&loss(now));
    let window = flows.0[1].window();
    let subflows = flows.subflows(1);
    flows.0[1].on_subflows(&subflows);
    flows.0[1].on_loss(&LossSample { sent_at, ..loss(now + RTT / 10) });
    assert_eq!(flows.0[1].window(), window);
    // Packets sent after the first reduction count.
    flows.0[1].on_loss(&LossSample { sent_at: now, ..loss(now + RTT) });
    assert!(flows.0[1].window() < window);
}

proptest! {
    #[test]
    fn a_coupled_path_alone_behaves_as_an_uncoupled_one(
        pair in prop::sample::select(&[
            ("coupled-cubic", "cubic"), ("lia", "new-reno"), ("olia", "new-reno"), ("balia", "new-reno"),
        ][..]),
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let [mut one, mut other] = [pair.0, pair.1].map(|name| by_name(name).unwrap()(&config(10)));
        let elsewhere = [Subflow::new(ByteCount(90_000), RTT / 2, ByteCount(100_000))];
        let mut now = at(0);
        for step in steps {
            if let Step::Ack { part, micros, .. } = step {
                now += Duration::from_micros(micros);
                let window = one.window();
                one.on_subflows(&elsewhere);
                one.on_ack(&ack(now, window.get() / part, window), &elsewhere);
                other.on_ack(&ack(now, window.get() / part, window), &elsewhere);
            }
            for controller in [&mut one, &mut other] {
                match step {
                    Step::Ack { .. } => {}
                    Step::Loss => controller.on_loss(&loss(now)),
                    Step::Undo => controller.on_spurious_loss(now),
                    Step::Persistent => controller.on_persistent_congestion(now),
                    Step::Restart(bytes) => controller.on_restart(now, ByteCount(bytes)),
                    Step::Size(bytes) => controller.on_max_datagram(bytes),
                }
            }
            prop_assert_eq!(one.window(), other.window());
        }
    }
}
