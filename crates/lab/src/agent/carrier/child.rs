//! A command that runs until it is killed, with its error messages.

use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A command of a user, run by the shell in a process group of its own. Dropping it kills the whole group.
pub(super) struct Running {
    child: Child,
    /// Also the ID of its process group.
    id: Option<Pid>,
    what: &'static str,
    command: String,
    errors: Arc<Mutex<String>>,
    collector: Option<JoinHandle<()>>,
}

impl Running {
    pub(super) fn start(what: &'static str, command: &str) -> Result<Self, String> {
        let started = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        let mut child = started.map_err(|error| format!("starting the {what} `{command}`: {error}"))?;
        let errors = Arc::<Mutex<String>>::default();
        let collector = child.stderr.take().map(|stream| tokio::spawn(collect(stream, Arc::clone(&errors))));
        let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Ok(Self { child, id, what, command: command.to_owned(), errors, collector })
    }

    pub(super) fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    pub(super) fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// How it ended, as a sentence, if it has.
    pub(super) async fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(self.words(status).await)
    }

    /// Lets it end by itself for a while, then kills it and its children. A failure is one of its own.
    pub(super) async fn end(mut self, patience: Duration) -> Option<String> {
        let by_itself = timeout(patience, self.child.wait()).await;
        if let Ok(status) = by_itself {
            let status = status.ok()?;
            return if status.success() { None } else { Some(self.words(status).await) };
        }
        self.signal(Signal::TERM);
        if timeout(LAST_WORDS, self.child.wait()).await.is_err() {
            self.signal(Signal::KILL);
            // No process survives this, so the wait ends.
            drop(self.child.wait().await);
        }
        None
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // The group may be empty.
            let _ = kill_process_group(id, signal);
        }
    }

    async fn words(&mut self, status: ExitStatus) -> String {
        if let Some(collector) = self.collector.take() {
            // Its children may keep its output open; the messages until then are enough.
            let _ = timeout(LAST_WORDS, collector).await;
        }
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let errors = errors.trim();
        let colon = if errors.is_empty() { "" } else { ": " };
        format!("the {} `{}` ended with {status}{colon}{errors}", self.what, self.command)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its children may live on after it.
        self.signal(Signal::KILL);
    }
}

/// Keeps the last messages.
async fn collect(mut stream: ChildStderr, errors: Arc<Mutex<String>>) {
    let mut buffer = [0; 1024];
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        let new = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default()).into_owned();
        let mut errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.push_str(&new);
        let surplus = errors.len().saturating_sub(KEPT);
        let start = (surplus..).find(|at| errors.is_char_boundary(*at)).unwrap_or(0);
        errors.drain(..start);
    }
}

/// Bytes of error messages that are kept.
const KEPT: usize = 2000;
/// Time for it to end after the request, and for its messages to be read after its end.
const LAST_WORDS: Duration = Duration::from_millis(500);
