//! Runs an experiment of a document, from the command line to its verdict.

use manyway_lab::campaign::{Plan, Timing};
use manyway_lab::contender::ExternalProgram;
use manyway_lab::experiment::{self, Experiment, Extent, Findings, report as words};
use manyway_lab::{Runner, Stop};
use manyway_terminal::{CommandError, ExitCode};

use super::conduct::{execute, finish, of_lab, prepare, tell};
use crate::args::{CampaignArgs, GlobalArgs, NameList};

/// An experiment named on the command line.
#[derive(Debug, Clone, Copy)]
pub struct Named {
    experiment: &'static Experiment,
    extent: Extent,
}

impl Named {
    /// Whether the command line names an experiment.
    ///
    /// # Errors
    /// It names an experiment together with something else, or sets an option that the experiment sets itself.
    pub fn find(
        arguments: &CampaignArgs,
        (contenders, externals): (&[NameList], &[ExternalProgram]),
    ) -> Result<Option<Self>, CommandError> {
        let Some(experiment) = arguments.names.iter().find_map(|name| experiment::find(name)) else {
            return Ok(None);
        };
        let name = experiment.name;
        if arguments.names.len() > 1 {
            return Err(CommandError::usage(format!("{name} is an experiment, which runs by itself")));
        }
        let is_set = !contenders.is_empty() || !externals.is_empty() || arguments.direction.is_some();
        if is_set || !arguments.settings.are_default() {
            return Err(CommandError::usage(format!(
                "{name} is an experiment, which says itself who runs and which way: leave --contenders, --external, \
                 --direction, --scheduler, --congestion and --pairs out"
            )));
        }
        let extent = if arguments.quick { Extent::Quick } else { Extent::Full };
        Ok(Some(Self { experiment, extent }))
    }

    /// Plans it.
    ///
    /// # Errors
    /// It needs real sockets.
    pub fn plan(self, arguments: &CampaignArgs, timing: Timing) -> Result<Plan, CommandError> {
        if self.experiment.needs_sockets() && timing == Timing::Virtual {
            let name = self.experiment.name;
            return Err(CommandError::usage(format!(
                "{name} is about programs, which run on real sockets alone: sudo manyway-lab {name}"
            )));
        }
        let mut plan = experiment::plan(self.experiment, self.extent, timing).map_err(of_lab)?;
        plan.repetitions = arguments.repeat.unwrap_or(plan.repetitions);
        plan.seed = arguments.seed;
        plan.budget = arguments.budget;
        if let Some(duration) = arguments.duration {
            for case in &mut plan.cases {
                case.scenario = case.scenario.clone().with_duration(duration);
            }
        }
        Ok(plan)
    }

    /// Runs its plan, and prints the results beside those of the document.
    ///
    /// # Errors
    /// As [`super::run`].
    pub fn run(
        self,
        global: &GlobalArgs,
        arguments: &CampaignArgs,
        plan: Plan,
        (runner, stop): (&mut dyn Runner, &Stop),
    ) -> Result<ExitCode, CommandError> {
        prepare(arguments)?;
        let (results, printed) = execute(global, plan, runner, stop);
        let findings = Findings::new(self.experiment, self.extent, &results);
        let document = || words::document(&findings);
        let printed = printed.and_then(|()| tell(global, document, || words::text(&findings)));
        let code = finish(global, arguments, (&results, Some(&findings)), printed)?;
        match findings.hold() {
            Some(true) => Ok(code),
            Some(false) => Ok(ExitCode::Gain),
            None => Err(CommandError::new(ExitCode::Failed, "nothing was measured that must hold")),
        }
    }
}
