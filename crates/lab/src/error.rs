//! Why something did not run.

use std::fmt;
use std::io;

/// Why the lab cannot do what it was asked for. Not: a contender that fails, which is a result.
#[derive(Debug)]
#[non_exhaustive]
pub enum LabError {
    /// A file cannot be read or written, a program not started.
    Io {
        /// What was being done, such as `reading wifi.toml`.
        doing: String,
        /// What the system said.
        error: io::Error,
    },
    /// A scenario is wrong. The text names file, line and field.
    Scenario(String),
    /// This machine, or this user, cannot do it; the text says what is missing and what can be done instead.
    Unsupported(String),
    /// A helper of the system refused (`ip`, `sysctl`); the text has its words.
    System(String),
    /// Ctrl-C or SIGTERM.
    Interrupted,
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, error } => write!(f, "{doing}: {error}"),
            Self::Scenario(text) | Self::Unsupported(text) | Self::System(text) => f.write_str(text),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for LabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            Self::Scenario(_) | Self::Unsupported(_) | Self::System(_) | Self::Interrupted => None,
        }
    }
}
