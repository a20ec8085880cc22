//! A process that tells by lines on its standard output how far it is.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::process::Trouble;
use crate::error::LabError;
use crate::stop::Stop;

/// A process that runs beside the agents, or in their place. Dropping it kills it.
pub(crate) struct Helper {
    child: Child,
    what: &'static str,
    lines: Receiver<String>,
    errors: Arc<Mutex<String>>,
}

impl Helper {
    /// Starts a command; `what` is its name in messages.
    pub(crate) fn start(what: &'static str, mut command: Command) -> Result<Self, Trouble> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let io = |error| Trouble::Lab(LabError::Io { doing: format!("starting {what}"), error });
        let mut child = command.spawn().map_err(io)?;
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                // The pipe is read to its end, also when nothing receives the lines: the child must not meet a closed pipe.
                lines.for_each(|line| drop(sender.send(line)));
            });
        }
        let errors = Arc::<Mutex<String>>::default();
        if let Some(output) = child.stderr.take() {
            let errors = Arc::clone(&errors);
            thread::spawn(move || keep(output, &errors));
        }
        Ok(Self { child, what, lines, errors })
    }

    /// The next line of its output.
    pub(crate) fn line(&mut self, patience: Duration, stop: &Stop) -> Result<String, Trouble> {
        let deadline = Instant::now() + patience;
        loop {
            stop.check().map_err(Trouble::Lab)?;
            match self.poll(LOOK)? {
                Some(line) => return Ok(line),
                None if Instant::now() < deadline => {}
                None => {
                    return Err(Trouble::Failure(format!("{} is not ready: {}", self.what, self.words())));
                }
            }
        }
    }

    /// The next line of its output, if it comes soon.
    pub(crate) fn poll(&mut self, patience: Duration) -> Result<Option<String>, Trouble> {
        match self.lines.recv_timeout(patience) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
                // Its last words may still be on their way.
                thread::sleep(LOOK);
                Err(Trouble::Failure(format!("{} ended with {status}: {}", self.what, self.words())))
            }
        }
    }

    /// Interrupts it, and lets it end by itself for a while.
    pub(crate) fn interrupt(&mut self, patience: Duration) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let deadline = Instant::now() + patience;
        // It may have ended by itself.
        let _ = id.map(|id| kill_process(id, Signal::INT));
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(LOOK);
        }
    }

    /// What it said for people, which is errors.
    pub(crate) fn words(&self) -> String {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).trim().to_owned()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It may have ended by itself. What it made goes with its network namespace.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps the beginning of what a process says.
fn keep(output: ChildStderr, words: &Mutex<String>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        if words.len() < MOST_WORDS {
            *words += &line;
            words.push('\n');
        }
    }
}

const LOOK: Duration = Duration::from_millis(50);
/// Bytes of error messages that are kept.
const MOST_WORDS: usize = 2000;
