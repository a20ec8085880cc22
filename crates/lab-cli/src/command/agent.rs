//! `manyway-lab lab-agent`: one end of a run of the lab.

use manyway_terminal::{CommandError, ExitCode};

/// Runs until the lab ends the agent.
///
/// # Errors
/// There is no lab, or the system has no network namespaces.
pub fn run() -> Result<ExitCode, CommandError> {
    #[cfg(target_os = "linux")]
    {
        manyway_lab::agent::run().map(|()| ExitCode::Ok).map_err(CommandError::failed)
    }
    #[cfg(not(target_os = "linux"))]
    Err(CommandError::failed("the lab needs Linux"))
}
