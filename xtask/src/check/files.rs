//! The text files of the repository.

use std::io;
use std::path::Path;
use std::process::Command;

/// A text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceFile {
    /// From the root of the repository, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl SourceFile {
    pub(crate) fn is_rust(&self) -> bool {
        self.has_extension("rs")
    }

    pub(crate) fn is_specification(&self) -> bool {
        self.path.starts_with("docs/specification/") && self.has_extension("md")
    }

    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Reads every file that git tracks or would track, other than binary ones.
pub(crate) fn tracked(root: &Path) -> io::Result<Vec<SourceFile>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let mut files = Vec::new();
    for path in output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
        let path = String::from_utf8_lossy(path).into_owned();
        match std::fs::read_to_string(root.join(&path)) {
            Ok(text) => files.push(SourceFile { path, text }),
            // Deleted but not committed, or not UTF-8.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

/// The code of a line: without the content of string literals and comments.
///
/// Literals over several lines are not recognised.
pub(crate) fn code_of(line: &str) -> String {
    let mut code = String::with_capacity(line.len());
    let mut characters = line.chars().peekable();
    let mut in_string = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' if in_string => drop(characters.next()),
            '"' => {
                in_string = !in_string;
                code.push('"');
            }
            '/' if !in_string && characters.peek() == Some(&'/') => break,
            // A quote as a character literal begins no string.
            '\'' if !in_string && characters.peek() == Some(&'"') => drop(characters.next()),
            _ if in_string => {}
            _ => code.push(character),
        }
    }
    code
}

#[cfg(test)]
pub(crate) fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::code_of;

    #[test]
    fn strings_and_comments_are_not_code() {
        assert_eq!(code_of(r#"let a = "x // \" y"; // z"#), r#"let a = ""; "#);
        assert_eq!(code_of(r#"if c == '"' { d }"#), "if c == ' { d }");
        assert_eq!(code_of("/// doc"), "");
    }
}
