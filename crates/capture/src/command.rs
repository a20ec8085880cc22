//! The command that runs in the namespace.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;

/// A running command, a child of this process. Dropping it does not end it: it keeps running without any network.
#[derive(Debug)]
pub struct RunningCommand(Child);

/// A signal for the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandSignal {
    /// SIGHUP.
    HangUp,
    /// SIGINT.
    Interrupt,
    /// SIGQUIT.
    Quit,
    /// SIGTERM.
    Terminate,
}

impl RunningCommand {
    pub(crate) fn new(child: Child) -> Self {
        Self(child)
    }

    /// Its process ID; `None` once [`RunningCommand::wait`] has returned.
    pub fn id(&self) -> Option<u32> {
        self.0.id()
    }

    /// Waits for its end, and returns its exit status as shells have it: 128 and the number of the signal that ended
    /// it. Processes that it has started may go on; cancelling the wait and calling it again is possible.
    ///
    /// # Errors
    /// The system does not tell.
    pub async fn wait(&mut self) -> io::Result<u8> {
        self.0.wait().await.map(status)
    }

    /// Sends it a signal. One that has ended gets none.
    ///
    /// # Errors
    /// The command runs as another user.
    pub fn signal(&self, signal: CommandSignal) -> io::Result<()> {
        // The process ID stays the child's until the child has been waited for.
        let Some(pid) = self.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)) else { return Ok(()) };
        let signal = match signal {
            CommandSignal::HangUp => Signal::HUP,
            CommandSignal::Interrupt => Signal::INT,
            CommandSignal::Quit => Signal::QUIT,
            CommandSignal::Terminate => Signal::TERM,
        };
        Ok(kill_process(pid, signal)?)
    }
}

fn status(status: ExitStatus) -> u8 {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    number.and_then(|number| u8::try_from(number).ok()).unwrap_or(u8::MAX)
}
