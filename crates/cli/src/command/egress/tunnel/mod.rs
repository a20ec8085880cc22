//! `manyway tunnel`: the traffic of the whole machine.

#[cfg(target_os = "linux")]
mod checks;
#[cfg(target_os = "linux")]
mod guard;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod tcp;

use manyway_terminal::{CommandError, ExitCode};

use crate::args::{GlobalArgs, TunnelArgs};

/// Tunnels until Ctrl-C or SIGTERM.
///
/// # Errors
/// The system refuses the device, its routes or rules, the server is not reached or refuses.
#[cfg(target_os = "linux")]
pub async fn run(global: &GlobalArgs, arguments: &TunnelArgs) -> Result<ExitCode, CommandError> {
    linux::run(global, arguments).await
}

/// Fails: it needs Linux.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub async fn run(_global: &GlobalArgs, _arguments: &TunnelArgs) -> Result<ExitCode, CommandError> {
    let text = "`manyway tunnel` needs Linux; elsewhere use `manyway proxy` and programs that know proxies";
    std::future::ready(Err(CommandError::failed(text))).await
}
