//! The state of a path has one name, in the code and in the specification.

use super::Finding;
use super::files::SourceFile;

const CODE: &str = "crates/proto/src/path/state.rs";
const SPEC: &str = "docs/specification/paths.md";
/// The head of the table of states.
const TABLE: &str = "| state |";

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| file.text.as_str());
    let (code, spec) = (in_code(text(CODE)), in_spec(text(SPEC)));
    if code.is_empty() {
        return vec![Finding::new(CODE, 0, "no words of path states were found")];
    }
    if code != spec {
        let text = format!("the states are {}, the code has {}", spec.join(" "), code.join(" "));
        return vec![Finding::new(SPEC, 0, text)];
    }
    Vec::new()
}

/// The names that `fn word` gives to the states.
fn in_code(text: &str) -> Vec<&str> {
    let body = text.split("fn word(").nth(1).unwrap_or_default();
    let body = body.split("\n    }\n").next().unwrap_or_default();
    body.lines().filter_map(|line| line.split_once("=> \"")?.1.split('"').next()).collect()
}

/// The first column of the table of states.
fn in_spec(text: &str) -> Vec<&str> {
    let rows = text.lines().skip_while(|line| !line.starts_with(TABLE)).skip(2);
    rows.map_while(|line| line.strip_prefix('|')?.split('|').next()).map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::super::files::file;
    use super::{CODE, SPEC, check};

    const STATES: &str = "fn word(self) {\n        match self {\n            Self::A => \"a\",\n            \
                          Self::B => \"b\",\n        }\n    }\n\n    Self::C => \"c\"\n";

    #[test]
    fn names_that_differ_are_found() {
        let table = |rows: &str| file(SPEC, &format!("| state | is |\n|---|---|\n{rows}\n\n| x | y |\n"));
        let check = |rows: &str| check(&[file(CODE, STATES), table(rows)]).len();
        assert_eq!(check("| a | one |\n| b | two |"), 0);
        assert_eq!(check("| a | one |"), 1);
        assert_eq!(check("| a | one |\n| c | two |"), 1);
        assert_eq!(check("| a | one |\n| b | two |\n| c | three |"), 1);
    }

    #[test]
    fn missing_names_are_no_success() {
        assert_eq!(check(&[]).len(), 1);
    }
}
