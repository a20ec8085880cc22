//! An agent as the lab drives it: a child process that answers orders.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::agent::document::{Assignment, Order, Word};
use crate::error::LabError;
use crate::stop::Stop;

/// A running agent. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    words: Receiver<Word>,
    errors: Option<JoinHandle<String>>,
    /// Its name in messages.
    who: &'static str,
}

/// Why an agent does not answer as it should.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The contender failed, or the agent did.
    Failure(String),
    /// The lab itself cannot continue.
    Lab(LabError),
}

impl Agent {
    /// Starts `command` with the argument `lab-agent`, and sends it its assignment.
    pub(crate) fn start(
        mut command: Command,
        who: &'static str,
        assignment: &Assignment,
    ) -> Result<Self, LabError> {
        command.arg("lab-agent").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for the lab, which then ends its agents.
        command.process_group(0);
        let io = |error| LabError::Io { doing: format!("starting the agent of the {who}"), error };
        let mut child = command.spawn().map_err(io)?;
        let (sender, words) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                // Ends with the output, or when the receiver is gone.
                let _ =
                    lines.map(|line| understood(&line)).try_for_each(|word| sender.send(word).map_err(drop));
            });
        }
        let errors = child.stderr.take().map(|mut stream| {
            std::thread::spawn(move || {
                let mut text = String::new();
                // Unreadable output is dropped.
                let _ = stream.by_ref().take(ERRORS).read_to_string(&mut text);
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
                text
            })
        });
        let input = child.stdin.take();
        let mut agent = Self { child, input, words, errors, who };
        let document = serde_json::to_string(assignment)
            .map_err(|error| LabError::System(format!("writing the assignment: {error}")))?;
        agent.write(&document);
        Ok(agent)
    }

    /// Sends an order. If it does not arrive, the answer will be missing.
    pub(crate) fn order(&mut self, order: Order) {
        if let Ok(line) = serde_json::to_string(&order) {
            self.write(&line);
        }
    }

    /// Waits for the next answer.
    pub(crate) fn word(&mut self, deadline: Instant, stop: &Stop) -> Result<Word, Trouble> {
        loop {
            stop.check().map_err(Trouble::Lab)?;
            if let Some(word) = self.poll(LOOK)? {
                return Ok(word);
            }
            if Instant::now() >= deadline {
                return Err(Trouble::Failure(format!("the agent of the {} hangs", self.who)));
            }
        }
    }

    /// The next answer, if it comes soon.
    pub(crate) fn poll(&mut self, patience: Duration) -> Result<Option<Word>, Trouble> {
        match self.words.recv_timeout(patience) {
            Ok(Word::Failed { text }) => Err(Trouble::Failure(format!("{}: {text}", self.who))),
            Ok(word) => Ok(Some(word)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.broken()),
        }
    }

    /// Waits, for a limited time, until it has ended by itself after the last order.
    pub(crate) fn end(mut self) {
        self.input = None;
        let deadline = Instant::now() + LAST_WORDS;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn write(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            // If the agent is gone, the answer will be missing.
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
    }

    /// The error of an agent that ended without an answer.
    fn broken(&mut self) -> Trouble {
        self.input = None;
        let deadline = Instant::now() + LAST_WORDS;
        let mut status: Option<ExitStatus> = None;
        while status.is_none() && Instant::now() < deadline {
            status = self.child.try_wait().ok().flatten();
            std::thread::sleep(Duration::from_millis(5));
        }
        let how =
            status.map_or_else(|| "closed its output".to_owned(), |status| format!("ended with {status}"));
        let errors = if status.is_some() { self.errors.take() } else { None };
        let errors = errors.and_then(|errors| errors.join().ok()).unwrap_or_default();
        let errors = errors.trim();
        let colon = if errors.is_empty() { "" } else { ": " };
        Trouble::Failure(format!("the agent of the {} {how}{colon}{errors}", self.who))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // An agent ends its programs when its input ends; it gets a moment for that.
        self.input = None;
        let deadline = Instant::now() + LAST_WORDS;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            // It may have ended at this moment.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn understood(line: &str) -> Word {
    let strange = |error| Word::Failed { text: format!("not understood: {error}: {line:.80}") };
    serde_json::from_str(line).unwrap_or_else(strange)
}

/// Interval of checking for an interruption.
const LOOK: Duration = Duration::from_millis(50);
/// Time for an agent to end.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Bytes of error messages that are kept.
const ERRORS: u64 = 4000;
