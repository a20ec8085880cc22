//! Runs commands of the real binary that create hosts.

use std::process::Output;

use manyway_sim::skipped::skip;

use crate::common::command::{err, lab};

/// Runs a command that creates hosts. If it cannot, the test is skipped; then its status is 1, and it prints nothing
/// else.
pub(crate) fn with_hosts(arguments: &[&str]) -> Option<Output> {
    let output = lab(arguments);
    if output.status.code() == Some(1) && output.stdout.is_empty() {
        skip(err(&output));
        return None;
    }
    Some(output)
}
