//! Laws for any input.

use proptest::prelude::*;

use super::super::aggregation::Aggregation;
use super::super::bounds::Bounds;
use super::super::full_pipe::{FullPipe, RoundEnd};
use super::super::losses::{flight_at_loss, is_excessive};
use super::super::model::{MaxBandwidth, Purpose};
use super::*;

const SIZE: ByteCount = ByteCount(1200);

fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

pub(super) fn sample() -> AckSample {
    AckSample {
        now: at(0),
        bytes: SIZE,
        bytes_outside_recovery: SIZE,
        in_flight: SIZE * 10,
        pipe: SIZE * 10,
        latest_rtt: Some(MS * 20),
        latest_one_way: None,
        smoothed_rtt: MS * 20,
        rtt_variation: Duration::ZERO,
        minimum_rtt: MS * 20,
        largest_acked: 0,
        next_packet_number: 1,
        delivery_rate: Some(mbit(10)),
        app_limited: false,
        delivered: SIZE * 100,
        delivered_at_sent: SIZE * 90,
        in_flight_at_sent: SIZE * 10,
        lost_since_sent: ByteCount::ZERO,
        gaps_since_sent: 0,
        newly_lost: ByteCount::ZERO,
        loss_interval: ByteCount::ZERO,
    }
}

fn lost(flight: u64, lost: u64) -> LostPacketSample {
    LostPacketSample {
        now: at(0),
        packet_number: 0,
        bytes: SIZE,
        in_flight_at_sent: SIZE * flight,
        lost_since_sent: SIZE * lost,
        gaps_since_sent: lost,
        gaps: lost,
        delivered: ByteCount::ZERO,
        begins_event: false,
        app_limited: false,
        latest_rtt: Some(MS * 40),
    }
}

fn excessive(flight: u64, gaps: u64) -> bool {
    is_excessive(SIZE * gaps, SIZE * flight, gaps, SIZE)
}

#[test]
fn two_losses_of_four_are_too_many_and_of_a_long_flight_little_more_than_two_percent() {
    assert!(excessive(4, 2) && !excessive(4, 1));
    assert!(excessive(90, 7) && !excessive(90, 6));
    assert!(excessive(10_000, 244) && !excessive(10_000, 243));
    // A burst is one event, however long.
    assert!(!is_excessive(SIZE * 20, SIZE * 90, 1, SIZE));
}

#[test]
fn the_flight_at_loss_is_where_two_percent_were_lost() {
    // (lost_before + x) / (before + x) = 1/50, solved by hand: before 999, lost before 9.
    assert_eq!(flight_at_loss(&lost(1000, 10)).get() / SIZE.get(), 999 + 11);
    // More than that was lost before: fewer bytes fit.
    assert_eq!(flight_at_loss(&lost(1000, 40)).get() / SIZE.get(), 979);
}

#[test]
fn the_largest_rate_is_forgotten_with_the_cycle_after_the_next() {
    let mut bandwidth = MaxBandwidth::default();
    let measure = |bandwidth: &mut MaxBandwidth, megabits, app_limited| {
        let sample = AckSample { delivery_rate: Some(mbit(megabits)), app_limited, ..sample() };
        bandwidth.on_ack(&sample, Purpose::Startup);
        bandwidth.get()
    };
    assert_eq!(measure(&mut bandwidth, 10, false), mbit(10));
    bandwidth.advance();
    // A cycle without a sample does not count.
    bandwidth.advance();
    assert_eq!(measure(&mut bandwidth, 4, true), mbit(10));
    assert_eq!(measure(&mut bandwidth, 6, false), mbit(10));
    bandwidth.advance();
    assert_eq!(bandwidth.get(), mbit(6));
    assert_eq!(measure(&mut bandwidth, 8, true), mbit(8));
}

#[test]
fn the_rate_of_a_round_is_the_mean_of_its_samples_once_the_pipe_is_full() {
    let mut bandwidth = MaxBandwidth::default();
    let mut measure = |megabits: &[u64], purpose| {
        for (place, megabits) in megabits.iter().enumerate() {
            let sample = AckSample { delivery_rate: Some(mbit(*megabits)), ..sample() };
            if place == 0 {
                bandwidth.end_round(false);
            }
            bandwidth.on_ack(&sample, purpose);
        }
        bandwidth.get()
    };
    assert_eq!(measure(&[8, 12, 10], Purpose::Steady), mbit(0), "the round has not ended");
    assert_eq!(measure(&[9], Purpose::Steady), mbit(10));
    assert_eq!(measure(&[10, 16, 10], Purpose::Search), mbit(16), "a search goes on from what it found");
    assert_eq!(measure(&[8], Purpose::Steady), mbit(12), "and leaves the mean of its best round");
}

