//! `manyway-lab lab-agent` and `lab-echo`: one end of a run of the lab, and the destination of its flows.

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

/// Sends back what comes until standard input ends.
///
/// # Errors
/// There is no lab, or the system refuses the socket.
pub fn echo() -> Result<ExitCode, CommandError> {
    #[cfg(target_os = "linux")]
    {
        manyway_lab::flows::serve_echo()
            .map(|()| ExitCode::Ok)
            .map_err(|error| CommandError::failed(error.to_string()))
    }
    #[cfg(not(target_os = "linux"))]
    Err(CommandError::failed("the lab needs Linux"))
}
