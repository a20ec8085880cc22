use std::time::Duration;

use super::*;
use crate::Stop;
use crate::campaign::tests::{Scripted, Silent, plan as campaign_plan};
use crate::campaign::{self, Plan, Way};
use crate::scenario::{Change, Direction, Event, Library};

/// A campaign over two links of 50 Mbit/s in which contenders reach these rates, in the order of `who`.
fn results(who: &[&str], megabits: &[f64]) -> Results {
    results_in("two-50", who, megabits)
}

fn results_in(scenario: &str, who: &[&str], megabits: &[f64]) -> Results {
    let plan = campaign_plan(&[scenario], who, 3);
    // The best route is found by running both.
    let runs = |(who, megabits): (&&str, &f64)| {
        std::iter::repeat_n(*megabits, if *who == "manyway-best" { 2 } else { 1 })
    };
    let megabits = (0..3).flat_map(|_| who.iter().zip(megabits).flat_map(runs)).collect();
    let mut runner = Scripted { megabits, ..Scripted::default() };
    campaign::run(plan, &mut runner, &mut Silent::default(), &Stop::default())
}

fn of(verdicts: &Verdicts, gate: Gate) -> Vec<&Verdict> {
    verdicts.judged.iter().filter(|verdict| verdict.gate == gate).collect()
}

#[test]
fn a_result_as_good_as_all_others_passes() {
    let results = results(&["manyway", "manyway-best", "possible", "mptcp-cubic"], &[95.0, 48.0, 96.0, 94.0]);
    let verdicts = judge(&results);
    assert!(verdicts.have_passed(), "{verdicts:?}");
    assert_eq!(of(&verdicts, Gate::BestLink).len(), 1);
    assert_eq!(of(&verdicts, Gate::Aggregation).len(), 2);
}

#[test]
fn a_contender_below_the_best_link_fails_with_its_shortfall() {
    let results = results(&["manyway", "manyway-best"], &[24.0, 48.0]);
    let verdicts = judge(&results);
    assert!(!verdicts.have_passed());
    let Judgement::Short { lacks } = of(&verdicts, Gate::BestLink)[0].judgement else {
        panic!("{verdicts:?}")
    };
    assert!((lacks - (1.0 - 24.0 / (48.0 * 0.95))).abs() < 0.01, "{lacks}");
    insta::assert_snapshot!(text(&verdicts));
}

#[test]
fn aggregation_asks_for_97_percent_of_what_is_possible_and_for_every_multipath_tcp() {
    let fails = |manyway: f64, possible: f64, mptcp: f64| {
        let results = results(&["manyway", "possible", "mptcp-bbr"], &[manyway, possible, mptcp]);
        let verdicts = judge(&results);
        let failed =
            of(&verdicts, Gate::Aggregation).into_iter().filter(|verdict| !verdict.judgement.has_passed());
        failed.map(|verdict| verdict.goal.clone()).collect::<Vec<_>>()
    };
    assert_eq!(fails(93.2, 96.0, 90.0), Vec::<String>::new());
    assert_eq!(fails(92.0, 96.0, 90.0), ["0.97 × possible"]);
    assert_eq!(fails(93.2, 96.0, 94.0), ["1 × mptcp-bbr"]);
}

#[test]
fn fades_are_held_to_97_percent_wherever_more_than_80_percent_of_the_links_is_possible() {
    let goals = |manyway: f64, possible: f64| {
        let results = results_in("fades-near", &["manyway", "possible"], &[manyway, possible]);
        let verdicts = judge(&results);
        let all = of(&verdicts, Gate::Aggregation).into_iter();
        all.map(|verdict| (verdict.goal.clone(), verdict.judgement.has_passed())).collect::<Vec<_>>()
    };
    assert_eq!(goals(70.0, 72.0), [("0.97 × possible".to_owned(), true)]);
    assert_eq!(goals(69.0, 72.0), [("0.97 × possible".to_owned(), false)]);
    assert_eq!(goals(50.0, 63.0), []);
}

