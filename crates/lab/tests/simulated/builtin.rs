use std::time::Duration;

use manyway_lab::contender::ManywaySettings;
use manyway_lab::scenario::{Direction, Library, Traffic};
use manyway_lab::simulated::Simulated;
use manyway_lab::{Contender, Outcome, Runner as _, Scenario};
use manyway_proto::Rate;

fn run(scenario: &Scenario, seed: u64) -> Outcome {
    Simulated::new().run(scenario, &Contender::Manyway(ManywaySettings::default()), seed).unwrap()
}

/// The directions alternate, so that each is covered in every kind of scenario at half the cost.
#[test]
fn every_built_in_scenario_of_virtual_time_runs() {
    let library = Library::builtin().unwrap();
    let can_run = |scenario: &&Scenario| !scenario.blocks_udp();
    for (place, scenario) in library.all().iter().filter(can_run).enumerate() {
        // The packets of fast links take long to compute.
        let is_fast = scenario.sum(Direction::Up) > Rate::from_bits_per_second(200_000_000);
        let time = Duration::from_millis(if is_fast { 300 } else { 1000 });
        let short = scenario.clone().with_duration(time);
        let short = if place % 2 == 0 { short } else { short.reversed() };
        let outcome = run(&short, 3);
        assert_eq!(outcome.failure, None, "{}", scenario.name);
        assert_eq!(outcome.routes.len(), scenario.routes.len(), "{}", scenario.name);
        let [flow] = outcome.flows.as_slice() else { panic!("{}", scenario.name) };
        let (goodput, sum) = (flow.arrivals.goodput(), scenario.sum(Direction::Up));
        let fills = matches!(scenario.traffic[0], Traffic::Bulk { rate: None, .. });
        assert!(!fills || goodput.scaled(20, 1) > sum, "{}: {goodput} of {sum}", scenario.name);
        assert!(goodput < sum, "{}: {goodput} of {sum}", scenario.name);
    }
}

#[test]
fn the_same_seed_gives_the_same_outcome_and_another_seed_another() {
    let library = Library::builtin().unwrap();
    for name in ["wifi-lte", "lte-starlink", "ams-mesh", "black-hole"] {
        let scenario = library.find(name).unwrap().remove(0).with_duration(Duration::from_secs(1));
        let first = run(&scenario, 11);
        assert_eq!(first, run(&scenario, 11), "{name}");
        assert!(!scenario.has_loss() || first != run(&scenario, 12), "{name}");
    }
}
