//! Runs commands of the real binary to their end.

use std::process::{Command, Output};

use serde_json::Value;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_manyway-lab");

/// Runs a command.
pub(crate) fn lab(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).env_remove("MANYWAY_LOG").output().unwrap()
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The documents of its output.
pub(crate) fn json(output: &Output) -> Vec<Value> {
    out(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
