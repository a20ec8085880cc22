//! Ctrl-C and SIGTERM end a command in order.

use std::future::Future;
use std::time::Duration;

use manyway::Endpoint;

use super::error::CommandError;
use crate::exit_code::ExitCode;

/// Runs `work` until it is done or the user has had enough.
///
/// # Errors
/// That of `work`, or [`ExitCode::Interrupted`].
pub async fn until_interrupted<T>(
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    tokio::select! {
        result = work => result,
        name = interrupted() => Err(CommandError::new(ExitCode::Interrupted, format!("ended by {name}"))),
    }
}

/// As [`until_interrupted`], and when the user has had enough, `endpoint` says farewell: the other side learns at once
/// that nothing more comes.
///
/// # Errors
/// That of `work`, or [`ExitCode::Interrupted`].
pub async fn until_interrupted_over<T>(
    endpoint: &Endpoint,
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let result = until_interrupted(work).await;
    if result.as_ref().is_err_and(|error| error.code == ExitCode::Interrupted) {
        close(endpoint, "interrupted").await;
    }
    result
}

/// Whether the other ends were told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    /// They were, or had their time for it.
    Said,
    /// The user did not want to wait.
    CutShort,
}

/// Says farewell on every connection of `endpoint`, until the other side has answered; not for long, and not if the user
/// has had enough.
pub async fn close(endpoint: &Endpoint, reason: &str) -> Farewell {
    tokio::select! {
        () = endpoint.close(0, reason) => Farewell::Said,
        _ = interrupted() => Farewell::CutShort,
        () = tokio::time::sleep(FAREWELL) => Farewell::Said,
    }
}

/// Waits for Ctrl-C or SIGTERM and tells which it was.
pub async fn interrupted() -> &'static str {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            return tokio::select! {
                _ = tokio::signal::ctrl_c() => "Ctrl-C",
                _ = terminate.recv() => "SIGTERM",
            };
        }
    }
    // Without the handler the system's default ends the process all the same.
    let _ = tokio::signal::ctrl_c().await;
    "Ctrl-C"
}

/// Who presses Ctrl-C does not want to wait.
const FAREWELL: Duration = Duration::from_secs(3);
