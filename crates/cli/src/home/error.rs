//! Errors of the key files.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::output::cause;

/// A key file cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum HomeError {
    /// No variable names the directory.
    Nowhere,
    /// The system refuses.
    System {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Users other than the owner may read or write the file.
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is damaged.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault, with its line where there is one.
        reason: String,
    },
    /// The system provides no random numbers.
    NoRandomness,
}

impl HomeError {
    pub(super) fn damaged(path: &Path, reason: &dyn fmt::Display) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.to_string() }
    }

    pub(super) fn system(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::System { path, source }
    }
}

impl fmt::Display for HomeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => {
                write!(f, "there is no home directory to keep keys in; set MANYWAY_HOME to a directory")
            }
            Self::System { path, source } => {
                write!(f, "{}: {}; MANYWAY_HOME can name another directory", path.display(), cause(source))
            }
            Self::Open { path, mode } => write!(
                f,
                "{path} can be read or changed by others (mode {mode:04o}), so it is not used; run: chmod 600 {path}",
                path = path.display()
            ),
            Self::Damaged { path, reason } => {
                write!(f, "{}: {}", path.display(), reason.trim_end())
            }
            Self::NoRandomness => write!(f, "the system gives no random numbers"),
        }
    }
}

impl std::error::Error for HomeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            Self::Nowhere | Self::Open { .. } | Self::Damaged { .. } | Self::NoRandomness => None,
        }
    }
}
