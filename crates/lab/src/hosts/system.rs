//! Calls of `ip`.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::LabError;

/// Runs `ip` and returns its output.
pub(super) fn ip(arguments: &[&str]) -> Result<String, LabError> {
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output().map_err(not_started)?;
    finished(&output, &arguments.join(" "))
}

/// Runs the lines of `script` as commands of `ip` in a network namespace, until one fails; those that begin with `-6`
/// after the others, since `ip` accepts a family for all lines only.
pub(super) fn ip_script(namespace: &str, script: &str) -> Result<(), LabError> {
    let (mut any, mut six) = (String::new(), String::new());
    for line in script.lines() {
        let (lines, line) = line.strip_prefix("-6 ").map_or((&mut any, line), |line| (&mut six, line));
        lines.push_str(line);
        lines.push('\n');
    }
    batch(&["-n", namespace, "-batch", "-"], &any)?;
    if six.is_empty() { Ok(()) } else { batch(&["-6", "-n", namespace, "-batch", "-"], &six) }
}

/// Runs the lines of `script` as far as possible: they may have no effect.
pub(super) fn ip_attempts(namespace: &str, script: &str) {
    drop(batch(&["-n", namespace, "-force", "-batch", "-"], script));
}

fn batch(arguments: &[&str], script: &str) -> Result<(), LabError> {
    let mut child = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(not_started)?;
    if let Some(mut input) = child.stdin.take() {
        // If `ip` ends early, its status says so.
        drop(input.write_all(script.as_bytes()));
    }
    let output = child.wait_with_output().map_err(not_started)?;
    finished(&output, script).map(drop)
}

fn finished(output: &Output, what: &str) -> Result<String, LabError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(LabError::System(format!("ip refuses ({}): {}", what.trim(), words.trim())))
}

fn not_started(error: std::io::Error) -> LabError {
    LabError::Io { doing: "running ip".into(), error }
}
