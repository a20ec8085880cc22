//! A test that cannot run is counted, and its program tells how many were.

use super::Finding;
use super::files::SourceFile;

/// Where tests are counted.
const COUNTER: &str = "crates/sim/src/skipped.rs";
/// In two halves, so that this file does not match itself.
const PRINTED: (&str, &str) = ("println!(\"", "skipped");

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let is_ours = |file: &&SourceFile| file.path.starts_with("crates/") && file.path != COUNTER;
    let rust: Vec<_> = files.iter().filter(|file| file.is_rust()).filter(is_ours).collect();
    let printed = [PRINTED.0, PRINTED.1].concat();
    let mut findings = Vec::new();
    for file in &rust {
        for (line, _) in file.lines().filter(|(_, text)| text.contains(&printed)) {
            let text = "a test that only prints that it was skipped: call `skip` or `skip_optional`";
            findings.push(Finding::new(&file.path, line, text));
        }
    }
    let tells = |program: &str| {
        let mut files = rust.iter().filter(|file| program_of(&file.path) == Some(program));
        files.any(|file| file.text.contains("tell_skipped"))
    };
    for file in rust.iter().filter(|file| file.text.contains("skipped::")) {
        if program_of(&file.path).is_some_and(|program| !tells(program)) {
            let text = "its test program does not call `tell_skipped` at its end";
            findings.push(Finding::new(&file.path, 0, text));
        }
    }
    findings
}

/// The directory of the files of a test program: `tests` of a package, a directory below it, or `src`.
fn program_of(path: &str) -> Option<&str> {
    let (package, rest) = path.split_at(path.find("/tests/").or_else(|| path.find("/src/"))? + 1);
    let (kind, below) = rest.split_once('/')?;
    let own = below.split_once('/').map(|(directory, _)| directory).filter(|_| kind == "tests");
    // Modules of the program of a whole package lie in directories, too.
    let own = own.filter(|directory| PROGRAMS.contains(directory));
    let end = package.len() + kind.len() + own.map_or(0, |directory| directory.len() + 1);
    path.get(..end)
}

/// Directories below `tests` that are programs of their own.
const PROGRAMS: [&str; 2] = ["emulator", "real"];

#[cfg(test)]
mod tests {
    use super::super::files::file;
    use super::*;

    #[test]
    fn a_test_that_is_skipped_uncounted_is_found() {
        let line = format!("{}{}: no root\");", PRINTED.0, PRINTED.1);
        assert_eq!(check(&[file("crates/a/tests/b.rs", &line)]).len(), 1);
        let (skips, tells) = ("manyway_sim::skipped::skip(\"no root\");", "skipped::tell_skipped();");
        for (teller, findings) in [
            ("crates/a/tests/main.rs", 0),
            ("crates/a/tests/real/main.rs", 1),
            ("crates/a/src/lib.rs", 1),
            ("crates/b/tests/main.rs", 1),
        ] {
            let files = [file("crates/a/tests/inner/b.rs", skips), file(teller, tells)];
            assert_eq!(check(&files).len(), findings, "{teller}");
        }
    }
}
