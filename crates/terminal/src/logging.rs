//! Sends `tracing` to standard error, at the level of `-v` and `-q`.

use std::io::{self, Write};

use tracing_subscriber::EnvFilter;

use crate::colour::Colour;
use crate::stderr;

/// How much is logged to standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// `-q`: errors alone.
    Quiet,
    /// The number of `-v`.
    Level(u8),
}

impl Verbosity {
    /// The filter of the log.
    fn level(self) -> &'static str {
        match self {
            Self::Quiet => "error",
            Self::Level(0) => "warn",
            Self::Level(1) => "info",
            Self::Level(2) => "debug",
            Self::Level(_) => "trace",
        }
    }
}

/// Formats a line of the log for programs from its level and its text.
pub type Document = fn(level: &str, text: &str) -> String;

/// Starts logging, with lines for people or, by `document`, for programs. `MANYWAY_LOG` holds a filter that overrides
/// `verbosity`. A second call has no effect.
pub fn start(verbosity: Verbosity, document: Option<Document>) {
    let filter = EnvFilter::try_from_env("MANYWAY_LOG").unwrap_or_else(|_| EnvFilter::new(verbosity.level()));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .log_internal_errors(false)
        .with_target(matches!(verbosity, Verbosity::Level(2..)));
    let _ = match document {
        None => {
            let has_colour = Colour::of_messages() == Colour::With;
            lines.with_ansi(has_colour).with_writer(|| stderr::Log).try_init()
        }
        Some(document) => {
            lines.with_ansi(false).without_time().with_writer(move || Documents(document)).try_init()
        }
    };
}

/// Makes a document of each line of `tracing`, so that programs find only documents on standard error.
struct Documents(Document);

impl Write for Documents {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(message);
        let (level, text) = level_and_text(&line);
        stderr::line(&(self.0)(&level, text));
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line of `tracing` begins with its level.
fn level_and_text(line: &str) -> (String, &str) {
    let line = line.trim();
    let (level, text) = line.split_once(' ').unwrap_or(("", line));
    (level.to_lowercase(), text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_tracing_has_its_level_and_its_text() {
        let (level, text) = level_and_text(" WARN sat0: \"half\" of 1 MB is used reason=x\n");
        assert_eq!((level.as_str(), text), ("warn", "sat0: \"half\" of 1 MB is used reason=x"));
    }
}
