//! Lines for people: data on stdout, messages on stderr.

use std::io::{self, Write as _};

use crate::CommandError;
use crate::screen::message_width;
use crate::stderr;
use crate::wrap::wrap;

/// Writes a message, wrapped for the terminal if there is one.
pub fn note(text: &str) {
    stderr::line(&wrapped(text));
}

/// A message wrapped for the terminal of standard error; one line without a terminal.
pub fn wrapped(text: &str) -> String {
    wrap(text, message_width())
}

/// Writes a line of data and flushes it.
///
/// # Errors
/// If standard output is closed or full.
pub fn print_line(text: &str) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(())
}
