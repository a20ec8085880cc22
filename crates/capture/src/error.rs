//! Why a command was not run, and why there is no tunnel.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// Why a command was not run.
#[derive(Debug)]
#[non_exhaustive]
pub enum CaptureError {
    /// The system refuses the namespaces or the device. The text names the cause as far as it can be found out, and
    /// what to do.
    Refused(String),
    /// The command does not exist (`status` 127) or cannot be executed (126), as shells have it.
    Command {
        /// The exit status that shells use for it.
        status: u8,
        /// Why, with the command's name.
        text: String,
    },
    /// The stage could not be started, or ended too early.
    Io(io::Error),
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(text) | Self::Command { text, .. } => f.write_str(text),
            Self::Io(error) => write!(f, "the process for the command was not started: {error}"),
        }
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Refused(_) | Self::Command { .. } => None,
        }
    }
}

impl From<io::Error> for CaptureError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Why there is no tunnel.
#[derive(Debug)]
pub struct TunnelError {
    what: Cow<'static, str>,
    error: io::Error,
}

impl fmt::Display for TunnelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.error)
    }
}

impl std::error::Error for TunnelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Makes an error of what has failed.
pub(crate) fn failed(what: impl Into<Cow<'static, str>>) -> impl FnOnce(io::Error) -> TunnelError {
    move |error| TunnelError { what: what.into(), error }
}
