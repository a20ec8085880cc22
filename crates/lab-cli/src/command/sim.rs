//! `manyway-lab sim`: scenarios in virtual time.

use manyway_lab::Stop;
use manyway_lab::campaign::Timing;
use manyway_lab::gates::Contest;
use manyway_lab::simulated::Simulated;
use manyway_terminal::{CommandError, ExitCode};

use super::campaign::{self, Defaults, Named, of_gates, of_matrix, of_scenarios};
use crate::args::{GlobalArgs, SimAction, SimArgs};

/// Runs the command.
///
/// # Errors
/// A scenario or contender is unknown or invalid; the report cannot be written; the user interrupted.
pub fn run(global: &GlobalArgs, arguments: &SimArgs) -> Result<ExitCode, CommandError> {
    let stop = Stop::default();
    let mut runner = Simulated::new();
    match &arguments.action {
        Some(SimAction::List) => campaign::list(global),
        Some(SimAction::Gates(campaign)) => {
            let plan = of_gates(campaign, Contest::Simulated)?;
            campaign::run_gates(global, campaign, plan, &mut runner, &stop)
        }
        Some(SimAction::Matrix(matrix)) => {
            let plan = of_matrix(matrix, DEFAULTS)?;
            campaign::run_matrix(global, &matrix.campaign, plan, &mut runner, &stop)
        }
        None => {
            let (campaign, who) = (&arguments.campaign, (arguments.contenders.as_slice(), &[][..]));
            if let Some(named) = Named::find(campaign, who)? {
                let plan = named.plan(campaign, Timing::Virtual)?;
                return named.run(global, campaign, plan, (&mut runner, &stop));
            }
            let plan = of_scenarios(&arguments.campaign, (&arguments.contenders, &[]), DEFAULTS)?;
            campaign::run(global, &arguments.campaign, plan, &mut runner, &stop)
        }
    }
}

const DEFAULTS: Defaults =
    Defaults { contenders: &["manyway", "manyway-best"], repetitions: 3, timing: Timing::Virtual };
