use std::time::Duration;

use manyway_lab::campaign::{self, Plan, Results, Timing};
use manyway_lab::experiment::{self, EXPERIMENTS, Experiment, Extent, Findings, report};
use manyway_lab::simulated::Simulated;
use manyway_lab::{Contender, LabError, Outcome, Runner, Scenario, Stop};
use manyway_sim::nightly::is_nightly;

use super::Unwatched;

/// Runs the quick extent, or every run for this long.
fn run(experiment: &Experiment, length: Option<Duration>, runner: &mut dyn Runner) -> Results {
    run_some(experiment, length, &[], runner)
}

/// The same without these scenarios.
fn run_some(
    experiment: &Experiment,
    length: Option<Duration>,
    without: &[&str],
    runner: &mut dyn Runner,
) -> Results {
    let mut plan = experiment::plan(experiment, Extent::Quick, Timing::Virtual).unwrap();
    plan.cases.retain(|case| !without.contains(&case.scenario.name.as_str()));
    for case in &mut plan.cases {
        if let Some(length) = length {
            case.scenario = case.scenario.clone().with_duration(length);
        }
    }
    campaign::run(plan, runner, &mut Unwatched, &Stop::default())
}

/// The output of `manyway-lab sim NAME --quick`, and its status 0: a change of the protocol shows here.
fn review(name: &str) {
    let experiment = experiment::find(name).unwrap();
    let results = run(experiment, None, &mut Simulated::new());
    let findings = Findings::new(experiment, Extent::Quick, &results);
    let text = report::text(&findings);
    insta::assert_snapshot!(name, text);
    assert_eq!(findings.hold(), Some(true), "{text}");
}

/// Whether the claims hold in the quick extent, with runs of this length if one is given, without the scenarios that are
/// left to `the_experiments_of_the_mmsp_thesis_hold_in_full`.
fn hold(name: &str, length: Option<Duration>, without: &[&str]) {
    let experiment = experiment::find(name).unwrap();
    let results = run_some(experiment, length, without, &mut Simulated::new());
    let findings = Findings::new(experiment, Extent::Quick, &results);
    assert_eq!(findings.hold(), Some(true), "{}", report::text(&findings));
}

#[test]
fn mmsp_setup() {
    hold("mmsp-setup", Some(Duration::from_secs(4)), &["mmsp-setup-2"]);
}

#[test]
fn mmsp_table41() {
    let experiment = experiment::find("mmsp-table41").unwrap();
    let results = run(experiment, None, &mut Simulated::new());
    let findings = Findings::new(experiment, Extent::Quick, &results);
    let text = report::text(&findings);
    // The last two cases need longer than a quick run has: a block that was repeated on a secondary which was cut before
    // waits until that one is unreachable, too.
    assert_eq!(findings.broken(), 0, "{text}");
    let judged = findings.judged();
    let mut early = judged.iter().filter(|finding| finding.row < 4);
    assert!(
        early.all(|finding| finding.judgement.as_ref().is_some_and(|judgement| judgement.has_passed())),
        "{text}"
    );
}

#[test]
fn mmsp_figures() {
    // In virtual time a damaged packet is the same with any checksum.
    hold("mmsp-fig41", None, &["mmsp-fig41-2-80"]);
    if is_nightly() {
        hold("mmsp-fig42", None, &["mmsp-fig42-2-80"]);
    }
}

/// Every row in full length.
#[test]
fn the_experiments_of_the_mmsp_thesis_hold_in_full() {
    if !is_nightly() {
        return;
    }
    for name in ["mmsp-setup", "mmsp-table41", "mmsp-table42", "mmsp-fig41", "mmsp-fig42"] {
        in_full(name);
    }
}

/// Whether the claims hold in one run of each row.
fn in_full(name: &str) {
    let experiment = experiment::find(name).unwrap();
    let mut plan = experiment::plan(experiment, Extent::Full, Timing::Virtual).unwrap();
    plan.repetitions = 1;
    let results = campaign::run(plan, &mut Simulated::new(), &mut Unwatched, &Stop::default());
    let findings = Findings::new(experiment, Extent::Full, &results);
    assert_eq!(findings.hold(), Some(true), "{}", report::text(&findings));
}

