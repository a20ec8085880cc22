use std::time::Duration;

use super::*;
use crate::campaign::tests::{each_tick, even};
use crate::outcome::{Arrivals, CpuTime};
use crate::scenario::{Change, Direction, Event, Library, Side, Traffic};

fn scenario() -> Scenario {
    Library::builtin().unwrap().find("two-50").unwrap().remove(0).with_duration(Duration::from_secs(10))
}

/// Bytes arrive every 10 ms at this many Mbit/s in each of these times, in milliseconds.
fn arrivals(parts: &[(u64, u64, f64)]) -> Arrivals {
    let mut arrivals = Arrivals::default();
    for (from, to, megabits) in parts {
        let each = each_tick(*megabits);
        (*from..*to).step_by(10).for_each(|millis| arrivals.record(Duration::from_millis(millis), each));
    }
    arrivals
}

fn near(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= expected * 0.01
}

#[test]
fn goodput_is_counted_from_first_to_last_byte() {
    let scenario = scenario();
    let mut outcome = even(&scenario, 90.0);
    outcome.flows[0].arrivals = arrivals(&[(500, 10_000, 90.0)]);
    let measures = Measures::of(&scenario, &outcome);
    assert!(near(measures.megabits(), 90.0), "{}", measures.goodput);
    assert_eq!(measures.silence, Duration::from_millis(10));
}

#[test]
fn a_flow_that_falls_silent_is_counted_until_the_end() {
    let scenario = scenario();
    let mut outcome = even(&scenario, 90.0);
    outcome.flows[0].arrivals = arrivals(&[(0, 5_000, 90.0)]);
    let measures = Measures::of(&scenario, &outcome);
    assert!(near(measures.megabits(), 45.0), "{}", measures.goodput);
    assert_eq!(measures.silence, Duration::from_millis(5_010));
    outcome.flows[0].arrivals = Arrivals::default();
    let nothing = Measures::of(&scenario, &outcome);
    assert_eq!((nothing.goodput, nothing.silence), (Rate::ZERO, Duration::from_secs(10)));
}

#[test]
fn each_parallel_connection_is_counted_over_its_own_time() {
    let scenario = scenario();
    let mut outcome = even(&scenario, 90.0);
    // The slow one still has two seconds in its buffers when the fast one is done; the third dies half-way.
    let mut arrivals = Arrivals::default();
    for millis in (0..12_000).step_by(10) {
        for (lane, megabits, until) in [(0, 80.0, 10_000), (1, 10.0, 12_000), (2, 20.0, 5_000)] {
            if millis < until {
                arrivals.record_on(lane, Duration::from_millis(millis), each_tick(megabits));
            }
        }
    }
    outcome.flows[0].arrivals = arrivals;
    let measures = Measures::of(&scenario, &outcome);
    assert!(near(measures.megabits(), 80.0 + 10.0 + 10.0), "{}", measures.goodput);
}

#[test]
fn a_flow_that_ends_as_it_should_does_not_stall_beside_one_that_goes_on() {
    let mut scenario = scenario();
    let rest =
        Traffic::Bulk { direction: Direction::Up, size: Some(ByteCount(1_000_000)), rate: None, chunk: None };
    scenario.traffic.push(rest);
    let mut outcome = even(&scenario, 50.0);
    let mut short = outcome.flows[0].clone();
    short.arrivals = arrivals(&[(0, 2_000, 40.0)]);
    outcome.flows.push(short);
    let measures = Measures::of(&scenario, &outcome);
    assert!(near(measures.megabits(), 90.0), "{}", measures.goodput);
    assert_eq!(measures.silence, Duration::from_millis(10));
    // The other way round the endless one stalls.
    scenario.traffic.reverse();
    assert_eq!(Measures::of(&scenario, &outcome).silence, Duration::from_millis(8_010));
}

#[test]
fn the_slowest_of_several_flows_is_reported() {
    let mut scenario = scenario();
    scenario.traffic[0] = Traffic::Bulk { direction: Direction::Both, size: None, rate: None, chunk: None };
    let mut outcome = even(&scenario, 50.0);
    let mut back = outcome.flows[0].clone();
    back.receiver = Side::Client;
    back.arrivals = arrivals(&[(0, 10_000, 40.0)]);
    outcome.flows.push(back);
    let measures = Measures::of(&scenario, &outcome);
    assert!(near(measures.megabits(), 90.0) && near(megabits(measures.slowest), 40.0), "{measures:?}");
}