#[test]
fn a_silence_of_a_dead_route_and_its_return_are_judged() {
    let mut plan = campaign_plan(&["two-50"], &["manyway"], 1);
    let second = Duration::from_secs(1);
    let scenario = &mut plan.cases[0].scenario;
    scenario.events = vec![
        Event { at: 4 * second, change: Change::Cut { link: 0, direction: Direction::Both } },
        Event { at: 8 * second, change: Change::Restore { link: 0, direction: Direction::Both } },
    ];
    let mut runner = Scripted { megabits: vec![90.0], ..Scripted::default() };
    let results = campaign::run(plan, &mut runner, &mut Silent::default(), &Stop::default());
    let verdicts = judge(&results);
    let failover = of(&verdicts, Gate::Failover);
    assert_eq!(failover.len(), 5);
    // Two links of 20 ms: twice 20 ms and 25 ms are less than 100 ms.
    let limits: Vec<f64> = failover.iter().map(|verdict| verdict.limit).collect();
    assert_eq!(limits, [0.1, 0.5, 2.0, 2.0, 2.0]);
    assert!(failover.iter().all(|verdict| verdict.judgement.has_passed()), "{failover:?}");
    let slow = Scenario { links: results.plan.cases[0].scenario.links.clone(), ..scenario_of("rtt-120") };
    assert_eq!(silence_limit(&slow, &[0]), Duration::from_millis(100));
    let far = scenario_of("rtt-320");
    assert_eq!(silence_limit(&far, &[0, 1]), Duration::from_millis(2 * (320 + 25)));
}

#[test]
fn a_silence_while_addresses_change_is_judged() {
    let judged = |silence| {
        let plan = campaign_plan(&["readdressed"], &["manyway"], 1);
        let mut results =
            campaign::run(plan, &mut Scripted::default(), &mut Silent::default(), &Stop::default());
        results.runs.iter_mut().for_each(|run| run.measures.silence = Duration::from_millis(silence));
        let verdicts = judge(&results);
        let failover = of(&verdicts, Gate::Failover);
        assert_eq!(failover.len(), 1);
        failover[0].judgement.has_passed()
    };
    assert!(judged(100) && !judged(101));
}

#[test]
fn messages_are_judged_beside_bulk_traffic_only() {
    let library = Library::builtin().unwrap();
    let scenarios = vec![(library.find("two-50").unwrap().remove(0), Way::AsWritten)];
    let plan = plan(&scenarios, Contest::Simulated).unwrap();
    let names: Vec<String> = plan.cases.iter().map(Case::label).collect();
    assert_eq!(names, ["two-50", "two-50+messages", "two-50+both"]);
    assert_eq!((plan.repetitions, plan.cases[1].contenders.len()), (20, 1));
    let mut results = campaign::run(plan, &mut Scripted::default(), &mut Silent::default(), &Stop::default());
    assert!(of(&judge(&results), Gate::Latency).is_empty());
    for run in results.runs.iter_mut().filter(|run| run.case == 1) {
        let p99 = Some(Duration::from_millis(29));
        run.measures.messages =
            Some(measures::MessageFigures { arrived: 100, missing: 0, median: p99, p99, p999: p99 });
    }
    let verdicts = judge(&results);
    let latency = of(&verdicts, Gate::Latency);
    assert!(latency.len() == 1 && latency[0].judgement.has_passed(), "{latency:?}");
    assert!((latency[0].limit - 0.030).abs() < 1e-9);
    results.runs.iter_mut().filter_map(|run| run.measures.messages.as_mut()).for_each(|one| one.p99 = None);
    assert!(!judge(&results).have_passed(), "a message that never came fails");
}

#[test]
fn a_failed_run_fails_and_a_missing_run_is_reported() {
    let mut results = results(&["manyway", "manyway-best"], &[95.0, 48.0]);
    results.runs[0].failure = Some("connection reset".to_owned());
    assert!(!judge(&results).have_passed());
    results.runs.clear();
    let verdicts = judge(&results);
    assert!(!verdicts.have_passed(), "nothing was judged");
    assert_eq!(verdicts.unjudged.len(), 4);
    assert_eq!(json(&verdicts)["passed"], false);
}