/// A video over one connection and over five; the others are for the night, as are figures 8.2 to 8.6.
#[test]
fn multitcp_fig87() {
    let experiment = experiment::find("multitcp-fig87").unwrap();
    let mut plan = experiment::plan(experiment, Extent::Full, Timing::Virtual).unwrap();
    plan.repetitions = 1;
    for case in &mut plan.cases {
        // The first has one connection, the fifth has five.
        let chosen = |place: usize| is_nightly() || [0, 4].contains(&place);
        let all = std::mem::take(&mut case.contenders).into_iter().enumerate();
        case.contenders = all.filter(|(place, _)| chosen(*place)).map(|(_, contender)| contender).collect();
    }
    let results = campaign::run(plan, &mut Simulated::new(), &mut Unwatched, &Stop::default());
    let findings = Findings::new(experiment, Extent::Full, &results);
    assert_eq!(findings.hold(), Some(true), "{}", report::text(&findings));
}

#[test]
fn the_experiments_of_multitcp_hold_in_full() {
    if !is_nightly() {
        return;
    }
    for name in ["multitcp-fig82", "multitcp-fig83", "multitcp-fig84", "multitcp-fig85", "multitcp-fig86"] {
        in_full(name);
    }
}

#[test]
fn ams_fig9() {
    review("ams-fig9");
}

#[test]
fn ams_fig10() {
    review("ams-fig10");
}

#[test]
fn ams_fig12() {
    review("ams-fig12");
}

#[test]
fn ams_race() {
    review("ams-race");
}

/// The document's figures over time: each flow and the whole, of each scenario in which its contender ran.
#[test]
fn sequence_numbers_are_drawn_of_each_flow() {
    let experiment = experiment::find("ams-fig12").unwrap();
    let results = run(experiment, Some(Duration::from_millis(900)), &mut Simulated::new());
    let pictures = report::pictures(&Findings::new(experiment, Extent::Quick, &results)).unwrap();
    let files: Vec<&str> = pictures.iter().map(|picture| picture.file.as_str()).collect();
    let expected =
        ["4-4", "4-1", "2-1"].map(|row| format!("ams-fig12-{row}-manyway-pairs-disjoint-sequence"));
    assert_eq!(files, expected, "AMS over TCP did not run");
    let names = |place: usize| {
        ["the whole", "a-c", "b-d", "a-d", "b-c"].map(|name| pictures[place].svg.contains(name))
    };
    assert_eq!(names(1), [true; 5]);
    assert_eq!(names(2), [true, true, true, false, false]);
}

/// What a receiver did is drawn once in each panel.
#[test]
fn the_control_of_a_target_rate_is_drawn() {
    let experiment = experiment::find("multitcp-fig84").unwrap();
    let results = run(experiment, Some(Duration::from_secs(10)), &mut Simulated::new());
    let steps = &results.runs[0].course.as_ref().unwrap().control;
    assert!(steps.len() > 5 && steps.is_sorted_by_key(|step| step.at), "{steps:?}");
    assert!(steps.iter().all(|step| step.connections == 1 && step.window > 0));
    let pictures = report::pictures(&Findings::new(experiment, Extent::Quick, &results)).unwrap();
    let files: Vec<&str> = pictures.iter().map(|picture| picture.file.as_str()).collect();
    assert_eq!(files, ["rate", "window-sum", "connections"].map(|panel| format!("multitcp-fig84-{panel}")));
    assert!(pictures.iter().all(|picture| picture.svg.contains("connections=8,target=480k")));
}

#[test]
fn cmt_table1() {
    review("cmt-table1");
}

#[test]
fn cmt_table2() {
    review("cmt-table2");
}

#[test]
fn cmt_duplicates() {
    review("cmt-duplicates");
}

#[test]
fn multitcp_dent() {
    review("multitcp-dent");
}

#[test]
fn goff_eq6() {
    review("goff-eq6");
}

#[test]
fn goff_fig3() {
    review("goff-fig3");
}

#[test]
fn goff_fig4() {
    review("goff-fig4");
}

