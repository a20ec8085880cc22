//! A test that a document names exists.

use std::collections::BTreeSet;

use super::Finding;
use super::files::SourceFile;

/// Documents whose tables name a test for each row.
const DOCUMENTS: [&str; 3] = ["SECURITY.md", "docs/mmsp1-etsi.md", "docs/mmsp1-thesis.md"];
/// A name with so many underscores is that of a test: functions and files have fewer words.
const UNDERSCORES: usize = 3;
/// Stands for the beginning of the name before it.
const SAME_BEGINNING: char = '…';

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let functions = functions(files);
    let documents = files.iter().filter(|file| DOCUMENTS.contains(&file.path.as_str()));
    documents.flat_map(|document| missing(document, &functions)).collect()
}

/// The names of all functions in Rust.
fn functions(files: &[SourceFile]) -> BTreeSet<&str> {
    let rust = files.iter().filter(|file| file.is_rust());
    let names = rust.flat_map(|file| file.text.split("fn ").skip(1));
    names.map(|rest| rest.split(|letter| !is_of_name(letter)).next().unwrap_or_default()).collect()
}

fn missing(document: &SourceFile, functions: &BTreeSet<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in document.lines() {
        for span in line.split('`').skip(1).step_by(2) {
            let name = span.trim_start_matches(SAME_BEGINNING);
            let is_test = name.matches('_').count() >= UNDERSCORES && name.chars().all(is_of_name);
            // The tests of a conformance suite have the number of their case in front.
            let is_there = functions.iter().any(|function| function.ends_with(name));
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
    use super::check;

    #[test]
    fn a_test_that_does_not_exist_is_found_and_an_abbreviated_one_that_does_is_not() {
        let code = file("tests/a.rs", "#[test]\nfn one_packet_may_be_lost() {}\nasync fn b() {}\n");
        let found = |text: &str| check(&[code.clone(), file("SECURITY.md", text)]);
        for there in ["`one_packet_may_be_lost`", "`…_packet_may_be_lost`", "`two_words`", "`sim/a_b_c_d.rs`"]
        {
            assert_eq!(found(there), [], "{there}");
        }
        for absent in ["`one_packet_may_be_late`", "`a_b`, `…_packet_may_be_late`"] {
            let [finding] = &found(absent)[..] else { panic!("{absent}") };
            assert!(finding.text.starts_with("there is no test "), "{finding}");
        }
        assert_eq!(check(&[code.clone(), file("docs/other.md", "`no_test_of_this_name`")]), []);
    }
}
