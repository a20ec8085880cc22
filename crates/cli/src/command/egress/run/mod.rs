//! `manyway run`: a command whose network is the server's.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod signals;

use manyway_terminal::{CommandError, ExitCode};

use crate::args::{GlobalArgs, RunArgs};

/// Runs the command to its end.
///
/// # Errors
/// The system refuses a namespace, the server is not reached or refuses, or the command cannot be executed.
#[cfg(target_os = "linux")]
pub async fn run(global: &GlobalArgs, arguments: &RunArgs) -> Result<ExitCode, CommandError> {
    linux::run(global, arguments).await
}

/// Fails: only Linux has network namespaces.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub async fn run(_global: &GlobalArgs, _arguments: &RunArgs) -> Result<ExitCode, CommandError> {
    let text = "`manyway run` needs Linux; elsewhere use `manyway proxy` and a program that knows proxies";
    std::future::ready(Err(CommandError::failed(text))).await
}
