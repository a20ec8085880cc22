//! Real sockets and virtual time one after the other, with fake runners.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Parser as _;
use manyway_lab::outcome::{Arrivals, Flow};
use manyway_lab::scenario::Side;
use manyway_lab::{Contender, Outcome};

use super::*;
use crate::args::{Action, Cli, LabAction};

#[test]
fn the_end_of_the_runs_in_virtual_time_counts_as_well() {
    assert_eq!(agree(&[], || Ok(outcome(None))).unwrap(), ExitCode::Ok);
    let end = |arguments, simulated| {
        let error = agree(arguments, simulated).unwrap_err();
        (error.code, error.text)
    };
    assert_eq!(end(&[], || Err(LabError::Interrupted)).0, ExitCode::Interrupted);
    let (code, text) = end(&[], || Err(LabError::System("the clock stood still".to_owned())));
    assert!(code == ExitCode::Failed && text.contains("the clock stood still"), "{text}");
    let breaks_down: Simulated = || Ok(outcome(Some("it broke down")));
    assert!(agree(&[], breaks_down).is_ok());
    let (code, text) = end(&["--strict"], breaks_down);
    assert!(code == ExitCode::Failed && text.contains("1 runs broke down"), "{text}");
}

type Simulated = fn() -> Result<Outcome, LabError>;

/// As `agree` for a scenario that runs once, without a failure on real sockets.
fn agree(arguments: &[&str], simulated: Simulated) -> Result<ExitCode, CommandError> {
    let words = ["manyway-lab", "agree", "three-1", "-n", "1", "-t", "1s", "--quiet"];
    let cli = Cli::try_parse_from(words.iter().chain(arguments)).map_err(CommandError::usage)?;
    let Some(Action::Lab(LabAction::Agree(arguments))) = cli.action else { panic!("another action") };
    let defaults = Defaults { contenders: &["manyway"], repetitions: 1, timing: Timing::Real };
    let plan = of_scenarios(&arguments, (&[], &[]), defaults)?;
    let runners: (&mut dyn Runner, &mut dyn Runner) =
        (&mut Scripted(|| Ok(outcome(None))), &mut Scripted(simulated));
    run_both(&cli.global, &arguments, plan, runners, &Stop::default())
}

struct Scripted(Simulated);

impl Runner for Scripted {
    fn run(&mut self, _: &Scenario, _: &Contender, _: u64) -> Result<Outcome, LabError> {
        (self.0)()
    }

    fn supports(&self, _: &Contender) -> Result<(), LabError> {
        Ok(())
    }
}

/// 8 Mbit/s for a second.
fn outcome(failure: Option<&str>) -> Outcome {
    let mut arrivals = Arrivals::default();
    (0..=1_000).for_each(|millis| arrivals.record(Duration::from_millis(millis), 1_000));
    Outcome {
        flows: vec![Flow { receiver: Side::Server, arrivals, latencies: None, missing: 0, overtaken: 0 }],
        routes: Vec::new(),
        delivery: None,
        control: Vec::new(),
        set_up: None,
        cpu: None,
        cross: Vec::new(),
        ended: Vec::new(),
        told: BTreeMap::new(),
        failure: failure.map(str::to_owned),
        remarks: Vec::new(),
    }
}
