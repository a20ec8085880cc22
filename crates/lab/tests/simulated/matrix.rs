use std::time::Duration;

use manyway_lab::campaign::{self, Case, Course, Plan, Timing, Way};
use manyway_lab::scenario::Library;
use manyway_lab::simulated::Simulated;
use manyway_lab::{Contender, Scenario, Stop, report};
use manyway_proto::scheduler;
use manyway_sim::nightly::few_or_many;

use super::Unwatched;

/// The output of `manyway-lab sim matrix SCENARIOS -t TIME --congestions CONGESTION`.
fn matrix(scenarios: &[Scenario], time: Duration, congestion: &str, ways: &[Way]) -> String {
    let pair = |name: &str| format!("manyway:scheduler={name},congestion={congestion}");
    let names = std::iter::once(format!("manyway-best:congestion={congestion}"));
    let contenders: Vec<Contender> =
        names.chain(scheduler::names().map(pair)).map(|name| name.parse().unwrap()).collect();
    let case = |scenario: &Scenario, way| {
        let scenario = scenario.clone().with_duration(time);
        let scenario = if way == Way::Reversed { scenario.reversed() } else { scenario };
        Case { scenario, way, contenders: contenders.clone() }
    };
    let plan = Plan {
        cases: scenarios
            .iter()
            .flat_map(|scenario| ways.iter().map(move |way| (scenario, *way)))
            .map(|(scenario, way)| case(scenario, way))
            .collect(),
        repetitions: 1,
        seed: 1,
        timing: Timing::Virtual,
        budget: None,
        repeats_disturbed: true,
        course: Course::Dropped,
    };
    report::matrix(&campaign::run(plan, &mut Simulated::new(), &mut Unwatched, &Stop::default()))
}

/// A change of a scheduler shows here: over every fourth scenario, nightly over all.
#[test]
fn the_matrix_of_schedulers_over_unequal_paths_is_as_reviewed() {
    let scenarios = Library::builtin().unwrap().find("unequal").unwrap();
    let scenarios: Vec<_> = scenarios.into_iter().step_by(few_or_many(4, 1)).collect();
    let name = few_or_many("every-fourth-unequal-scenario", "all-unequal-scenarios");
    insta::assert_snapshot!(name, matrix(&scenarios, Duration::from_secs(2), "cubic", &[Way::AsWritten]));
}

/// The same under the default, from the server, nightly in both directions, over the kinds of inequality: of rates, of
/// delays and of queues.
#[test]
fn the_matrix_of_schedulers_under_bbr_is_as_reviewed() {
    let library = Library::builtin().unwrap();
    let names = ["rate-4to1", "delay-10to1", "deep-queue"];
    let scenarios: Vec<Scenario> = names.iter().flat_map(|name| library.find(name).unwrap()).collect();
    let ways = [Way::AsWritten, Way::Reversed];
    let ways = &ways[few_or_many(1, 0)..];
    let name = few_or_many("bbr-from-the-server", "bbr-both-ways");
    insta::assert_snapshot!(name, matrix(&scenarios, Duration::from_millis(1500), "bbr", ways));
}
