//! Types stay below a size, and files import each other in no new circle.
//!
//! Known violations are listed; the lists can only shrink.

use super::Finding;
use super::files::SourceFile;
use crate::shape::circles::{Circle, circles};
use crate::shape::tree::Tree;
use crate::shape::types::{ImplLines, impl_lines};

/// Most lines of all `impl` blocks of a type outside of tests.
const MOST_IMPL_LINES: usize = 1500;
/// Types that have more: the name of each, its file, and its ceiling.
const LARGE_TYPES: [LargeType; 0] = [];
/// A ceiling this far above its type is to be lowered.
const SLACK: usize = 100;

const KNOWN_CIRCLES: &str = "xtask/src/check/known_circles.txt";
/// The known circles: the files of each, followed by an empty line.
const KNOWN: &str = include_str!("known_circles.txt");

/// A type that is larger than types may be: its name, its file, and the lines that it may have nevertheless.
type LargeType = (&'static str, &'static str, usize);

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    match Tree::parse(files) {
        Ok(tree) => {
            let mut findings = check_types(&impl_lines(&tree), &LARGE_TYPES);
            findings.extend(check_circles(&circles(&tree), KNOWN));
            findings
        }
        Err(error) => {
            let (file, error) = error.split_once(": ").unwrap_or_default();
            vec![Finding::new(file, 0, format!("can not be parsed: {error}"))]
        }
    }
}

fn check_types(types: &[ImplLines], large: &[LargeType]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for found in types {
        let known = large.iter().find(|(name, file, _)| (*name, *file) == (&found.name, &found.file));
        let most = known.map_or(MOST_IMPL_LINES, |(_, _, ceiling)| *ceiling);
        if found.lines > most {
            let text =
                format!("the impl blocks of {} have {} lines, more than {most}", found.name, found.lines);
            findings.push(Finding::new(&found.file, 0, text));
        }
    }
    for (name, file, ceiling) in large {
        let found = types.iter().find(|found| (*name, *file) == (&found.name, &found.file));
        let lines = found.map_or(0, |found| found.lines);
        let text = if lines <= MOST_IMPL_LINES {
            format!("{name} has only {lines} lines of impl: take it off LARGE_TYPES")
        } else if lines + SLACK < *ceiling {
            format!("{name} has only {lines} lines of impl: lower its ceiling in LARGE_TYPES")
        } else {
            continue;
        };
        findings.push(Finding::new("xtask/src/check/structure.rs", 0, text));
    }
    findings
}

fn check_circles(circles: &[Circle], known: &str) -> Vec<Finding> {
    let known: Vec<Vec<&str>> = known.split("\n\n").map(|circle| circle.lines().collect()).collect();
    let mut findings = Vec::new();
    for circle in circles {
        if known.iter().any(|known| circle.iter().all(|file| known.contains(&file.as_str()))) {
            continue;
        }
        findings.extend(circle.first().map(|file| Finding::new(file, 0, describe(circle, &known))));
    }
    for file in known.iter().flatten().filter(|file| !file.is_empty()) {
        if !circles.iter().flatten().any(|found| found == file) {
            let text = format!("{file} is in no circle any more: take it off");
            findings.push(Finding::new(KNOWN_CIRCLES, 0, text));
        }
    }
    findings
}

/// The new part of a circle: all of it, or the files that are not in the known circle that shares most with it.
fn describe(circle: &Circle, known: &[Vec<&str>]) -> String {
    let shared = |known: &&Vec<&str>| circle.iter().filter(|file| known.contains(&file.as_str())).count();
    let Some(nearest) = known.iter().filter(|known| shared(known) > 0).max_by_key(shared) else {
        return format!("imports lead in a circle: {}", circle.join(", "));
    };
    let new: Vec<_> = circle.iter().filter(|file| !nearest.contains(&file.as_str())).cloned().collect();
    format!("imports draw into a known circle: {}", new.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::files::file;
    use super::*;

    #[test]
    fn a_type_that_is_too_large_is_found() {
        let check = |name: &str, lines: usize| {
            let found = ImplLines { name: name.to_owned(), file: "a.rs".to_owned(), lines };
            let large = [("Known", "a.rs", 2000)];
            let others = ImplLines { name: "Known".to_owned(), file: "a.rs".to_owned(), lines: 2000 };
            let types = if name == "Known" { vec![found] } else { vec![others, found] };
            check_types(&types, &large).len()
        };
        assert_eq!((check("New", MOST_IMPL_LINES), check("New", MOST_IMPL_LINES + 1)), (0, 1));
        assert_eq!((check("Known", 2000), check("Known", 2001)), (0, 1));
    }

    #[test]
    fn a_ceiling_follows_the_type_down() {
        let check = |lines: usize| {
            let large = [("Known", "a.rs", 2000)];
            check_types(&[ImplLines { name: "Known".to_owned(), file: "a.rs".to_owned(), lines }], &large)
        };
        assert_eq!(check(2000 - SLACK), []);
        assert!(check(1999 - SLACK).iter().all(|finding| finding.text.contains("lower its ceiling")));
        assert!(check(MOST_IMPL_LINES).iter().all(|finding| finding.text.contains("take it off")));
        assert_eq!((check(1999 - SLACK).len(), check(MOST_IMPL_LINES).len()), (1, 1));
    }

    #[test]
    fn an_unknown_circle_is_found_and_a_known_one_may_only_lose_files() {
        let circle = |files: &str| files.split(' ').map(str::to_owned).collect::<Circle>();
        let known = "a.rs\nb.rs\nc.rs\n\nd.rs\ne.rs\n";
        for (circles, findings) in [
            (&["a.rs b.rs c.rs", "d.rs e.rs"][..], &[][..]),
            (&["a.rs b.rs c.rs", "d.rs e.rs", "f.rs g.rs"], &["imports lead in a circle: f.rs, g.rs"]),
            (&["a.rs b.rs c.rs", "d.rs e.rs f.rs"], &["imports draw into a known circle: f.rs"]),
            (&["a.rs b.rs c.rs d.rs e.rs"], &["imports draw into a known circle: d.rs, e.rs"]),
            (&["a.rs b.rs", "d.rs e.rs"], &["c.rs is in no circle any more: take it off"]),
            (
                &["a.rs b.rs c.rs"],
                &["d.rs is in no circle any more: take it off", "e.rs is in no circle any more: take it off"],
            ),
        ] {
            let circles: Vec<_> = circles.iter().map(|files| circle(files)).collect();
            let found: Vec<_> =
                check_circles(&circles, known).into_iter().map(|finding| finding.text).collect();
            assert_eq!(found, findings, "{circles:?}");
        }
    }

    #[test]
    fn a_file_that_can_not_be_parsed_is_found() {
        let findings = check(&[file("crates/a/Cargo.toml", ""), file("crates/a/src/lib.rs", "fn")]);
        assert_eq!(
            findings.iter().map(|finding| finding.file.as_str()).collect::<Vec<_>>(),
            ["crates/a/src/lib.rs"]
        );
    }
}
