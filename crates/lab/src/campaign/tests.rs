use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::contender::Contender;
use crate::measures::Spread;
use crate::outcome::{Arrivals, CpuTime, Flow, Outcome, RouteTotals};
use crate::scenario::{Library, Scenario, Side};

#[test]
fn repetitions_are_interleaved_contender_by_contender() {
    let mut runner = Scripted::default();
    let results = run_plan(plan(&["two-50", "wifi-lte"], &["manyway", "tcp-cubic"], 2), &mut runner);
    let order: Vec<String> = runner.calls.iter().map(|call| call.join(" ")).collect();
    let once = ["two-50 manyway", "two-50 tcp-cubic", "wifi-lte manyway", "wifi-lte tcp-cubic"];
    let expected: Vec<String> =
        ["1", "2"].iter().flat_map(|seed| once.iter().map(move |run| format!("{run} {seed}"))).collect();
    assert_eq!(order, expected);
    assert!(matches!(results.end, End::Complete));
    assert_eq!(results.runs.len(), 8);
}

#[test]
fn the_median_and_the_spread_are_those_of_all_repetitions() {
    let mut runner = Scripted { megabits: vec![10.0, 30.0, 20.0], ..Scripted::default() };
    let results = run_plan(plan(&["two-50"], &["manyway"], 3), &mut runner);
    let goodput = results.goodput(0, "manyway").unwrap();
    let near = |value: f64, expected: f64| (value - expected).abs() < 0.5;
    assert!(
        near(goodput.median, 20.0) && near(goodput.least, 10.0) && near(goodput.most, 30.0),
        "{goodput:?}"
    );
    assert_eq!(goodput.count, 3);
}

#[test]
fn the_best_route_is_the_one_with_the_best_result() {
    for (megabits, best) in [(vec![10.0, 30.0], 30.0), (vec![30.0, 10.0], 30.0)] {
        let mut runner = Scripted { megabits, ..Scripted::default() };
        let results = run_plan(plan(&["wifi-lte"], &["manyway-best"], 1), &mut runner);
        let mut who: Vec<_> = runner.calls.iter().map(|call| call[1].clone()).collect();
        who.sort();
        assert_eq!(who, ["manyway@1", "manyway@2"]);
        assert!((results.goodput(0, "manyway-best").unwrap().median - best).abs() < 0.5);
    }
    let one = plan(&["wifi-lte"], &["manyway"], 1).estimate();
    assert_eq!(plan(&["wifi-lte"], &["manyway-best"], 1).estimate(), 2 * one);
}

#[test]
fn an_unsupported_contender_is_skipped_with_a_sentence_and_the_others_run() {
    let mut runner = Scripted { refused: Some("mptcp-cubic"), ..Scripted::default() };
    let results = run_plan(plan(&["two-50"], &["manyway", "mptcp-cubic"], 2), &mut runner);
    assert_eq!(results.runs.len(), 2);
    assert_eq!((results.skipped.len(), results.skipped[0].reason.as_str()), (1, "no MPTCP here"));
    assert!(matches!(results.end, End::Complete));
}

#[test]
fn a_scenario_that_a_contender_can_not_run_is_skipped_there_alone() {
    let mut runner = Scripted { refused_in: Some("wifi-lte"), ..Scripted::default() };
    let results = run_plan(plan(&["two-50", "wifi-lte"], &["manyway"], 3), &mut runner);
    assert_eq!((results.runs.len(), results.skipped.len()), (3, 1));
    assert_eq!(results.skipped[0].case, Some(1));
}

#[test]
fn an_interruption_keeps_what_was_run() {
    let mut runner = Scripted { interrupted_after: Some(3), ..Scripted::default() };
    let results = run_plan(plan(&["two-50"], &["manyway", "tcp-cubic"], 5), &mut runner);
    assert!(matches!(results.end, End::Interrupted));
    assert_eq!(results.runs.len(), 3);
    let stop = Stop::default();
    stop.set();
    let results =
        run(plan(&["two-50"], &["manyway"], 1), &mut Scripted::default(), &mut Silent::default(), &stop);
    assert!(matches!(results.end, End::Interrupted) && results.runs.is_empty());
}

#[test]
fn another_error_ends_the_campaign_and_is_reported() {
    let mut runner = Scripted { broken: true, ..Scripted::default() };
    let results = run_plan(plan(&["two-50"], &["manyway"], 5), &mut runner);
    let End::Failed(error) = &results.end else { panic!("{:?}", results.end) };
    assert_eq!(error.to_string(), "ip: no such device");
}

