use manyway_lab::campaign::{self, Case, Way};
use manyway_lab::gates::{self, Contest, Gate};
use manyway_lab::outcome::Flow;
use manyway_lab::scenario::{Library, Traffic};
use manyway_lab::simulated::Simulated;
use manyway_lab::{Runner as _, Scenario, Stop};
use manyway_sim::nightly::{few_or_many, is_nightly};
use manyway_sim::scenario::SECOND;

use super::Unwatched;

/// Different rates, different delays, loss, a mesh, jitter, a satellite: gate 1 on few short runs, with alternating
/// directions. `manyway-lab sim gates` runs all of them twenty times.
#[test]
fn all_routes_together_are_never_below_the_best_one_alone() {
    let library = Library::builtin().unwrap();
    let names = ["80-10", "rtt-10-100", "wifi-lte", "ams-mesh", "jit-20", "lte-geo"];
    let case = |(place, name): (usize, &&str)| -> (Scenario, Way) {
        let scenario = library.find(name).unwrap().remove(0).with_duration(few_or_many(3, 5) * SECOND);
        if place % 2 == 0 { (scenario, Way::AsWritten) } else { (scenario.reversed(), Way::Reversed) }
    };
    let scenarios: Vec<_> = names.iter().enumerate().map(case).collect();
    // Messages beside bulk are for the gate of latency.
    let judged = judged(&scenarios, Gate::BestLink, 1, |case| case.contenders.len() > 1);
    assert_eq!(judged, names.len());
}

/// Deaths, also in one direction only, in front of long queues, and an address that changes every two seconds.
#[test]
fn no_failure_is_noticeable() {
    let library = Library::builtin().unwrap();
    // The black hole is reviewed separately.
    let names = ["return-dead", "readdressed", "dead-deep", "flaps", "black-hole"];
    let names = &names[..few_or_many(2, 5)];
    let scenarios: Vec<_> =
        names.iter().map(|name| (library.find(name).unwrap().remove(0), Way::AsWritten)).collect();
    let judged = judged(&scenarios, Gate::Failover, 1, |_| true);
    // The silence; how soon the others are full, how soon all are again, and when the returned route is used and full.
    assert_eq!(judged, few_or_many(6, 20));
}

/// A hundred small messages a second beside bulk traffic that fills queues of 100 ms, and messages with a deadline.
#[test]
fn messages_take_hardly_longer_than_without_other_traffic() {
    let library = Library::builtin().unwrap();
    let scenarios: Vec<_> = ["rtt-10-100", "telemetry"]
        .iter()
        .map(|name| (library.find(name).unwrap().remove(0), Way::AsWritten))
        .collect();
    // Of 6000 messages 99.9 % are all but six, and two copies at 2 % loss lose two or three of them in each run: in
    // about one run in twenty they and their successors are six.
    let judged = judged(&scenarios, Gate::Latency, few_or_many(3, 5), |case| {
        ["rtt-10-100+messages", "telemetry"].contains(&case.scenario.name.as_str())
    });
    // With a deadline also their cost.
    assert_eq!(judged, 1 + 2);
}

/// MMSP/1 with the scheduler and the congestion control of MMSP/2, both ways, in every scenario without losses, events and
/// traffic of others. Which pairs of addresses become paths is a matter of MMSP/2 where a host can
/// choose.
#[test]
fn mmsp1_has_the_goodput_of_mmsp2_in_every_scenario_without_losses() {
    if !is_nightly() {
        return;
    }
    let library = Library::builtin().unwrap();
    let is_plain = |scenario: &&Scenario| {
        let has_bulk = scenario.traffic.iter().any(|traffic| matches!(traffic, Traffic::Bulk { .. }));
        let is_calm = scenario.events.is_empty() && scenario.cross_traffic.is_empty();
        let has_choice = scenario.name == "ams-mesh";
        has_bulk && is_calm && !scenario.has_loss() && !has_choice && !scenario.blocks_udp()
    };
    let plain: Vec<&Scenario> = library.all().iter().filter(is_plain).collect();
    assert!(plain.len() > 10, "{}", plain.len());
    for scenario in plain {
        let scenario = scenario.clone().with_duration(20 * SECOND);
        for scenario in [scenario.clone(), scenario.reversed()] {
            let goodput = |name: &str| {
                let contender = name.parse().unwrap();
                let outcome = Simulated::new().run(&scenario, &contender, 1).unwrap();
                assert_eq!(outcome.failure, None, "{}: {name}", scenario.name);
                let rate = |flow: &Flow| flow.arrivals.goodput().bits_per_second();
                outcome.flows.iter().filter(|flow| flow.latencies.is_none()).map(rate).sum::<u64>()
            };
            let mmsp2 = goodput("manyway");
            let mmsp1 = goodput("manyway:wire=mmsp1,detection=fast,scheduler=earliest,congestion=bbr");
            assert!(mmsp1 * 100 >= mmsp2 * 95, "{}: {mmsp1} and {mmsp2} bit/s", scenario.name);
        }
    }
}

/// Runs the `wanted` cases of the plan this many times; returns how many comparisons of a gate there were, all passed.
#[track_caller]
fn judged(
    scenarios: &[(Scenario, Way)],
    gate: Gate,
    repetitions: u32,
    wanted: impl Fn(&Case) -> bool,
) -> usize {
    let mut plan = gates::plan(scenarios, Contest::Simulated).unwrap();
    plan.repetitions = repetitions;
    plan.cases.retain(wanted);
    let results = campaign::run(plan, &mut Simulated::new(), &mut Unwatched, &Stop::default());
    let verdicts = gates::judge(&results);
    let judged: Vec<_> = verdicts.judged.iter().filter(|verdict| verdict.gate == gate).collect();
    let short: Vec<_> = judged.iter().filter(|verdict| !verdict.judgement.has_passed()).collect();
    assert!(short.is_empty(), "{short:#?} {:?}", verdicts.unjudged);
    judged.len()
}
