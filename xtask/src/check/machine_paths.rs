//! The repository is independent of any machine: no absolute path of a disk, no registry but the public one.

use super::Finding;
use super::files::SourceFile;

/// Directories of a single machine; in two halves, so that this file does not match itself.
const PLACES: [(&str, &str); 3] = [("/wo", "rk/"), ("/ro", "ot/"), ("/ho", "me/")];
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (line, text) in file.lines() {
            if let Some(place) =
                PLACES.iter().map(|(a, b)| format!("{a}{b}")).find(|place| names(text, place))
            {
                findings.push(Finding::new(
                    &file.path,
                    line,
                    format!("names a place on one machine: {place}"),
                ));
            }
            let is_lock = file.path == "Cargo.lock";
            if is_lock && text.starts_with("source = ") && !text.contains(REGISTRY) {
                findings.push(Finding::new(&file.path, line, "a package does not come from crates.io"));
            }
        }
    }
    findings
}

/// Whether `place` is in the line as the beginning of a path, not as a part of one.
fn names(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line.get(..at).unwrap_or_default().chars().next_back();
        before.is_none_or(|character| !character.is_alphanumeric() && !"._-/~}*".contains(character))
    })
}

#[cfg(test)]
mod tests {
    use super::super::files::file;
    use super::{PLACES, check};

    #[test]
    fn a_path_of_one_machine_is_found() {
        for (a, b) in PLACES {
            assert_eq!(check(&[file("a.md", &format!("see {a}{b}x"))]).len(), 1);
            assert_eq!(check(&[file("a.md", &format!("see net{a}{b}x, ..{a}{b}x"))]), []);
        }
    }

    #[test]
    fn a_package_from_elsewhere_is_found() {
        let lock = |source: &str| file("Cargo.lock", &format!("source = \"{source}\"\n"));
        assert_eq!(check(&[lock(super::REGISTRY)]), []);
        assert_eq!(check(&[lock("git+https://example.org/a.git")]).len(), 1);
    }
}
