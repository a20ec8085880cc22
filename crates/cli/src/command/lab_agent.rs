//! `manyway lab-agent`: one end of a run of the lab.

use crate::command::error::CommandError;
use crate::exit_code::ExitCode;

/// Runs until the lab has no use for the agent.
///
/// # Errors
/// There is no lab, or the system has no network namespaces.
pub fn run() -> Result<ExitCode, CommandError> {
    #[cfg(target_os = "linux")]
    {
        let failed = |error| CommandError::new(ExitCode::Failed, error);
        manyway_lab::agent::run().map(|()| ExitCode::Ok).map_err(failed)
    }
    #[cfg(not(target_os = "linux"))]
    Err(CommandError::new(ExitCode::Failed, "the lab needs Linux"))
}
