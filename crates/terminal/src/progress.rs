//! Decides how progress is shown.

use std::io::IsTerminal as _;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressMode {
    /// Lines that are redrawn in place.
    Terminal,
    /// A line from time to time.
    Plain,
    /// Nothing.
    Silent,
}

impl ProgressMode {
    /// The choice for standard error, unless the user wants silence.
    pub fn detect(quiet: bool) -> Self {
        if quiet {
            Self::Silent
        } else if std::io::stderr().is_terminal() {
            Self::Terminal
        } else {
            Self::Plain
        }
    }
}
