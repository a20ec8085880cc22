//! Why a download failed.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::sum::Sha256;

/// Why there is no file.
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchError {
    /// The address is not one of HTTP.
    Address {
        /// What is wrong with it.
        reason: String,
    },
    /// The host has no address.
    Resolve {
        /// Its name.
        host: String,
        /// The system's reason.
        source: io::Error,
    },
    /// No interface leads to the host.
    NoInterface {
        /// Its name.
        host: String,
        /// Why the interfaces do not.
        reason: String,
    },
    /// No interface reached the server.
    Unreachable {
        /// The server.
        host: String,
        /// Why, by interface.
        reason: String,
    },
    /// The server could not prove who it is.
    Untrusted {
        /// Its name.
        host: String,
        /// What is wrong.
        reason: String,
    },
    /// The server answered with an error.
    Status {
        /// The status of HTTP.
        code: u16,
        /// Its name, such as `Not Found`.
        reason: String,
        /// What was asked for.
        address: String,
    },
    /// Too many redirects, or one that is not followed.
    Redirect {
        /// What is wrong.
        reason: String,
    },
    /// The answer of the server breaks the rules of HTTP.
    Protocol {
        /// What is wrong.
        reason: String,
    },
    /// The file changed on the server while it was fetched.
    Changed,
    /// The download broke.
    Broken {
        /// Why.
        reason: String,
        /// Whether the bytes that arrived are of use next time.
        is_kept: bool,
    },
    /// The caller stopped it.
    Stopped {
        /// Whether the bytes that arrived are of use next time.
        is_kept: bool,
    },
    /// The content has another SHA-256 sum than it should.
    Sum {
        /// The sum of the content.
        found: Sha256,
        /// Whether the content is gone; what was written to a pipe is not.
        is_removed: bool,
    },
    /// Another process fetches the same file.
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be stored.
    Local {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl FetchError {
    /// Whether another attempt may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Broken { .. } | Self::Changed => true,
            // Request timeout, too early, too many requests, and failures of a server and those behind it.
            Self::Status { code, .. } => matches!(code, 408 | 425 | 429 | 500 | 502 | 503 | 504),
            Self::Address { .. }
            | Self::Resolve { .. }
            | Self::NoInterface { .. }
            | Self::Unreachable { .. }
            | Self::Untrusted { .. }
            | Self::Redirect { .. }
            | Self::Protocol { .. }
            | Self::Stopped { .. }
            | Self::Sum { .. }
            | Self::Busy { .. }
            | Self::Local { .. } => false,
        }
    }

    pub(crate) fn local(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Local { path, source }
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { reason } => write!(f, "invalid address: {reason}"),
            Self::Resolve { host, source } => write!(f, "{host:?} could not be looked up: {source}"),
            Self::NoInterface { host, reason } if reason.is_empty() => {
                write!(f, "no interface leads to {host}")
            }
            Self::NoInterface { host, reason } => write!(f, "no interface leads to {host}: {reason}"),
            Self::Unreachable { host, reason } => write!(f, "{host} is not reached: {reason}"),
            Self::Untrusted { host, reason } => {
                write!(f, "the certificate of {host} is not accepted: {reason}")
            }
            Self::Status { code, reason, address } => {
                write!(f, "the server answered {code} {reason} to {address}")
            }
            Self::Redirect { reason } | Self::Protocol { reason } | Self::Broken { reason, .. } => {
                f.write_str(reason)
            }
            Self::Changed => f.write_str("the file changed on the server while it was fetched"),
            Self::Stopped { .. } => f.write_str("stopped"),
            Self::Sum { found, is_removed } => {
                write!(f, "the content is not what --sha256 says: its sum is {found}")?;
                f.write_str(if *is_removed { "; what was fetched is removed" } else { "" })
            }
            Self::Busy { path } => write!(f, "{}: another process is fetching this file", path.display()),
            Self::Local { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for FetchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Resolve { source, .. } | Self::Local { source, .. } => Some(source),
            Self::Address { .. }
            | Self::NoInterface { .. }
            | Self::Unreachable { .. }
            | Self::Untrusted { .. }
            | Self::Status { .. }
            | Self::Redirect { .. }
            | Self::Protocol { .. }
            | Self::Changed
            | Self::Broken { .. }
            | Self::Stopped { .. }
            | Self::Sum { .. }
            | Self::Busy { .. } => None,
        }
    }
}

/// Why one interface failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No connection, a timeout, an early end.
    Network(String),
    /// The server could not prove who it is.
    Untrusted(String),
    /// An error of HTTP.
    Status { code: u16, reason: String, retry_after: Option<Duration> },
    /// The server has another version of the file.
    Changed,
    /// An answer that does not fit the request.
    Unfit(String),
}

impl Fault {
    /// Whether trying again is of use as long as other attempts are.
    pub(crate) fn is_of_network(&self) -> bool {
        matches!(self, Self::Network(_))
    }

    /// How long the server wants to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::Network(_) | Self::Untrusted(_) | Self::Changed | Self::Unfit(_) => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(reason) | Self::Unfit(reason) => f.write_str(reason),
            Self::Untrusted(reason) => write!(f, "the certificate is not accepted: {reason}"),
            Self::Status { code, reason, .. } => write!(f, "the server answered {code} {reason}"),
            Self::Changed => f.write_str("the server has another version of the file there"),
        }
    }
}
