//! A test that a document names exists.

use std::collections::BTreeSet;

use super::Finding;
use super::files::SourceFile;

/// Documents whose tables name a test for each row.
const DOCUMENTS: [&str; 3] = ["SECURITY.md", "docs/mmsp1-etsi.md", "docs/mmsp1-thesis.md"];
/// The one whose tests have the number of their case in front.
const NUMBERED: &str = "docs/mmsp1-etsi.md";
const ATTRIBUTES: [&str; 2] = ["#[test]", "#[tokio::test"];
/// A name with so many underscores is that of a test: functions and files have fewer words.
const UNDERSCORES: usize = 3;
/// Stands for the beginning of the name before it.
const SAME_BEGINNING: char = '…';

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let tests = tests(files);
    let documents = files.iter().filter(|file| DOCUMENTS.contains(&file.path.as_str()));
    documents.flat_map(|document| missing(document, &tests)).collect()
}

/// The names of all tests in Rust.
fn tests(files: &[SourceFile]) -> BTreeSet<&str> {
    let rust = files.iter().filter(|file| file.is_rust());
    let attributed = rust.flat_map(|file| ATTRIBUTES.iter().flat_map(|it| file.text.split(*it).skip(1)));
    let names = attributed.filter_map(|rest| rest.split_once("fn ").map(|(_, name)| name));
    names.map(|name| name.split(|letter| !is_of_name(letter)).next().unwrap_or_default()).collect()
}

fn missing(document: &SourceFile, tests: &BTreeSet<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in document.lines() {
        for span in line.split('`').skip(1).step_by(2) {
            let name = span.trim_start_matches(SAME_BEGINNING);
            let is_test = name.matches('_').count() >= UNDERSCORES && name.chars().all(is_of_name);
            let is_there = if name.len() == span.len() && document.path != NUMBERED {
                tests.contains(name)
            } else {
                tests.iter().any(|test| test.ends_with(name))
            };
            if is_test && !is_there {
                findings.push(Finding::new(&document.path, number, format!("there is no test {name}")));
            }
        }
    }
    findings
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::super::files::file;
    use super::{NUMBERED, check};

    #[test]
    fn a_test_that_does_not_exist_is_found_and_an_abbreviated_one_that_does_is_not() {
        let tests =
            "#[test]\nfn one_packet_may_be_lost() {}\n#[tokio::test]\nasync fn two_may_be_lost_too() {}\n";
        let code = file("tests/a.rs", &format!("{tests}fn a_function_is_no_test() {{}}\n"));
        let found = |text: &str| check(&[code.clone(), file("SECURITY.md", text)]);
        for there in [
            "`two_may_be_lost_too`",
            "`one_packet_may_be_lost`",
            "`…_packet_may_be_lost`",
            "`two_words`",
            "`sim/a_b_c_d.rs`",
        ] {
            assert_eq!(found(there), [], "{there}");
        }
        for absent in
            ["`one_packet_may_be_late`", "`…_may_be_late`", "`packet_may_be_lost`", "`a_function_is_no_test`"]
        {
            let [finding] = &found(absent)[..] else { panic!("{absent}") };
            assert!(finding.text.starts_with("there is no test "), "{finding}");
        }
        assert_eq!(check(&[code.clone(), file(NUMBERED, "`packet_may_be_lost`")]), []);
        assert_eq!(check(&[code.clone(), file("docs/other.md", "`no_test_of_this_name`")]), []);
    }
}
