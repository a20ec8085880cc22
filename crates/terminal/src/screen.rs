//! The capabilities of the terminals of standard output and standard error.

use std::io::{self, IsTerminal as _};

use crate::measure::clip;

/// The width without a terminal. Nothing is wrapped or cut: each row stays one line for other programs.
pub const UNLIMITED: usize = 10_000;
/// The least width: a smaller reported one is ignored.
const LEAST: usize = 20;

/// Columns of standard output; practically unlimited if it is no terminal.
pub fn output_width() -> usize {
    width_of_output().unwrap_or(UNLIMITED)
}

/// The same of standard error.
pub fn message_width() -> usize {
    width_of_messages().unwrap_or(UNLIMITED)
}

/// Columns of the terminal behind standard output, if there is one.
pub fn width_of_output() -> Option<usize> {
    let out = io::stdout();
    if out.is_terminal() { width(&out) } else { None }
}

/// Columns of the terminal behind standard error, if there is one.
pub fn width_of_messages() -> Option<usize> {
    let err = io::stderr();
    if err.is_terminal() { width(&err) } else { None }
}

/// Height of the terminal of standard error, if it is one.
#[cfg(unix)]
pub fn height_of_messages() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    Some(usize::from(size.ws_row)).filter(|rows| *rows > 0)
}

/// Truncates a line so that a terminal on standard output does not wrap it; without a terminal the line is unchanged.
pub fn fit(line: &str) -> String {
    clip(line, output_width())
}

/// Whether a live screen can be shown: standard output is a terminal that can move its cursor.
pub fn is_live() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stdout().is_terminal() && !is_dumb
}

#[cfg(unix)]
fn width(file: &impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(file).ok()?;
    let columns = usize::from(size.ws_col);
    (columns > 0).then(|| columns.max(LEAST))
}

#[cfg(not(unix))]
fn width<T>(_file: &T) -> Option<usize> {
    crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns).max(LEAST))
}