#[test]
fn the_pipe_is_full_after_three_rounds_without_growth_application_limited_ones_not_counted() {
    let mut pipe = FullPipe::default();
    let mut round = |megabits, app_limited| {
        let sample = AckSample { delivery_rate: Some(mbit(megabits)), app_limited, ..sample() };
        pipe.on_ack(&sample, sample.latest_rtt, ByteCount::MAX, RoundEnd::No);
        pipe.on_ack(
            &AckSample { delivery_rate: None, ..sample },
            sample.latest_rtt,
            ByteCount::MAX,
            RoundEnd::Usual,
        );
        pipe.is_reached_now()
    };
    let rounds = [
        (8, false, "the rate grows from zero"),
        (16, false, "it grows by more than a quarter"),
        (19, false, "a first round without growth"),
        (19, false, "a second one"),
        (20, false, "a quarter more than 16: the count begins again"),
        (20, true, "an application-limited round does not count"),
        (20, false, "a first round without growth"),
        (24, false, "a second one: 24 is less than a quarter more than 20"),
        (21, true, "an application-limited round does not count"),
    ];
    for (megabits, app_limited, reason) in rounds {
        assert!(!round(megabits, app_limited), "{megabits} Mbit/s: {reason}");
    }
    assert!(round(20, false), "a third round without growth");
}

#[test]
fn application_limited_rounds_count_while_one_and_a_half_bandwidth_delay_products_are_in_flight() {
    let mut pipe = FullPipe::default();
    let mut round = |in_flight| {
        let in_flight_at_sent = ByteCount(in_flight);
        let sample =
            AckSample { delivery_rate: Some(mbit(8)), app_limited: true, in_flight_at_sent, ..sample() };
        pipe.on_ack(&sample, sample.latest_rtt, ByteCount(10_000), RoundEnd::Usual);
        pipe.is_reached_now()
    };
    assert!((0..10).all(|_| !round(14_000)));
    assert!(!round(15_000) && !round(15_000) && !round(15_000) && round(15_000));
}

#[test]
fn one_round_without_growth_fills_the_pipe_if_four_bandwidth_delay_products_are_in_flight() {
    let rounds_until_full = |product, in_flight| {
        let mut pipe = FullPipe::default();
        let in_flight_at_sent = ByteCount(in_flight);
        let sample = AckSample { delivery_rate: Some(mbit(8)), in_flight_at_sent, ..sample() };
        let mut round = |_: &u32| {
            pipe.on_ack(&sample, sample.latest_rtt, ByteCount(product), RoundEnd::Usual);
            pipe.is_reached_now()
        };
        // The first one grows from zero.
        (0..10).find(|number| round(number)).unwrap()
    };
    assert_eq!([399_999, 400_000].map(|in_flight| rounds_until_full(100_000, in_flight)), [3, 1]);
    assert_eq!([249_999, 250_000].map(|in_flight| rounds_until_full(1000, in_flight)), [3, 1], "of 250 ms");
}

#[test]
fn slow_start_ends_with_the_first_loss_behind_a_queue_or_with_the_queue() {
    let mut path = Path::new(mbit(50), MS * 50);
    path.run(MS * 130);
    assert!(path.bbr.doubles());
    let faded = LostPacketSample { delivered: path.bbr.rounds.delivered(), latest_rtt: None, ..lost(100, 1) };
    path.bbr.on_packet_lost(&faded);
    assert!(path.bbr.doubles(), "no queue stood before it");
    path.bbr.on_packet_lost(&LostPacketSample { latest_rtt: Some(MS * 60), ..faded });
    path.run(MS * 70);
    assert_eq!((path.bbr.state, path.bbr.doubles()), (State::Startup, false));
    // The path holds less than the first flight.
    let mut path = Path::new(mbit(1), MS * 50);
    path.run(MS * 130);
    assert_eq!((path.bbr.state, path.bbr.doubles()), (State::Startup, false));
}

