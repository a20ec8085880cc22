//! Signals to this process that are meant for the command.

use std::fs::File;
use std::io;

use manyway_capture::{CommandSignal, RunningCommand};
use manyway_terminal::signal::is_hang_up_ignored;
use rustix::process::{getpgrp, getpid, getsid};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that are passed on. As long as this lives, they do not end this process.
pub(super) struct Signals {
    /// Unless it is ignored, as under `nohup`.
    hang_up: Option<Signal>,
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    /// Whether there was a controlling terminal.
    had_terminal: bool,
}

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    /// The system does not allow it.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            hang_up: if is_hang_up_ignored() { None } else { Some(signal(SignalKind::hangup())?) },
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            had_terminal: terminal().is_some(),
        })
    }

    /// The next signal.
    pub(super) async fn next(&mut self) -> CommandSignal {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = hang_up => CommandSignal::HangUp,
            _ = self.interrupt.recv() => CommandSignal::Interrupt,
            _ = self.quit.recv() => CommandSignal::Quit,
            _ = self.terminate.recv() => CommandSignal::Terminate,
        }
    }

    /// Passes a signal on, unless the command has received it, too: a terminal sends Ctrl-C to both, and SIGHUP when it is
    /// closed, but that to the leader of a session alone as long as there is one.
    pub(super) fn pass_on(&self, signal: CommandSignal, command: &RunningCommand) {
        let is_of_terminal = match signal {
            CommandSignal::Interrupt | CommandSignal::Quit => is_in_foreground(),
            CommandSignal::HangUp => self.had_terminal && terminal().is_none() && !leads_session(),
            CommandSignal::Terminate => false,
        };
        if !is_of_terminal && let Err(error) = command.signal(signal) {
            tracing::warn!(?signal, reason = %error, "the command did not get a signal");
        }
    }
}

/// Whether the terminal sends its signals to the group of this process.
fn is_in_foreground() -> bool {
    terminal().is_some_and(|terminal| tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp()))
}

/// The controlling terminal; none after it was closed.
fn terminal() -> Option<File> {
    File::open("/dev/tty").ok()
}

fn leads_session() -> bool {
    getsid(None).is_ok_and(|leader| leader == getpid())
}
