//! Imports go down the layers only, and fields of a path are changed in its own module only.

use super::Finding;
use super::files::{SourceFile, code_of};

/// Files below these directories may not name those modules.
const FORBIDDEN: [(&[&str], &str, &str); 3] = [
    (
        &["crates/wire/src/"],
        "crate::mmsp2",
        "what both wires share knows neither: move it into crates/wire/src/mmsp2",
    ),
    (
        &[
            "crates/proto/src/collections/",
            "crates/proto/src/congestion/",
            "crates/proto/src/engine/",
            "crates/proto/src/path/",
            "crates/proto/src/recovery/",
            "crates/proto/src/scheduler/",
        ],
        "manyway_wire::mmsp2",
        "what both wires share names no block: convert it where blocks are read and written",
    ),
    (
        &["crates/proto/src/engine/"],
        "crate::mmsp2",
        "the engine knows no wire but by crate::wire: ask there, or leave a notice",
    ),
];
/// Where one wire, and tests, may name it.
const EXCEPT: [&str; 2] = ["crates/wire/src/mmsp2/", "crates/wire/src/testing.rs"];
/// The owner of paths, and files that change them by its methods: elsewhere `path` is a view of one, or a link of a
/// test.
const PATHS: &str = "crates/proto/src/path/";
const USERS_OF_PATHS: [&str; 3] =
    ["crates/proto/src/connection/", "crates/proto/src/engine/", "crates/proto/src/mmsp2/"];

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let starts = |place: &&str| file.path.starts_with(place);
        let forbidden: Vec<_> = FORBIDDEN
            .iter()
            .filter(|(places, ..)| places.iter().any(&starts) && !EXCEPT.iter().any(&starts))
            .collect();
        let uses_paths = USERS_OF_PATHS.iter().any(&starts);
        for (line, text) in file.lines() {
            let code = code_of(text);
            for (_, module, advice) in &forbidden {
                if code.contains(*module) {
                    findings.push(Finding::new(&file.path, line, format!("{module}: {advice}")));
                }
            }
            if uses_paths && writes_a_field_of_a_path(&code) {
                let text = format!("a field of a path is written outside {PATHS}: give it a method there");
                findings.push(Finding::new(&file.path, line, text));
            }
        }
    }
    findings
}

/// Whether a line assigns to `path.FIELD`.
fn writes_a_field_of_a_path(code: &str) -> bool {
    let Some(rest) = code.trim_start().strip_prefix("path.") else { return false };
    let field = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    let after = rest.get(field..).unwrap_or_default();
    [" = ", " += ", " -= ", " |= "].iter().any(|assignment| after.starts_with(assignment))
}

#[cfg(test)]
mod tests {
    use super::super::files::file;
    use super::check;

    #[test]
    fn an_import_against_the_layers_is_found() {
        for (path, text, findings) in [
            ("crates/wire/src/reader.rs", "use crate::mmsp2::Block;", 1),
            ("crates/wire/src/mmsp2/probe.rs", "use crate::mmsp2::Block;", 0),
            ("crates/wire/src/reader.rs", "// as in crate::mmsp2", 0),
            ("crates/proto/src/recovery/ecn.rs", "use manyway_wire::mmsp2::EcnCounts;", 1),
            ("crates/proto/src/engine/health.rs", "use manyway_wire::mmsp2::Liveness;", 1),
            ("crates/proto/src/engine/health.rs", "use crate::mmsp2::Control;", 1),
            ("crates/proto/src/mmsp2/input.rs", "use manyway_wire::mmsp2::Blocks;", 0),
        ] {
            assert_eq!(check(&[file(path, text)]).len(), findings, "{path}: {text}");
        }
    }

    #[test]
    fn a_field_of_a_path_that_is_written_elsewhere_is_found() {
        for (path, text, findings) in [
            ("crates/proto/src/engine/health.rs", "    path.role = Role::Backup;", 1),
            ("crates/proto/src/engine/health.rs", "    path.owed -= 1;", 1),
            ("crates/proto/src/engine/health.rs", "    path.set_role(Role::Backup);", 0),
            ("crates/proto/src/engine/health.rs", "    if path.id == id {", 0),
            ("crates/proto/src/path/mod.rs", "    path.role = Role::Backup;", 0),
            ("crates/proto/src/scheduler/background.rs", "    path.sendable = ByteCount::ZERO;", 0),
        ] {
            assert_eq!(check(&[file(path, text)]).len(), findings, "{path}: {text}");
        }
    }
}
