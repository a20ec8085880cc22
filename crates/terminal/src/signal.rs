//! Ctrl-C, SIGTERM and SIGHUP.

use std::fmt;

use crate::{CommandError, ExitCode};

/// A signal that ends a command in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, by Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: the terminal was closed.
    HangUp,
}

impl Signal {
    /// The name that is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "Ctrl-C",
            Self::Terminate => "SIGTERM",
            Self::HangUp => "SIGHUP",
        }
    }

    /// Exit code of a command that the signal interrupted.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Interrupt | Self::Terminate => ExitCode::Interrupted,
            Self::HangUp => ExitCode::HungUp,
        }
    }

    /// The error of a command that the signal interrupted.
    pub fn error(self) -> CommandError {
        CommandError::new(self.exit_code(), format!("ended by {self}"))
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Waits for Ctrl-C, SIGTERM or SIGHUP and returns which it was. It listens from the call on, not only once awaited,
/// and must be called inside a runtime. An ignored SIGHUP, as under `nohup`, stays ignored.
pub fn signalled() -> impl Future<Output = Signal> {
    #[cfg(unix)]
    let signals = {
        use tokio::signal::unix::{SignalKind, signal};
        let hang_up = if is_hang_up_ignored() { None } else { signal(SignalKind::hangup()).ok() };
        signal(SignalKind::interrupt())
            .and_then(|first| Ok((first, signal(SignalKind::terminate())?)))
            .map(|(interrupt, terminate)| (interrupt, terminate, hang_up))
    };
    async move {
        #[cfg(unix)]
        if let Ok((mut interrupt, mut terminate, hang_up)) = signals {
            let hung_up = async {
                match hang_up {
                    Some(mut hang_up) => hang_up.recv().await,
                    None => std::future::pending().await,
                }
            };
            return tokio::select! {
                _ = interrupt.recv() => Signal::Interrupt,
                _ = terminate.recv() => Signal::Terminate,
                _ = hung_up => Signal::HangUp,
            };
        }
        // Without the handler the system's default ends the process all the same.
        let _ = tokio::signal::ctrl_c().await;
        Signal::Interrupt
    }
}

/// Whether the parent process had SIGHUP ignored. If the system does not report it, it counts as ignored, so that its
/// disposition is unchanged.
#[cfg(unix)]
pub fn is_hang_up_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status");
    status.ok().and_then(|status| ignores_hang_up(&status)).unwrap_or(true)
}

/// A signal mask as in proc(5): the lowest bit stands for signal 1, SIGHUP.
#[cfg(unix)]
fn ignores_hang_up(status: &str) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok().map(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_terminal_has_its_own_exit_status() {
        let error = Signal::HangUp.error();
        assert_eq!((error.code.number(), error.text.as_str()), (129, "ended by SIGHUP"));
        assert_eq!(Signal::Terminate.exit_code().number(), 130);
        assert!([Signal::HangUp, Signal::Interrupt].iter().all(|it| it.exit_code().is_interruption()));
    }

    #[cfg(unix)]
    #[test]
    fn an_ignored_sighup_is_read_from_the_signal_mask() {
        let told = |mask: &str| ignores_hang_up(&format!("Name:\tx\nSigIgn:\t{mask}\nSigCgt:\t0\n"));
        assert_eq!(told("0000000000001000"), Some(false));
        assert_eq!(told("0000000000001001"), Some(true));
        assert_eq!(ignores_hang_up("Name:\tx\n"), None);
    }
}
