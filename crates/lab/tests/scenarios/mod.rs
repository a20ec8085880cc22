//! Scenario files: valid ones, errors, and the built-in ones.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod builtin;
mod docs;
mod format;
mod library;
mod variants;
mod wrong;

use manyway_lab::{LabError, Scenario};

/// Reads a scenario that names no other file.
fn parse(text: &str) -> Result<Scenario, LabError> {
    Scenario::parse("mine.toml", text, &|_| Err(std::io::ErrorKind::NotFound.into()))
}

/// Two links and the given text.
fn with(rest: &str) -> Scenario {
    parse(&format!("{LINKS}{rest}")).unwrap()
}

/// Two links.
const LINKS: &str =
    "[links.wifi]\nrate = '30Mbit'\nrtt = '15ms'\n[links.lte]\nrate = '20Mbit'\nrtt = '60ms'\n";
