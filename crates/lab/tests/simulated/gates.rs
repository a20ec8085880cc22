use std::time::Duration;

use manyway_lab::campaign::{self, Way};
use manyway_lab::gates::{self, Contest, Gate};
use manyway_lab::scenario::Library;
use manyway_lab::simulated::Simulated;
use manyway_lab::{Scenario, Stop};

use crate::Nobody;

/// Unlike rates, unlike delays, loss, a mesh, jitter, a satellite: gate 1 on few short runs, both ways alternating.
/// `manyway sim gates` runs all of them twenty times.
#[test]
fn all_routes_together_are_never_below_the_best_one_alone() {
    let library = Library::builtin().unwrap();
    let names = ["80-10", "rtt-10-100", "wifi-lte", "ams-mesh", "jit-20", "lte-geo"];
    let case = |(place, name): (usize, &&str)| -> (Scenario, Way) {
        let scenario = library.find(name).unwrap().remove(0).with_duration(Duration::from_secs(5));
        if place % 2 == 0 { (scenario, Way::AsWritten) } else { (scenario.turned(), Way::Turned) }
    };
    let scenarios: Vec<_> = names.iter().enumerate().map(case).collect();
    let mut plan = gates::plan(&scenarios, Contest::Simulated).unwrap();
    plan.repetitions = 1;
    // Messages beside bulk are for the gate of latency.
    plan.cases.retain(|case| case.contenders.len() > 1);
    let results = campaign::run(plan, &mut Simulated::new(), &mut Nobody, &Stop::default());
    let verdicts = gates::judge(&results);
    let judged: Vec<_> = verdicts.judged.iter().filter(|verdict| verdict.gate == Gate::BestLink).collect();
    assert_eq!(judged.len(), names.len(), "{:?}", verdicts.unjudged);
    let short: Vec<_> = judged.iter().filter(|verdict| !verdict.judgement.has_passed()).collect();
    assert!(short.is_empty(), "{short:#?}");
}
