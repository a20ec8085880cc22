//! `manyway lab`: contenders on real sockets.

#[cfg(target_os = "linux")]
mod budget;
#[cfg(target_os = "linux")]
mod cpu;
#[cfg(target_os = "linux")]
mod order;
#[cfg(target_os = "linux")]
mod share;
#[cfg(target_os = "linux")]
mod up;
#[cfg(target_os = "linux")]
mod validate;

#[cfg(target_os = "linux")]
pub use on_linux::run;

#[cfg(target_os = "linux")]
mod on_linux {
    use std::path::PathBuf;

    use manyway_lab::agreement::SCENARIOS;
    use manyway_lab::campaign::Timing;
    use manyway_lab::gates::Contest;
    use manyway_lab::real::Real;
    use manyway_lab::simulated::Simulated;

    use super::{cpu, share, up, validate};
    use crate::args::{CampaignArgs, GlobalArgs, LabAction, LabArgs};
    use crate::command::campaign::{self, Defaults, Named, of_gates, of_lab, of_scenarios, refuse_qlog};
    use crate::command::error::CommandError;
    use crate::exit_code::ExitCode;

    /// Runs the command.
    ///
    /// # Errors
    /// A scenario or contender is unknown or wrong; this user or machine can not make the hosts; the report can not be
    /// written; the user had enough.
    pub fn run(global: &GlobalArgs, arguments: &LabArgs) -> Result<ExitCode, CommandError> {
        refuse_qlog(global)?;
        match &arguments.action {
            Some(LabAction::List) => campaign::list(global),
            Some(LabAction::Cpu(arguments)) => cpu::run(global, arguments, &program()?),
            Some(LabAction::Validate(arguments)) => validate::run(global, arguments),
            Some(LabAction::Share(arguments)) => share::run(global, arguments, program()?),
            Some(LabAction::Up(arguments)) => up::run(global, arguments),
            Some(LabAction::Gates(arguments)) => {
                let plan = of_gates(global, arguments, Contest::Real)?;
                let mut runner = Real::new(program()?).map_err(of_lab)?;
                let stop = runner.stop();
                campaign::run_gates(global, arguments, plan, &mut runner, &stop)
            }
            Some(LabAction::Agree(arguments)) => {
                let mut arguments = arguments.clone();
                if arguments.names.is_empty() {
                    arguments.names = SCENARIOS.map(str::to_owned).to_vec();
                }
                let plan = of_scenarios(global, &arguments, (&[], &[]), AGREE)?;
                let mut runner = Real::new(program()?).map_err(of_lab)?;
                let stop = runner.stop();
                campaign::run_both(global, &arguments, plan, (&mut runner, &mut Simulated::new()), &stop)
            }
            None => {
                let who = (arguments.contenders.as_slice(), arguments.externals.as_slice());
                if let Some(named) = Named::find(global, &arguments.campaign, who)? {
                    return experiment(global, &arguments.campaign, named);
                }
                let plan = of_scenarios(global, &arguments.campaign, who, DEFAULTS)?;
                let mut runner = Real::new(program()?).map_err(of_lab)?;
                let stop = runner.stop();
                campaign::run(global, &arguments.campaign, plan, &mut runner, &stop)
            }
        }
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

    /// This program, which also is the agent at either end.
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

/// Runs the command.
///
/// # Errors
/// Always, but for the list: this system has no network namespaces.
#[cfg(not(target_os = "linux"))]
pub fn run(
    global: &crate::args::GlobalArgs,
    arguments: &crate::args::LabArgs,
) -> Result<crate::exit_code::ExitCode, super::error::CommandError> {
    use crate::exit_code::ExitCode;
    match &arguments.action {
        Some(crate::args::LabAction::List) => super::campaign::list(global),
        Some(_) | None => Err(super::error::CommandError::new(
            ExitCode::Failed,
            "the lab needs Linux; `manyway sim` runs the same scenarios in virtual time anywhere",
        )),
    }
}
