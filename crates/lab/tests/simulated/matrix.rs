use std::time::Duration;

use manyway_lab::campaign::{self, Case, Course, Notice, Plan, Timing, Watcher, Way};
use manyway_lab::scenario::Library;
use manyway_lab::simulated::Simulated;
use manyway_lab::{Stop, report};
use manyway_proto::scheduler;

struct Nobody;

impl Watcher for Nobody {
    fn notice(&mut self, _: Notice<'_>) {}
}

/// What `manyway sim matrix unequal -t 2s --congestions cubic --direction up` prints: a change of a scheduler shows here.
#[test]
fn the_matrix_of_schedulers_over_unequal_paths_is_as_reviewed() {
    let pair = |name: &str| format!("manyway:scheduler={name},congestion=cubic");
    let names =
        std::iter::once("manyway-best:congestion=cubic".to_owned()).chain(scheduler::names().map(pair));
    let contenders: Vec<_> = names.map(|name| name.parse().unwrap()).collect();
    let scenarios = Library::builtin().unwrap().find("unequal").unwrap();
    let case = |scenario: manyway_lab::Scenario| Case {
        scenario: scenario.with_duration(Duration::from_secs(2)),
        way: Way::AsWritten,
        contenders: contenders.clone(),
    };
    let plan = Plan {
        cases: scenarios.into_iter().map(case).collect(),
        repetitions: 1,
        seed: 1,
        timing: Timing::Virtual,
        budget: None,
        course: Course::Dropped,
    };
    let results = campaign::run(plan, &mut Simulated::new(), &mut Nobody, &Stop::default());
    insta::assert_snapshot!(report::matrix(&results));
}
