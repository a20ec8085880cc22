//! A finding of a check.

use std::fmt;

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file, from the root of the repository.
    pub file: String,
    /// The line, from 1; 0 if the whole file is meant.
    pub line: usize,
    /// The violation.
    pub text: String,
}

impl Finding {
    pub(super) fn new(file: &str, line: usize, text: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}", self.file, self.text)
        } else {
            write!(f, "{}:{}: {}", self.file, self.line, self.text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Finding;

    #[test]
    fn a_finding_reads_like_a_compiler_message() {
        assert_eq!(Finding::new("a.rs", 3, "wrong").to_string(), "a.rs:3: wrong");
        assert_eq!(Finding::new("a.rs", 0, "wrong").to_string(), "a.rs: wrong");
    }
}