#[test]
fn the_spread_excuses_a_median_on_real_sockets_alone() {
    let mut results = results(&["manyway", "manyway-best"], &[95.0, 95.0]);
    for (run, megabits) in results.runs.iter_mut().filter(|run| run.contender == 0).zip([80, 82, 99]) {
        run.measures.goodput = manyway_proto::Rate::from_bits_per_second(megabits * 1_000_000);
    }
    let verdict = |results: &Results| of(&judge(results), Gate::BestLink)[0].judgement;
    assert!(matches!(verdict(&results), Judgement::Short { .. }), "{:?}", verdict(&results));
    results.plan.timing = Timing::Real;
    assert!(matches!(verdict(&results), Judgement::WithinSpread { .. }), "{:?}", verdict(&results));
}

#[test]
fn a_failed_reference_sets_no_limit() {
    let mut results = results(&["manyway", "manyway-best", "mptcp-bbr"], &[50.0, 48.0, 95.0]);
    let broken = |results: &mut Results, who: usize, count: usize| {
        for run in results.runs.iter_mut().filter(|run| run.contender == who).take(count) {
            run.failure = Some("nothing arrived at the server".to_owned());
            run.measures.goodput = manyway_proto::Rate::ZERO;
        }
    };
    broken(&mut results, 2, 2);
    let verdicts = judge(&results);
    assert!(
        !of(&verdicts, Gate::Aggregation)[0].judgement.has_passed(),
        "the sound run counts: {verdicts:?}"
    );
    broken(&mut results, 2, 3);
    let verdicts = judge(&results);
    assert!(of(&verdicts, Gate::Aggregation).is_empty() && verdicts.have_passed(), "{verdicts:?}");
    assert_eq!(verdicts.unjudged[0].reason, "mptcp-bbr broke down in every run");
    broken(&mut results, 1, 3);
    assert!(!judge(&results).have_passed(), "our own best route may not break down");
}

#[test]
fn a_return_too_short_to_judge_is_reported() {
    let mut plan = campaign_plan(&["black-hole"], &["manyway"], 1);
    let case = &mut plan.cases[0];
    case.scenario = case.scenario.clone().with_duration(Duration::from_secs(3));
    let mut results = campaign::run(plan, &mut Scripted::default(), &mut Silent::default(), &Stop::default());
    // A route that was used in it is judged, however short it was.
    assert_eq!(of(&judge(&results), Gate::Failover).len(), 2);
    for recovery in &mut results.runs[0].measures.recoveries {
        recovery.used = None;
    }
    let verdicts = judge(&results);
    assert_eq!(of(&verdicts, Gate::Failover).len(), 1, "the silence is judged: {verdicts:?}");
    let reason = &verdicts.unjudged[0].reason;
    assert!(reason.starts_with("too short") && reason.ends_with("1 of 1 returns"), "{reason}");
}

#[test]
fn messages_are_never_sent_without_bulk_beside_them() {
    let scenarios = vec![(scenario_of("flows-30-10"), Way::AsWritten)];
    let plan = plan(&scenarios, Contest::Real).unwrap();
    let sizes: Vec<_> = plan.cases.iter().map(|case| case.scenario.traffic[0]).collect();
    assert!(matches!(sizes[0], Traffic::Bulk { size: Some(_), .. }), "{sizes:?}");
    assert!(matches!(sizes[1], Traffic::Bulk { size: None, .. }), "{sizes:?}");
}

#[test]
fn both_directions_at_once_are_compared_with_one_alone() {
    let judged = |slower: u64| {
        let plan = plan(&[(scenario_of("two-50"), Way::AsWritten)], Contest::Simulated).unwrap();
        let mut results =
            campaign::run(plan, &mut Scripted::default(), &mut Silent::default(), &Stop::default());
        for run in &mut results.runs {
            let megabits = if run.case == 2 { slower } else { 90 };
            run.measures.goodput = manyway_proto::Rate::from_bits_per_second(90 * 1_000_000);
            run.measures.slowest = manyway_proto::Rate::from_bits_per_second(megabits * 1_000_000);
        }
        let verdicts = judge(&results);
        let [verdict] = of(&verdicts, Gate::Aggregation)[..] else { panic!("{verdicts:?}") };
        assert_eq!((verdict.case.as_str(), verdict.limit), ("two-50+both", 81.0));
        verdict.judgement.has_passed()
    };
    assert!(judged(81) && !judged(80));
}

