//! The files that the walks of the architecture name exist, and each walk is short.

use super::Finding;
use super::files::SourceFile;
use crate::shape::walks::{DOCUMENT, Walk, walks};

/// Most files of a walk.
const LONGEST: usize = 12;

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else { return Vec::new() };
    walks(&document.text).iter().flat_map(|walk| check_walk(walk, files)).collect()
}

fn check_walk(walk: &Walk, files: &[SourceFile]) -> Vec<Finding> {
    if walk.steps.is_empty() {
        return vec![Finding::new(
            DOCUMENT,
            walk.line,
            "no block with files follows the heading of this walk",
        )];
    }
    let wrong = walk.steps.iter().filter_map(|step| {
        let text = match &step.file {
            Some(path) if files.iter().any(|file| file.path == *path) => return None,
            Some(path) => format!("there is no {path}"),
            None => "a line of a walk names no file".to_owned(),
        };
        Some(Finding::new(DOCUMENT, step.line, text))
    });
    let mut findings: Vec<Finding> = wrong.collect();
    if walk.steps.len() > LONGEST {
        let text = format!("this walk has {} files, and {LONGEST} are the most", walk.steps.len());
        findings.push(Finding::new(DOCUMENT, walk.line, text));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::files::file;
    use super::{DOCUMENT, check};

    #[test]
    fn a_file_of_a_walk_that_is_not_there_is_found() {
        let check = |line: &str| {
            let document = format!("## Walk: x\n\n```\nnet/src/a.rs  begins\n{line}\n```\n");
            check(&[
                file(DOCUMENT, &document),
                file("crates/net/src/a.rs", ""),
                file("crates/net/src/b.rs", ""),
            ])
        };
        for good in ["net/src/b.rs", "-> then  net/src/b.rs  goes on", ""] {
            assert_eq!(check(good), [], "{good}");
        }
        for bad in ["net/src/c.rs", "crates/net/src/b.rs", "-> the socket"] {
            let lines: Vec<_> = check(bad).iter().map(|finding| finding.line).collect();
            assert_eq!(lines, [5], "{bad}");
        }
    }

    #[test]
    fn a_walk_of_more_than_twelve_files_is_found() {
        for (files, findings) in [(12, 0), (13, 1)] {
            let document = format!("## Walk: x\n\n```\n{}```\n", "net/src/a.rs  goes on\n".repeat(files));
            let found = check(&[file(DOCUMENT, &document), file("crates/net/src/a.rs", "")]);
            assert_eq!(found.len(), findings, "{files}");
        }
    }

    #[test]
    fn a_walk_without_a_block_is_found_and_a_document_without_walks_is_good() {
        assert_eq!(check(&[file(DOCUMENT, "# A\n\n## Walk: x\n\nWords.\n")]).len(), 1);
        assert_eq!(check(&[file(DOCUMENT, "# A\n")]), []);
    }
}