#[test]
fn traffic_that_fills_no_route_says_nothing_about_their_use() {
    let mut scenario = scenario();
    let at = |seconds, change| Event { at: Duration::from_secs(seconds), change };
    let direction = Direction::Both;
    scenario.events =
        vec![at(3, Change::Cut { link: 0, direction }), at(6, Change::Restore { link: 0, direction })];
    scenario.traffic[0] = Traffic::Bulk {
        direction: Direction::Up,
        size: None,
        rate: Some(Rate::from_bits_per_second(1)),
        chunk: None,
    };
    let measures = Measures::of(&scenario, &even(&scenario, 0.1));
    assert_eq!((measures.used_again(), measures.recovery(), measures.untold_returns()), (None, None, (0, 0)));
    assert_eq!(measures.recoveries.len(), 2);
}

#[test]
fn missing_messages_are_the_slowest() {
    let scenario = scenario();
    let mut outcome = even(&scenario, 1.0);
    let mut messages = outcome.flows[0].clone();
    messages.latencies = Some((1..=98).map(Duration::from_millis).collect());
    messages.missing = 1;
    outcome.flows.push(messages.clone());
    let figures = Measures::of(&scenario, &outcome).messages.unwrap();
    assert_eq!((figures.arrived, figures.missing), (98, 1));
    assert_eq!(figures.median, Some(Duration::from_millis(50)));
    assert_eq!(figures.p99, None, "99 % of 99 is the last, which never came");
    messages.latencies = Some((1..=1_999).map(Duration::from_millis).collect());
    outcome.flows[1] = messages.clone();
    let figures = Measures::of(&scenario, &outcome).messages.unwrap();
    assert_eq!(
        (figures.p999, figures.p99),
        (Some(Duration::from_millis(1_998)), Some(Duration::from_millis(1_980)))
    );
    messages.latencies = Some((1..=98).map(Duration::from_millis).collect());
    messages.missing = 0;
    outcome.flows[1] = messages;
    let figures = Measures::of(&scenario, &outcome).messages.unwrap();
    assert_eq!(figures.p99, Some(Duration::from_millis(98)));
    assert!(near(Measures::of(&scenario, &outcome).megabits(), 1.0), "messages do not count beside bulk");
}

#[test]
fn processor_time_is_the_sum_of_both_ends_per_gigabyte() {
    let scenario = scenario();
    let mut outcome = even(&scenario, 80.0);
    outcome.cpu = Some(CpuTime { client: Duration::from_millis(60), server: Duration::from_millis(40) });
    let measures = Measures::of(&scenario, &outcome);
    assert!(near(measures.cpu_per_gigabyte().unwrap(), 1.0), "{measures:?}");
}

#[test]
fn a_loss_and_a_return_have_silence_use_and_recovery() {
    let mut scenario = scenario();
    let at = |seconds, change| Event { at: Duration::from_secs(seconds), change };
    scenario.events = vec![
        at(3, Change::Cut { link: 0, direction: Direction::Up }),
        at(6, Change::Restore { link: 0, direction: Direction::Up }),
    ];
    let mut outcome = even(&scenario, 90.0);
    outcome.flows[0].arrivals = arrivals(&[(0, 3_000, 90.0), (3_150, 6_400, 47.0), (6_400, 10_000, 90.0)]);
    outcome.routes[0].up = arrivals(&[(0, 3_000, 48.0), (6_300, 10_000, 48.0)]);
    let measures = Measures::of(&scenario, &outcome);
    let [died, returned] = measures.recoveries.as_slice() else { panic!("{measures:?}") };
    assert_eq!((died.fault, died.working, died.routes.as_slice()), (Fault::Died, 1, &[0][..]));
    assert_eq!((died.silence, died.watched), (Duration::from_millis(160), Duration::from_secs(3)));
    // After 160 ms of silence it is full, and on average over half a second from 110 ms on.
    assert!(died.full.is_some_and(|time| (90..=130).contains(&time.as_millis())), "{died:?}");
    assert_eq!((died.used, returned.fault, returned.working), (None, Fault::Returned, 2));
    // The window in which a tenth is reached ends at most 100 ms after the first byte.
    assert!(returned.used.is_some_and(|time| (300..=400).contains(&time.as_millis())), "{returned:?}");
    assert!(returned.full.is_some_and(|time| (300..=400).contains(&time.as_millis())), "{returned:?}");
    assert!(measures.used_again().is_some_and(|time| time < 0.41));
    // 48 of 50 Mbit/s from 300 ms on: 90 % over the half second that begins a little before.
    assert!(measures.restored().is_some_and(|time| (0.2..0.31).contains(&time)), "{returned:?}");
}