#[test]
fn both_directions_are_planned_for_symmetric_links() {
    let cases = |name: &str, way| {
        let plan = plan(&[(scenario_of(name), way)], Contest::Real).unwrap();
        plan.cases.iter().map(Case::label).collect::<Vec<_>>()
    };
    assert_eq!(cases("two-50", Way::Reversed), ["two-50 (reversed)", "two-50+messages (reversed)"]);
    assert_eq!(cases("black-hole", Way::AsWritten), ["black-hole"]);
    let mut scenario = scenario_of("two-50");
    scenario.links[0].down.rate = scenario_of("80-20").links[1].down.rate.clone();
    let plan = plan(&[(scenario, Way::AsWritten)], Contest::Real).unwrap();
    assert_eq!(plan.cases.len(), 2);
}

#[test]
fn messages_with_a_deadline_go_twice_in_time_and_take_so_much_more() {
    let judged = |p999: Option<u64>, bytes: u64| {
        let plan = plan(&[(scenario_of("telemetry"), Way::AsWritten)], Contest::Real).unwrap();
        assert_eq!(plan.cases.len(), 1);
        let mut results =
            campaign::run(plan, &mut Scripted::default(), &mut Silent::default(), &Stop::default());
        for run in &mut results.runs {
            let time = p999.map(Duration::from_millis);
            let figures =
                measures::MessageFigures { arrived: 100, missing: 0, median: time, p99: time, p999: time };
            run.measures.messages = Some(figures);
            run.measures.routes =
                vec![manyway_proto::ByteCount(if run.contender == 0 { 1_000 } else { bytes })];
        }
        let verdicts = judge(&results);
        let latency = of(&verdicts, Gate::Latency);
        assert_eq!(latency.len(), 2);
        // One-way delay of the faster one: 10 ms.
        assert!((latency[0].limit - 0.025).abs() < 1e-9 && (latency[1].limit - 0.0021).abs() < 1e-12);
        [latency[0], latency[1]].map(|verdict| verdict.judgement.has_passed())
    };
    assert_eq!(judged(Some(25), 2_100), [true, true]);
    assert_eq!(judged(Some(26), 2_101), [false, false]);
    assert_eq!(judged(None, 1_000), [false, true]);
}

#[test]
fn where_udp_is_blocked_set_up_silence_and_goodput_are_judged() {
    let judged = |name: &str, milliseconds: u64, megabits: f64| {
        let plan = plan(&[(scenario_of(name), Way::AsWritten)], Contest::Real).unwrap();
        let mut runner = Scripted { megabits: vec![megabits, 100.0], ..Scripted::default() };
        let mut results = campaign::run(
            Plan { repetitions: 1, repeats_disturbed: false, ..plan },
            &mut runner,
            &mut Silent::default(),
            &Stop::default(),
        );
        for run in &mut results.runs {
            run.measures.silence = Duration::from_millis(milliseconds);
            run.measures.set_up = Some(Duration::from_millis(milliseconds));
        }
        let verdicts = judge(&results);
        let all = verdicts.judged.iter();
        all.map(|verdict| (verdict.goal.clone(), verdict.judgement.has_passed())).collect::<Vec<_>>()
    };
    let (share, set_up) = ("0.95 × possible".to_owned(), "set-up without UDP".to_owned());
    let silence = "longest stall when UDP is blocked".to_owned();
    assert_eq!(judged("udp-blocked", 1000, 96.0), [(share.clone(), true), (set_up.clone(), true)]);
    assert_eq!(judged("udp-blocked", 1001, 94.0), [(share.clone(), false), (set_up, false)]);
    assert_eq!(judged("udp-blocked-one", 1001, 96.0), [(share, true)]);
    assert_eq!(judged("udp-blocked-midway", 1000, 50.0), [(silence.clone(), true)]);
    assert_eq!(judged("udp-blocked-midway", 1001, 50.0), [(silence, false)]);
    let scenarios = [(scenario_of("udp-blocked"), Way::AsWritten)];
    assert!(plan(&scenarios, Contest::Simulated).unwrap().cases.is_empty());
}

fn scenario_of(name: &str) -> Scenario {
    Library::builtin().unwrap().find(name).unwrap().remove(0)
}
