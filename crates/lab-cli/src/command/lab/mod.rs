//! Runs contenders on real sockets, and related actions.

#[cfg(target_os = "linux")]
mod budget;
#[cfg(target_os = "linux")]
mod cpu;
#[cfg(target_os = "linux")]
mod flows;
#[cfg(target_os = "linux")]
mod order;
#[cfg(target_os = "linux")]
mod share;
#[cfg(target_os = "linux")]
mod up;
#[cfg(target_os = "linux")]
mod validate;

#[cfg(target_os = "linux")]
pub use on_linux::{act, run, runner};

#[cfg(target_os = "linux")]
mod on_linux {
    use std::path::PathBuf;

    use manyway_lab::agreement::SCENARIOS;
    use manyway_lab::campaign::Timing;
    use manyway_lab::gates::Contest;
    use manyway_lab::real::Real;
    use manyway_lab::simulated::Simulated;
    use manyway_lab::{Runner, Stop};
    use manyway_terminal::{CommandError, ExitCode};

    use super::{cpu, flows, share, up, validate};
    use crate::args::{CampaignArgs, GlobalArgs, LabAction, ScenarioArgs};
    use crate::command::campaign::{self, Defaults, Named, of_gates, of_lab, of_scenarios};

    /// Runs scenarios or an experiment.
    ///
    /// # Errors
    /// A scenario or contender is unknown or invalid; this user or machine cannot create the hosts; the report cannot
    /// be written; the user interrupted.
    pub fn run(global: &GlobalArgs, arguments: &ScenarioArgs) -> Result<ExitCode, CommandError> {
        let who = (arguments.contenders.as_slice(), arguments.externals.as_slice());
        if let Some(named) = Named::find(&arguments.campaign, who)? {
            return experiment(global, &arguments.campaign, named);
        }
        let plan = of_scenarios(&arguments.campaign, who, DEFAULTS)?;
        let mut runner = Real::new(program()?).map_err(of_lab)?;
        let stop = runner.stop();
        campaign::run(global, &arguments.campaign, plan, &mut runner, &stop)
    }

    /// Runs another action.
    ///
    /// # Errors
    /// As [`run`].
    pub fn act(global: &GlobalArgs, action: &LabAction) -> Result<ExitCode, CommandError> {
        match action {
            LabAction::List => campaign::list(global),
            LabAction::Cpu(arguments) => cpu::run(global, arguments, &program()?),
            LabAction::Flows(arguments) => flows::run(global, arguments, &program()?),
            LabAction::Validate(arguments) => validate::run(global, arguments),
            LabAction::Share(arguments) => share::run(global, arguments, program()?),
            LabAction::Up(arguments) => up::run(global, arguments),
            LabAction::Gates(arguments) => {
                let plan = of_gates(arguments, Contest::Real)?;
                let mut runner = Real::new(program()?).map_err(of_lab)?;
                let stop = runner.stop();
                campaign::run_gates(global, arguments, plan, &mut runner, &stop)
            }
            LabAction::Agree(arguments) => {
                let mut arguments = arguments.clone();
                if arguments.names.is_empty() {
                    arguments.names = SCENARIOS.map(str::to_owned).to_vec();
                }
                let plan = of_scenarios(&arguments, (&[], &[]), AGREE)?;
                let mut runner = Real::new(program()?).map_err(of_lab)?;
                let stop = runner.stop();
                campaign::run_both(global, &arguments, plan, (&mut runner, &mut Simulated::new()), &stop)
            }
        }
    }

    /// A runner on real sockets, and what ends it.
    ///
    /// # Errors
    /// This user or machine cannot create the hosts.
    pub fn runner() -> Result<(Box<dyn Runner>, Stop), CommandError> {
        let runner = Real::new(program()?).map_err(of_lab)?;
        let stop = runner.stop();
        Ok((Box::new(runner), stop))
    }

    fn experiment(
        global: &GlobalArgs,
        arguments: &CampaignArgs,
        named: Named,
    ) -> Result<ExitCode, CommandError> {
        let plan = named.plan(arguments, Timing::Real)?;
        let mut runner = Real::new(program()?).map_err(of_lab)?;
        let stop = runner.stop();
        named.run(global, arguments, plan, (&mut runner, &stop))
    }

    /// This program, which is also the agent at either end.
    fn program() -> Result<PathBuf, CommandError> {
        Ok(std::env::current_exe()?)
    }

    const AGREE: Defaults = Defaults { contenders: &["manyway"], repetitions: 3, timing: Timing::Real };

    const DEFAULTS: Defaults = Defaults {
        contenders: &["manyway", "manyway-best", "tcp-cubic", "possible", "mptcp-cubic", "mptcp-bbr"],
        repetitions: 5,
        timing: Timing::Real,
    };
}

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{act, run, runner};

/// Systems without network namespaces.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use manyway_terminal::{CommandError, ExitCode};

    use crate::args::{GlobalArgs, LabAction, ScenarioArgs};
    use manyway_lab::{Runner, Stop};

    use crate::command::campaign;

    /// There is no runner.
    ///
    /// # Errors
    /// Always.
    pub fn runner() -> Result<(Box<dyn Runner>, Stop), CommandError> {
        Err(CommandError::failed(NEEDS_LINUX))
    }

    /// Runs nothing.
    ///
    /// # Errors
    /// Always.
    pub fn run(_: &GlobalArgs, _: &ScenarioArgs) -> Result<ExitCode, CommandError> {
        Err(CommandError::failed(NEEDS_LINUX))
    }

    /// Lists the scenarios.
    ///
    /// # Errors
    /// Any other action was requested.
    pub fn act(global: &GlobalArgs, action: &LabAction) -> Result<ExitCode, CommandError> {
        match action {
            LabAction::List => campaign::list(global),
            LabAction::Gates(_)
            | LabAction::Agree(_)
            | LabAction::Share(_)
            | LabAction::Validate(_)
            | LabAction::Cpu(_)
            | LabAction::Flows(_)
            | LabAction::Up(_) => Err(CommandError::failed(NEEDS_LINUX)),
        }
    }

    const NEEDS_LINUX: &str =
        "real sockets need Linux; `manyway-lab sim` runs the same scenarios in virtual time anywhere";
}
