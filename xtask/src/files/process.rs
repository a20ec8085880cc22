//! The binary as a monitored child process.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::output::text;

/// A network namespace with a loopback interface of its own, so that its counters count nothing else.
#[derive(Debug)]
pub(super) struct Namespace(String);

impl Namespace {
    pub(super) fn new(megabits: u64) -> Result<Self, String> {
        let namespace = Self(format!("mwx{}", std::process::id()));
        run("ip", &["netns", "add", &namespace.0])
            .map_err(|error| format!("network namespaces need root: {error}"))?;
        run("ip", &["-n", &namespace.0, "link", "set", "lo", "up"])?;
        let rate = format!("{megabits}mbit");
        let limit =
            ["qdisc", "add", "dev", "lo", "root", "tbf", "rate", &rate, "burst", "512k", "latency", "20ms"];
        run("ip", &[&["netns", "exec", &namespace.0, "tc"][..], &limit].concat())?;
        Ok(namespace)
    }

    /// Bytes that went over the loopback interface so far.
    pub(super) fn bytes(&self) -> Result<u64, String> {
        let printed = run("ip", &["-n", &self.0, "-j", "-s", "link", "show", "lo"])?;
        let json: serde_json::Value = serde_json::from_str(&printed).map_err(text)?;
        let bytes = json.pointer("/0/stats64/rx/bytes").and_then(serde_json::Value::as_u64);
        bytes.ok_or_else(|| "the interface has no counters".to_owned())
    }

    /// The binary inside, with its keys in a directory.
    pub(super) fn command(&self, keys: &Path) -> Result<Command, String> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(program()?).env("MANYWAY_HOME", keys);
        Ok(command)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = run("ip", &["netns", "delete", &self.0]);
    }
}

/// A running binary. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    out: Option<BufReader<ChildStdout>>,
    /// The largest observed memory, in KiB.
    pub(super) peak: u64,
}

impl Process {
    pub(super) fn start(mut command: Command) -> Result<Self, String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(text)?;
        let out = child.stdout.take().map(BufReader::new);
        Ok(Self { child, out, peak: 0 })
    }

    /// Starts a server of a directory, which prints its ticket first. Restarted with the same keys at the same address,
    /// it is the same server.
    pub(super) fn serve(
        mut command: Command,
        listen: &str,
        directory: &Path,
    ) -> Result<(Self, String), String> {
        command.args(["serve", "--listen", listen, "--dir"]).arg(directory);
        let mut server = Self::start(command)?;
        let mut ticket = String::new();
        if let Some(out) = &mut server.out {
            out.read_line(&mut ticket).map_err(text)?;
        }
        let ticket = ticket.trim().to_owned();
        if ticket.is_empty() { Err("the server printed no ticket".to_owned()) } else { Ok((server, ticket)) }
    }

    /// Samples its memory; returns `false` once it has ended.
    pub(super) fn watch(&mut self) -> Result<bool, String> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|line| line.split_whitespace().next()?.parse().ok());
        self.peak = self.peak.max(peak.unwrap_or(0));
        Ok(self.child.try_wait().map_err(text)?.is_none())
    }

    /// Kills it, as a crash does.
    pub(super) fn kill(&mut self) -> Result<(), String> {
        self.child.kill().map_err(text)?;
        self.child.wait().map(drop).map_err(text)
    }

    /// Waits for its end, which must be successful; returns the last document that it printed.
    pub(super) fn end(&mut self) -> Result<serde_json::Value, String> {
        match self.outcome()? {
            (Some(0), Some(document)) => Ok(document),
            (status, document) => Err(format!("the client ended with status {status:?}: {document:?}")),
        }
    }

    /// Waits for its end: its status, if no signal ended it, and the last document that it printed.
    pub(super) fn outcome(&mut self) -> Result<(Option<i32>, Option<serde_json::Value>), String> {
        while self.watch()? {
            std::thread::sleep(POLL);
        }
        let mut printed = String::new();
        if let Some(out) = &mut self.out {
            out.read_to_string(&mut printed).map_err(text)?;
        }
        let status = self.child.wait().map_err(text)?;
        Ok((status.code(), printed.lines().last().and_then(|line| serde_json::from_str(line).ok())))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary with its keys in a directory, so that those of the user stay as they are.
pub(super) fn with_keys(keys: &Path) -> Result<Command, String> {
    let mut command = Command::new(program()?);
    command.env("MANYWAY_HOME", keys);
    Ok(command)
}

/// The binary of the same build, beside this one.
fn program() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(text)?.with_file_name("manyway");
    if program.exists() {
        return Ok(program);
    }
    Err("there is no binary of the same build; cargo build --release -p manyway-cli".to_owned())
}

/// Runs a program to its end; it must succeed.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output =
        Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}", arguments.join(" "), said.trim()))
}

/// Interval of sampling a process.
pub(super) const POLL: Duration = Duration::from_millis(10);