#[test]
fn goff_fig5() {
    review("goff-fig5a");
    review("goff-fig5b");
}

/// Its runs are those of table 1, in other units.
#[test]
fn cmt_fig55() {
    let experiment = experiment::find("cmt-fig55").unwrap();
    let results = run(experiment, Some(Duration::from_millis(300)), &mut Simulated::new());
    let findings = Findings::new(experiment, Extent::Quick, &results);
    let numbers = |place: usize| {
        let column = &experiment.columns[place].quantity;
        (0..findings.rows().count())
            .map(|row| findings.number(row, column).unwrap().median)
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(0), [3.300_384, 0.041_81], "from few large chunks to many small ones");
    assert!(numbers(6).iter().all(|rate| *rate > 0.5), "{:?}", numbers(6));
    assert_eq!(findings.broken(), 0);
}

/// Figures of the document are drawn for every contender with points.
#[test]
fn a_figure_has_the_curves_that_were_measured() {
    let experiment = experiment::find("goff-fig4").unwrap();
    let results = run(experiment, Some(Duration::from_millis(300)), &mut Simulated::new());
    let pictures = report::pictures(&Findings::new(experiment, Extent::Quick, &results)).unwrap();
    let files: Vec<&str> = pictures.iter().map(|picture| picture.file.as_str()).collect();
    assert_eq!(files, ["goff-fig4-4-figure", "goff-fig4-8-figure"]);
    for picture in &pictures {
        let has = |text: &str| picture.svg.contains(text);
        assert!(has("both links") && has("high bandwidth link only") && has("total Mbit/s"));
        assert!(!has("multipath TCP"), "no contender of that kind ran");
    }
}

/// A runner that delivers a byte a run, or supports no contender.
struct Idle {
    can_run: bool,
}

impl Runner for Idle {
    fn run(&mut self, scenario: &Scenario, contender: &Contender, seed: u64) -> Result<Outcome, LabError> {
        let short = scenario.clone().with_duration(Duration::from_millis(100));
        let mut outcome = Simulated::new().run(&short, contender, seed)?;
        if !contender.to_string().contains('@') {
            outcome.flows.iter_mut().for_each(|flow| flow.arrivals = Default::default());
        }
        Ok(outcome)
    }

    fn supports(&self, _: &Contender) -> Result<(), LabError> {
        if self.can_run { Ok(()) } else { Err(LabError::Unsupported("not here".to_owned())) }
    }
}

#[test]
fn failed_claims_are_reported_by_row_and_unmeasured_ones_have_no_verdict() {
    let experiment = experiment::find("ams-fig9").unwrap();
    let results = run(experiment, None, &mut Idle { can_run: true });
    let findings = Findings::new(experiment, Extent::Quick, &results);
    assert_eq!(findings.hold(), Some(false));
    let text = report::text(&findings);
    assert!(text.contains("holds in 0 of 3") && text.contains("  paths 2: 0.0 %"), "{text}");
    assert_eq!(report::document(&findings)["holds"], false);

    let results = run(experiment, None, &mut Idle { can_run: false });
    let findings = Findings::new(experiment, Extent::Quick, &results);
    assert_eq!(findings.hold(), None);
    assert!(report::text(&findings).contains(": not measured"));
}

#[test]
fn a_budget_shortens_an_experiment_and_its_phases_stay_in_proportion() {
    let experiment = experiment::find("ams-fig10").unwrap();
    let plan = experiment::plan(experiment, Extent::Full, Timing::Real).unwrap();
    let budget = Some(Duration::from_secs(40));
    let mut plan = Plan { budget, ..plan };
    plan.fit(&|_| true);
    let scenario = &plan.cases[0].scenario;
    // Two contenders, each once.
    assert!(scenario.duration < Duration::from_secs(20), "{:?}", scenario.duration);
    let death = scenario.events.last().unwrap().at.as_secs_f64() / scenario.duration.as_secs_f64();
    assert!((death - 2.0 / 3.0).abs() < 1e-3, "{death}");
    assert!(EXPERIMENTS.iter().any(|other| other.name == experiment.name));
}
