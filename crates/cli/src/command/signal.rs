//! Ctrl-C, SIGTERM and SIGHUP end a command in order, and within two seconds in any case.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, mpsc};
use std::time::Duration;

use manyway::Endpoint;
use manyway_terminal::CommandError;
use manyway_terminal::signal::{Signal, signalled};

/// Runs `work` until it is done or the user interrupts.
///
/// # Errors
/// The error of `work` or of a signal ([`Signal::error`]).
pub async fn until_interrupted<T>(
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    tokio::select! {
        result = work => result,
        signal = interrupted() => Err(signal.error()),
    }
}

/// As [`until_interrupted`], and after an interruption closes `endpoint`: the peer learns at once that nothing more
/// follows.
///
/// # Errors
/// The error of `work` or of a signal ([`Signal::error`]).
pub async fn until_interrupted_over<T>(
    endpoint: &Endpoint,
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let result = until_interrupted(work).await;
    if result.as_ref().is_err_and(|error| error.code.is_interruption()) {
        close(endpoint, "interrupted").await;
    }
    result
}

/// Whether the peers were told of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseOutcome {
    /// They were, or their time for an answer is over.
    Complete,
    /// The user did not want to wait.
    Interrupted,
}

/// Closes every connection of `endpoint`, and waits for the peer's answer, for a limited time and not after another
/// interruption. Connections that need longer are aborted: the peer receives an ABORT, and unsent data is lost.
pub async fn close(endpoint: &Endpoint, reason: &str) -> CloseOutcome {
    let patience = if IS_ENDING.load(Ordering::Relaxed) { SHORT_CLOSE_TIME } else { CLOSE_TIME };
    tokio::select! {
        () = endpoint.close_within(0, reason, patience) => CloseOutcome::Complete,
        _ = interrupted() => CloseOutcome::Interrupted,
    }
}

/// As [`close`], with a shorter limit: no written data is waited for, or the peer has not answered lately.
pub async fn close_soon(endpoint: &Endpoint, reason: &str) {
    endpoint.close_within(0, reason, SHORT_CLOSE_TIME).await;
}

/// Waits for Ctrl-C, SIGTERM or SIGHUP and returns which it was. It listens from the call on, not only once it is
/// awaited, and must be called inside a runtime. After the signal the process has 1.8 s to end by itself.
///
/// After [`leave_signals_to_command`] it never returns.
pub fn interrupted() -> impl Future<Output = Signal> {
    static GUARD: Once = Once::new();
    GUARD.call_once(start_guard);
    let signalled = signalled();
    async {
        let signal = signalled.await;
        stay_if_left_to_command().await;
        IS_ENDING.store(true, Ordering::Relaxed);
        signal
    }
}

/// From now on signals do not end this process: they are for the command that it runs, and this process ends with that.
#[cfg(target_os = "linux")]
pub fn leave_signals_to_command() {
    ARE_LEFT_TO_COMMAND.store(true, Ordering::Relaxed);
}

/// Waits for ever, if signals are for a command.
async fn stay_if_left_to_command() {
    if ARE_LEFT_TO_COMMAND.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

/// Ends the process some time after the first signal, whatever blocks: a write to a stopped terminal, or a file system
/// that does not answer. Returns once it listens.
fn start_guard() {
    let (ready, is_ready) = mpsc::sync_channel(1);
    let wait = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        let signal = runtime.block_on(async {
            let signalled = signalled();
            let _ = ready.send(());
            let signal = signalled.await;
            stay_if_left_to_command().await;
            tokio::time::sleep(LONGEST_END).await;
            signal
        });
        std::process::exit(signal.exit_code().number().into());
    };
    // Without this thread the command ends in order or not at all.
    if std::thread::Builder::new().name("signals".to_owned()).spawn(wait).is_ok() {
        let _ = is_ready.recv();
    }
}

/// Whether the user has interrupted.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Whether signals are for a command that this process runs.
static ARE_LEFT_TO_COMMAND: AtomicBool = AtomicBool::new(false);
/// Longest time from a signal to the end of the process.
const LONGEST_END: Duration = Duration::from_millis(1800);
/// Time limit for the close after a completed command.
const CLOSE_TIME: Duration = Duration::from_secs(3);
/// Time limit for the close after an interruption, or with a silent peer. An abort takes 0.3 s more and the thread that
/// reads standard input 1 s, so that a command ends within two seconds.
const SHORT_CLOSE_TIME: Duration = Duration::from_millis(400);