#[test]
fn a_budget_drops_repetitions_then_shortens_and_says_so() {
    let fit = |seconds| {
        let mut plan = plan(&["two-50"], &["manyway"], 5);
        plan.timing = Timing::Real;
        plan.budget = Some(Duration::from_secs(seconds));
        let sentences = plan.fit(&|_| true);
        (plan.repetitions, plan.cases[0].scenario.duration, sentences)
    };
    let duration = plan(&["two-50"], &["manyway"], 1).cases[0].scenario.duration;
    let (repetitions, length, sentences) = fit(3600);
    assert_eq!((repetitions, length, sentences.len()), (5, duration, 0));
    let (repetitions, length, sentences) = fit(60);
    assert_eq!((repetitions, length), (3, duration));
    assert_eq!(sentences, ["3 repetitions instead of 5, to fit into 1 m 00 s"]);
    let (repetitions, length, sentences) = fit(10);
    assert!(repetitions == 1 && length <= Duration::from_secs(6) && sentences.len() == 2, "{sentences:?}");
    let (_, length, sentences) = fit(1);
    assert_eq!((length, sentences.len()), (Plan::SHORTEST, 3));
    assert!(sentences[2].contains("not everything"), "{sentences:?}");
}

#[test]
fn a_long_scenario_is_shortened_as_far_as_the_budget_asks() {
    let mut plan = plan(&["two-50"], &["manyway", "mptcp-cubic"], 2);
    plan.timing = Timing::Real;
    let case = &mut plan.cases[0];
    case.scenario = case.scenario.clone().with_duration(Duration::from_secs(600));
    plan.budget = Some(Duration::from_secs(28));
    let mut alone = plan.clone();
    let sentences = plan.fit(&|_| true);
    let length = plan.cases[0].scenario.duration;
    assert!(length <= Duration::from_secs(10) && length > Duration::from_millis(9_300), "{length:?}");
    assert_eq!((plan.repetitions, sentences.len()), (1, 2), "{sentences:?}");
    // A contender that cannot run takes no time.
    alone.fit(&|who| who.to_string() == "manyway");
    assert!(
        alone.cases[0].scenario.duration > Duration::from_secs(23),
        "{:?}",
        alone.cases[0].scenario.duration
    );
}

#[test]
fn the_budget_is_for_contenders_that_can_run() {
    let mut plan = plan(&["two-50"], &["manyway", "mptcp-cubic"], 5);
    plan.timing = Timing::Real;
    plan.budget = Some(plan.estimate() / 2 + Duration::from_secs(1));
    let mut runner = Scripted { refused: Some("mptcp-cubic"), ..Scripted::default() };
    let results = run_plan(plan, &mut runner);
    assert_eq!((results.plan.repetitions, results.counted()), (5, 5));
    assert!(results.notes.is_empty(), "{:?}", results.notes);
}

#[test]
fn no_run_begins_once_the_time_is_over() {
    let mut plan = plan(&["two-50"], &["manyway"], 5);
    plan.budget = Some(Duration::ZERO);
    let results = run_plan(plan, &mut Scripted::default());
    assert!(matches!(results.end, End::OutOfTime) && results.runs.is_empty());
}

#[test]
fn the_remaining_time_is_reported_before_each_run_and_shrinks() {
    let mut silent = Silent::default();
    let mut plan = plan(&["two-50"], &["manyway", "tcp-cubic"], 2);
    plan.timing = Timing::Virtual;
    run(plan, &mut Scripted::default(), &mut silent, &Stop::default());
    let done: Vec<(usize, usize)> = silent.ahead.iter().map(|ahead| (ahead.done, ahead.all)).collect();
    assert_eq!(done, [(0, 4), (1, 4), (2, 4), (3, 4)]);
    assert!(silent.ahead.iter().all(|ahead| ahead.left > Duration::ZERO));
}

#[test]
fn of_two_runs_of_a_repetition_the_less_disturbed_one_counts() {
    let results = run_plan(plan(&["two-50"], &["manyway"], 1), &mut Scripted::default());
    let disturbed = |others| {
        let disturbance = Some(Disturbance { others, stolen: 0.0 });
        Run { disturbance, ..results.runs[0].clone() }
    };
    for (first, second, counts) in [(0.5, 0.2, [false, true]), (0.2, 0.5, [true, false])] {
        let stop = Stop::default();
        let mut campaign = after(vec![disturbed(first)], results.plan.clone(), &stop);
        campaign.replace(disturbed(second), &mut Silent::default());
        let standing: Vec<bool> = campaign.runs.iter().map(|run| run.standing == Standing::Counts).collect();
        assert_eq!(standing, counts);
    }
}

#[test]
fn disturbed_runs_are_repeated_where_the_plan_says_so() {
    let job = Job { case: 0, contender: 0, repetition: 0 };
    let stop = Stop::default();
    for repeats_disturbed in [true, false] {
        let plan = Plan { repeats_disturbed, ..plan(&["two-50"], &["manyway"], 1) };
        let mut runner = Scripted::default();
        after(Vec::new(), plan, &stop).repeat(&[job], &mut runner, &mut Silent::default()).unwrap();
        assert_eq!(runner.calls.len(), usize::from(repeats_disturbed));
    }
}

