//! Lines for people: data on stdout, messages on stderr.

use std::io::Write as _;

use super::stderr;
use crate::command::error::CommandError;

/// Writes a message.
pub fn note(text: &str) {
    stderr::line(text);
}

/// Writes a line of data, which is there at once.
///
/// # Errors
/// If standard output is closed or full.
pub fn print_line(text: &str) -> Result<(), CommandError> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(())
}