#[test]
fn what_never_recovers_is_endless_and_an_interface_that_goes_down_is_no_silent_death() {
    let mut scenario = scenario();
    let at = |seconds, change| Event { at: Duration::from_secs(seconds), change };
    let (side, interface) = (Side::Client, 0);
    scenario.events = vec![
        at(3, Change::InterfaceDown { side, interface }),
        at(6, Change::InterfaceUp { side, interface }),
    ];
    let mut outcome = even(&scenario, 90.0);
    outcome.flows[0].arrivals = arrivals(&[(0, 3_000, 90.0), (3_010, 10_000, 10.0)]);
    outcome.routes[0].up = arrivals(&[(0, 3_000, 48.0)]);
    let measures = Measures::of(&scenario, &outcome);
    assert_eq!(measures.recoveries[0].fault, Fault::WentDown);
    assert!(measures.recovery().is_some_and(f64::is_infinite));
    assert!(measures.used_again().is_some_and(f64::is_infinite));
    assert!(measures.restored().is_some_and(f64::is_infinite));
}

#[test]
fn each_return_shows_when_the_route_was_used_if_it_was_long_enough() {
    let mut scenario = scenario();
    let at = |millis, change| Event { at: Duration::from_millis(millis), change };
    let direction = Direction::Both;
    let (cut, restore) = (Change::Cut { link: 0, direction }, Change::Restore { link: 0, direction });
    let other = Change::Cut { link: 1, direction: Direction::Down };
    scenario.events = vec![
        at(1_000, cut.clone()),
        at(2_000, restore.clone()),
        at(3_000, cut.clone()),
        at(4_000, restore.clone()),
        at(5_000, cut),
        at(6_000, restore),
        // An event of another route leaves time to this one.
        at(7_000, other),
    ];
    let mut outcome = even(&scenario, 90.0);
    let mut used = |third| {
        outcome.routes[0].up = arrivals(&[(0, 1_000, 48.0), (2_700, 3_000, 48.0), (third, 10_000, 48.0)]);
        let measures = Measures::of(&scenario, &outcome);
        let stayed: Vec<_> = measures.returns().map(|returned| returned.stayed.as_secs()).collect();
        assert_eq!(stayed, [1, 1, 4]);
        (measures.untold_returns(), measures.used_again().unwrap())
    };
    let is_about = |time: f64, expected: f64| (expected..expected + 0.1001).contains(&time);
    let (untold, worst) = used(6_100);
    assert!(untold == (1, 3) && is_about(worst, 0.7), "{untold:?} {worst}");
    let (untold, worst) = used(7_500);
    assert!(untold == (1, 3) && is_about(worst, 1.5), "{untold:?} {worst}");
    outcome.routes[0].up = arrivals(&[(0, 1_000, 48.0)]);
    let never = Measures::of(&scenario, &outcome);
    assert!(never.untold_returns() == (2, 3) && never.used_again().is_some_and(f64::is_infinite));
}

#[test]
fn traffic_of_others_is_measured_over_its_own_time_and_so_is_the_contender_beside_it() {
    let text =
        "duration = '10s'\n[links.a]\n[[traffic]]\nby = 'tcp-reno'\ncount = 3\nat = '2s'\nfor = '4s'\n";
    let scenario = Scenario::parse("mine.toml", text, &|_| Err(std::io::ErrorKind::NotFound.into())).unwrap();
    let mut outcome = even(&scenario, 8.0);
    let mut others = Arrivals::default();
    for tick in 200..600 {
        others.record_on(0, Arrivals::BIN * tick, 1_250);
        others.record_on(1, Arrivals::BIN * tick, 2_500);
    }
    outcome.cross = vec![others];
    let figures = |outcome: &Outcome| Measures::of(&scenario, outcome).cross[0];
    let rates = |figures: CrossFigures| {
        let rates = [figures.goodput, figures.slowest, figures.fastest, figures.beside];
        rates.map(|rate| (rate.bits_per_second() + 500_000) / 1_000_000)
    };
    // The third flow got nothing.
    assert_eq!(rates(figures(&outcome)), [3, 0, 2, 8]);
    outcome.cross[0].record_on(2, Duration::from_secs(6), 500_000);
    assert_eq!(rates(figures(&outcome)), [4, 1, 2, 8]);
}