/// A campaign after these runs.
fn after(runs: Vec<Run>, plan: Plan, stop: &Stop) -> Campaign<'_> {
    Campaign {
        plan,
        started: Instant::now(),
        pace: Pace::default(),
        done: runs.len(),
        repeats: 0,
        runs,
        skipped: Vec::new(),
        stop,
    }
}

#[test]
fn quartiles_of_results_are_found_by_name() {
    let mut runner = Scripted { megabits: vec![50.0], ..Scripted::default() };
    let results = run_plan(plan(&["two-50"], &["manyway", "possible"], 1), &mut runner);
    assert_eq!(results.contenders(), ["manyway", "possible"]);
    assert!(results.goodput(0, "possible").is_some() && results.goodput(0, "tcp-cubic").is_none());
    assert_eq!(results.goodput(7, "manyway"), None::<Spread>);
}

fn run_plan(plan: Plan, runner: &mut Scripted) -> Results {
    run(plan, runner, &mut Silent::default(), &Stop::default())
}

/// Cases of built-in scenarios for contenders, in virtual time.
pub(crate) fn plan(scenarios: &[&str], contenders: &[&str], repetitions: u32) -> Plan {
    let library = Library::builtin().unwrap();
    let case = |name: &&str| Case {
        scenario: library.find(name).unwrap().remove(0),
        way: Way::AsWritten,
        contenders: contenders.iter().map(|name| name.parse().unwrap()).collect(),
    };
    Plan {
        cases: scenarios.iter().map(case).collect(),
        repetitions,
        seed: 1,
        timing: Timing::Virtual,
        budget: None,
        repeats_disturbed: true,
        course: Course::Kept,
    }
}

/// Bytes in 10 ms at this many Mbit/s.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a test knows its numbers")]
pub(crate) fn each_tick(megabits: f64) -> u64 {
    (megabits * 1e6 / 8.0 / 100.0) as u64
}

/// A constant rate over the time of the scenario, divided evenly among its routes.
pub(crate) fn even(scenario: &Scenario, megabits: f64) -> Outcome {
    let seconds = u32::try_from(scenario.duration.as_secs()).unwrap();
    let each = each_tick(megabits);
    let steady = |each: u64| {
        let mut arrivals = Arrivals::default();
        (0..=seconds * 100).for_each(|tick| arrivals.record(Arrivals::BIN * tick, each));
        arrivals
    };
    let share = each / scenario.routes.len() as u64;
    let route = |_: &_| RouteTotals { up: steady(share), down: Arrivals::default(), dropped: 3 };
    Outcome {
        flows: vec![Flow {
            receiver: Side::Server,
            arrivals: steady(each),
            latencies: None,
            missing: 0,
            overtaken: 0,
        }],
        routes: scenario.routes.iter().map(route).collect(),
        delivery: None,
        control: Vec::new(),
        set_up: None,
        cpu: Some(CpuTime { client: Duration::from_millis(500), server: Duration::from_millis(250) }),
        cross: Vec::new(),
        ended: Vec::new(),
        told: BTreeMap::new(),
        failure: None,
        remarks: Vec::new(),
    }
}

/// A runner with scripted results.
#[derive(Default)]
pub(crate) struct Scripted {
    /// Scenario, contender and seed of each run.
    pub(crate) calls: Vec<[String; 3]>,
    /// Results of the runs in Mbit/s, in order, the last one repeatedly; 40 if there is none.
    pub(crate) megabits: Vec<f64>,
    pub(crate) refused: Option<&'static str>,
    pub(crate) refused_in: Option<&'static str>,
    pub(crate) interrupted_after: Option<usize>,
    pub(crate) broken: bool,
}

impl Runner for Scripted {
    fn run(&mut self, scenario: &Scenario, contender: &Contender, seed: u64) -> Result<Outcome, LabError> {
        if self.broken {
            return Err(LabError::System("ip: no such device".to_owned()));
        }
        if self.interrupted_after == Some(self.calls.len()) {
            return Err(LabError::Interrupted);
        }
        if self.refused_in == Some(scenario.name.as_str()) {
            return Err(LabError::Unsupported("no address translators here".to_owned()));
        }
        let megabits =
            self.megabits.get(self.calls.len()).or_else(|| self.megabits.last()).copied().unwrap_or(40.0);
        self.calls.push([scenario.name.clone(), contender.to_string(), seed.to_string()]);
        Ok(even(scenario, megabits))
    }

    fn supports(&self, contender: &Contender) -> Result<(), LabError> {
        if self.refused.is_some_and(|name| contender.to_string() == name) {
            return Err(LabError::Unsupported("no MPTCP here".to_owned()));
        }
        Ok(())
    }
}

/// Records the reported progress of the campaign.
#[derive(Default)]
pub(crate) struct Silent {
    ahead: Vec<Ahead>,
}

impl Watcher for Silent {
    fn notice(&mut self, notice: Notice<'_>) {
        if let Notice::Runs { ahead, .. } = notice {
            self.ahead.push(ahead);
        }
    }
}