#[test]
fn bunched_acknowledgements_are_measured_and_forgotten_after_ten_rounds() {
    let mut extra = Aggregation::default();
    let rate = mbit(8); // 1000 bytes a millisecond
    let ack = |extra: &mut Aggregation, millis: u64, round, kilobytes: u64| {
        let sample = AckSample { now: at(millis * 1000), bytes: ByteCount(kilobytes * 1000), ..sample() };
        extra.on_ack(&sample, round, rate, ByteCount(1_000_000), true);
        extra.extra().get() / 1000
    };
    assert_eq!(ack(&mut extra, 0, 0, 10), 10);
    assert_eq!(ack(&mut extra, 10, 0, 10), 10);
    // 30 at once, when 10 had been due.
    assert_eq!(ack(&mut extra, 20, 1, 30), 30);
    for round in 2..6 {
        assert_eq!(ack(&mut extra, 20 + round * 100, round, 1), 30);
    }
    let last = (6..20).map(|round| ack(&mut extra, 20 + round * 100, round, 1)).last();
    assert_eq!(last, Some(1));
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Sent { idle: bool },
    Ack { micros: u64, bytes: u64, rate: Option<u64>, rtt: Option<u64>, app_limited: bool, lost: u64 },
    PacketLost { flight: u64, lost: u64, begins_event: bool },
    Mark,
    Undo,
    Persistent,
    Restart(u64),
    Size(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let ack = (
        0u64..2_000_000,
        1u64..500_000,
        prop::option::of(any::<u64>()),
        prop::option::of(1u64..2_000_000),
        any::<bool>(),
        0u64..20,
    );
    prop_oneof![
        5 => any::<bool>().prop_map(|idle| Step::Sent { idle }),
        20 => ack.prop_map(|(micros, bytes, rate, rtt, app_limited, lost)| {
            Step::Ack { micros, bytes, rate, rtt, app_limited, lost }
        }),
        5 => (1u64..2000, 1u64..300, any::<bool>())
            .prop_map(|(flight, lost, begins_event)| Step::PacketLost { flight, lost, begins_event }),
        2 => Just(Step::Mark),
        2 => Just(Step::Undo),
        1 => Just(Step::Persistent),
        1 => any::<u64>().prop_map(Step::Restart),
        1 => (500u16..65_000).prop_map(Step::Size),
    ]
}

proptest! {
    #[test]
    fn under_any_events_the_window_has_two_datagrams_and_packets_may_leave(
        seed in any::<u64>(), steps in proptest::collection::vec(step(), 1..300)
    ) {
        let mut bbr = Bbr::new(&ControllerConfig { seed, ..ControllerConfig::new(1200) });
        let (mut now, mut size, mut delivered, mut number) = (at(0), 1200, ByteCount::ZERO, 0);
        for step in steps {
            match step {
                Step::Sent { idle } => bbr.on_sent(&SentSample {
                    now,
                    packet_number: number,
                    bytes: SIZE,
                    in_flight: if idle { ByteCount::ZERO } else { SIZE * 5 },
                    app_limited: idle,
                }),
                Step::Ack { micros, bytes, rate, rtt, app_limited, lost } => {
                    now += Duration::from_micros(micros);
                    number += 1;
                    let before = delivered;
                    delivered += ByteCount(bytes);
                    bbr.on_ack(&AckSample {
                        now,
                        bytes: ByteCount(bytes),
                        latest_rtt: rtt.map(Duration::from_micros),
                        delivery_rate: rate.map(Rate::from_bytes_per_second),
                        app_limited,
                        delivered,
                        delivered_at_sent: before,
                        lost_since_sent: SIZE * lost,
                        gaps_since_sent: lost,
                        ..sample()
                    }, &[]);
                }
                Step::PacketLost { flight, lost: count, begins_event } => {
                    bbr.on_packet_lost(&LostPacketSample { now, delivered, begins_event, ..lost(flight, count) });
                }
                Step::Mark => bbr.on_mark(now, SIZE * 3),
                Step::Undo => bbr.on_spurious_loss(now),
                Step::Persistent => bbr.on_persistent_congestion(now),
                Step::Restart(bytes) => bbr.on_restart(now, ByteCount(bytes)),
                Step::Size(bytes) => {
                    size = u64::from(bytes);
                    bbr.on_max_datagram(bytes);
                }
            }
            prop_assert!(bbr.window() >= ByteCount(2 * size));
            prop_assert!(bbr.pacing_rate(MS * 20) > Rate::ZERO);
        }
    }

    #[test]
    fn excessive_is_more_than_two_percent_and_more_losses_are_no_less(
        flight in 1u64..20_000, gaps in 0u64..2000
    ) {
        if excessive(flight, gaps) {
            prop_assert!(gaps * 50 > flight);
            prop_assert!(excessive(flight, gaps + 1));
        }
    }

    #[test]
    fn the_flight_at_loss_agrees_with_the_formula_of_the_draft(flight in 1u64..20_000, share in 0u64..=100) {
        let count = (flight * share / 100).max(1);
        let (before, lost_before) = ((flight - 1) as f64 * 1200.0, (count - 1) as f64 * 1200.0);
        let expected = before + (0.02 * before - lost_before) / 0.98;
        let found = flight_at_loss(&lost(flight, count)).get() as f64;
        prop_assert!((found - expected.max(0.0)).abs() <= 4.0, "{found}, not {expected}");
    }

    #[test]
    fn bounds_never_shrink_by_more_than_three_tenths_in_a_round_nor_below_the_delivered_bytes(
        rate in 1u64..10_000_000_000, window in 2400u64..100_000_000, delivered in 0u64..10_000_000,
        measured in prop::option::of(0u64..10_000_000_000)
    ) {
        let mut signals = Signals::default();
        let measured = measured.map(Rate::from_bytes_per_second);
        signals.on_ack(&AckSample {
            delivered: ByteCount(delivered),
            delivered_at_sent: ByteCount::ZERO,
            delivery_rate: measured,
            ..sample()
        }, SIZE);
        let (bandwidth, window) = (Rate::from_bytes_per_second(rate), ByteCount(window));
        let mut bounds = Bounds::UNLIMITED;
        for _ in 0..3 {
            let before = bounds;
            bounds.shrink(&signals, bandwidth, window);
            prop_assert!(bounds.rate >= before.rate.min(bandwidth).scaled(7, 10));
            prop_assert!(bounds.recent_flight >= before.recent_flight.min(window) * 7 / 10);
            prop_assert!(bounds.rate >= measured.unwrap_or_default());
            prop_assert!(bounds.recent_flight >= ByteCount(delivered));
        }
        bounds.forget_recent();
        prop_assert_eq!(bounds, Bounds::UNLIMITED);
    }
}
