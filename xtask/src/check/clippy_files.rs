//! A `clippy.toml` of a crate replaces that of the root, so it has to repeat it.

use super::Finding;
use super::files::SourceFile;

/// The crates that forbid more than the others.
const CRATES: [&str; 4] = ["units", "wire", "proto", "sim"];

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let Some(root) = text("clippy.toml") else {
        return vec![Finding::new("clippy.toml", 0, "is missing")];
    };
    let mut findings = Vec::new();
    for name in CRATES {
        let path = format!("crates/{name}/clippy.toml");
        let Some(own) = text(&path) else {
            findings.push(Finding::new(&path, 0, "is missing"));
            continue;
        };
        for line in settings(root).filter(|line| !settings(own).any(|own| own == *line)) {
            findings.push(Finding::new(&path, 0, format!("lacks the line of the root file: {line}")));
        }
    }
    findings
}

fn settings(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::super::files::file;
    use super::{CRATES, check};

    #[test]
    fn a_line_of_the_root_file_that_a_crate_lacks_is_found() {
        let mut files = vec![file("clippy.toml", "# all\na = 1\nb = 2\n")];
        for name in CRATES {
            files.push(file(&format!("crates/{name}/clippy.toml"), "b = 2\na = 1\nc = 3\n"));
        }
        assert_eq!(check(&files), []);
        files[3].text = "a = 1\nb = 3\n".into();
        let findings = check(&files);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].file.contains("proto") && findings[0].text.ends_with("b = 2"));
    }

    #[test]
    fn a_missing_file_is_found() {
        assert_eq!(check(&[]).len(), 1);
        assert_eq!(check(&[file("clippy.toml", "")]).len(), CRATES.len());
    }
}
