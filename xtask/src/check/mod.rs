//! The rules of this repository that no ready tool knows, checked one by one.

mod citations;
mod clippy_files;
mod files;
mod layers;
mod leftovers;
mod licences;
mod links;
mod machine_paths;
mod packaging;
mod path_words;
mod shape;

use std::fmt;
use std::io;
use std::path::Path;

use files::SourceFile;

/// A rule that is broken somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file, from the root of the repository.
    pub file: String,
    /// The line, from 1; 0 if the whole file is meant.
    pub line: usize,
    /// What is wrong.
    pub text: String,
}

impl Finding {
    fn new(file: &str, line: usize, text: impl Into<String>) -> Self {
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

/// Runs every check on the repository at `root`.
///
/// # Errors
/// If `git` or `cargo metadata` can not be run, or a file can not be read.
pub fn run(root: &Path) -> io::Result<Vec<Finding>> {
    let files = files::tracked(root)?;
    let mut findings = check_files(&files);
    findings.extend(licences::check(&licences::metadata(root)?));
    Ok(findings)
}

fn check_files(files: &[SourceFile]) -> Vec<Finding> {
    [
        clippy_files::check,
        citations::check,
        shape::check,
        path_words::check,
        layers::check,
        links::check,
        leftovers::check,
        machine_paths::check,
        packaging::check,
    ]
    .iter()
    .flat_map(|check| check(files))
    .collect()
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
