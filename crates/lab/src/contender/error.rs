//! The error of a name.

use std::fmt;

/// There is no such contender. The text lists the existing ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameError(pub(super) String);

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NameError {}
