//! Files stay short, the core has no unsafe code, and nothing is postponed silently.

use super::Finding;
use super::files::{SourceFile, code_of};

/// Most lines of a source file or document.
const MOST_LINES: usize = 600;
const HIDDEN: &str = "hides a lint for good: use #[expect(…, reason = \"…\")]";
/// Crates without unsafe code.
const SAFE: [&str; 11] = [
    "crates/units",
    "crates/wire",
    "crates/proto",
    "crates/sim",
    "crates/session",
    "crates/transfer",
    "crates/egress",
    "crates/fetch",
    "crates/inspect",
    "crates/play",
    "xtask",
];

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() || file.has_extension("md")) {
        let lines = file.lines().count();
        if lines > MOST_LINES {
            findings.push(Finding::new(&file.path, 0, format!("has {lines} lines, more than {MOST_LINES}")));
        }
    }
    for name in SAFE {
        let path = format!("{name}/src/lib.rs");
        let forbids = |file: &SourceFile| file.text.contains("#![forbid(unsafe_code)]");
        if !files.iter().any(|file| file.path == path && forbids(file)) {
            findings.push(Finding::new(&path, 0, "does not forbid unsafe code"));
        }
    }
    for file in files.iter().filter(|file| file.is_rust()) {
        for (line, text) in file.lines() {
            let found = left_over(text).filter(|found| *found != HIDDEN || !is_shared_by_tests(&file.path));
            findings.extend(found.map(|text| Finding::new(&file.path, line, text)));
        }
    }
    findings
}

/// Modules shared by several test programs: each uses a part of them, so an expectation would fail in some.
fn is_shared_by_tests(path: &str) -> bool {
    path.contains("/tests/common/")
}

/// A postponed or hidden part of a line.
fn left_over(line: &str) -> Option<&'static str> {
    let code = code_of(line);
    if code.contains("todo!") || code.contains("unimplemented!") {
        return Some("is not written yet");
    }
    if code.contains("#[allow(") || code.contains("#![allow(") {
        return Some(HIDDEN);
    }
    if code.contains("#[ignore]") {
        return Some("a test is left out without a reason: #[ignore = \"…\"]");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::files::{SourceFile, file};
    use super::{MOST_LINES, SAFE, check};

    fn good() -> Vec<SourceFile> {
        SAFE.iter().map(|name| file(&format!("{name}/src/lib.rs"), "#![forbid(unsafe_code)]\n")).collect()
    }

    #[test]
    fn a_long_file_is_found() {
        let mut files = good();
        files.push(file("a.rs", &"\n".repeat(MOST_LINES)));
        assert_eq!(check(&files), []);
        files.push(file("b.md", &"\n".repeat(MOST_LINES + 1)));
        assert_eq!(check(&files).len(), 1);
    }

    #[test]
    fn a_crate_that_does_not_forbid_unsafe_code_is_found() {
        let mut files = good();
        files[1].text.clear();
        files.remove(0);
        assert_eq!(check(&files).len(), 2);
    }

    #[test]
    fn postponed_work_is_found() {
        for (line, findings) in [
            ("todo!()", 1),
            ("unimplemented!()", 1),
            ("#[allow(dead_code)]", 1),
            ("#![allow(dead_code)]", 1),
            ("#[ignore]", 1),
            ("#[ignore = \"a measurement\"]", 0),
            ("// todo! is a word", 0),
            ("let a = \"#[ignore]\";", 0),
            ("#[expect(dead_code, reason = \"soon\")]", 0),
        ] {
            let mut files = good();
            files.push(file("a.rs", line));
            assert_eq!(check(&files).len(), findings, "{line}");
        }
    }
}
