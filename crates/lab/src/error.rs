//! The errors of the lab.

use std::fmt;
use std::io;

/// Why the lab cannot do what was requested. A failing contender is no error but a result.
#[derive(Debug)]
#[non_exhaustive]
pub enum LabError {
    /// A file cannot be read or written, or a program cannot be started.
    Io {
        /// The operation, such as `reading wifi.toml`.
        doing: String,
        /// The error of the system.
        error: io::Error,
    },
    /// A scenario is invalid. The text names file, line and field.
    Scenario(String),
    /// This machine or user cannot do it; the text names what is missing and the alternative.
    Unsupported(String),
    /// A system helper failed (`ip`, `sysctl`); the text has its message.
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
