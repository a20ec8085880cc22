//! Types stay below a size, no files import each other in a circle, and none imports a higher layer.

use super::files::SourceFile;
use super::{Finding, ranks};
use crate::shape::circles::{Circle, circles};
use crate::shape::tree::Tree;
use crate::shape::types::{ImplLines, impl_lines};

/// Most lines of all `impl` blocks of a type outside of tests.
const MOST_IMPL_LINES: usize = 1500;

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    match Tree::parse(files) {
        Ok(tree) => {
            let mut findings = check_types(&impl_lines(&tree));
            findings.extend(check_circles(&circles(&tree)));
            findings.extend(ranks::check(&tree));
            findings
        }
        Err(error) => {
            let (file, error) = error.split_once(": ").unwrap_or_default();
            vec![Finding::new(file, 0, format!("can not be parsed: {error}"))]
        }
    }
}

fn check_types(types: &[ImplLines]) -> Vec<Finding> {
    let large = types.iter().filter(|found| found.lines > MOST_IMPL_LINES);
    let describe = |ImplLines { name, file, lines }: &ImplLines| {
        let text = format!("the impl blocks of {name} have {lines} lines, more than {MOST_IMPL_LINES}");
        Finding::new(file, 0, text)
    };
    large.map(describe).collect()
}

fn check_circles(circles: &[Circle]) -> Vec<Finding> {
    let describe = |circle: &Circle| {
        let text = format!("imports lead in a circle: {}", circle.join(", "));
        circle.first().map(|file| Finding::new(file, 0, text))
    };
    circles.iter().filter_map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::super::files::file;
    use super::*;

    #[test]
    fn a_type_that_is_too_large_is_found() {
        let check = |lines: usize| {
            check_types(&[ImplLines { name: "Large".to_owned(), file: "a.rs".to_owned(), lines }]).len()
        };
        assert_eq!((check(MOST_IMPL_LINES), check(MOST_IMPL_LINES + 1)), (0, 1));
    }

    #[test]
    fn a_circle_is_found() {
        let files = [
            file("crates/a/Cargo.toml", "[package]\nname = \"a\"\n"),
            file("crates/a/src/lib.rs", "mod b;\nmod c;\n"),
            file("crates/a/src/b.rs", "use crate::c::C;\npub struct B(C);\n"),
            file("crates/a/src/c.rs", "use crate::b::B;\npub struct C(Box<B>);\n"),
        ];
        let found: Vec<_> = check(&files).into_iter().map(|finding| finding.text).collect();
        assert_eq!(found, ["imports lead in a circle: crates/a/src/b.rs, crates/a/src/c.rs"]);
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
