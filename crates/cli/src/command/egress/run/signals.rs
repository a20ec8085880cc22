//! Signals to this process that are meant for the command.

use std::io;

use manyway_capture::{CommandSignal, RunningCommand};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that are passed on. As long as this lives, they do not end this process.
pub(super) struct Signals {
    hang_up: Signal,
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
}

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    /// The system does not allow it.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next signal.
    pub(super) async fn next(&mut self) -> CommandSignal {
        tokio::select! {
            _ = self.hang_up.recv() => CommandSignal::HangUp,
            _ = self.interrupt.recv() => CommandSignal::Interrupt,
            _ = self.quit.recv() => CommandSignal::Quit,
            _ = self.terminate.recv() => CommandSignal::Terminate,
        }
    }

    /// Passes a signal on, unless the command has received it, too: the terminal sends Ctrl-C to both.
    pub(super) fn pass_on(&self, signal: CommandSignal, command: &RunningCommand) {
        let is_of_terminal =
            matches!(signal, CommandSignal::Interrupt | CommandSignal::Quit) && is_in_foreground();
        if !is_of_terminal && let Err(error) = command.signal(signal) {
            tracing::warn!(?signal, reason = %error, "the command did not get a signal");
        }
    }
}

/// Whether the terminal sends its signals to the group of this process.
fn is_in_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp()))
}
