//! Imports go down the layers only, and fields of a path are changed in its own module only.

use super::Finding;
use super::files::{SourceFile, code_of};

/// Files below these directories may not name those modules.
const FORBIDDEN: [(&[&str], &[&str], &str); 4] = [
    (
        &["crates/wire/src/"],
        &["mmsp1", "mmsp2"],
        "what both wires share knows neither: move it into the module of that wire",
    ),
    (
        &[
            "crates/proto/src/collections/",
            "crates/proto/src/congestion/",
            "crates/proto/src/engine/",
            "crates/proto/src/message/",
            "crates/proto/src/packet/",
            "crates/proto/src/path/",
            "crates/proto/src/recovery/",
            "crates/proto/src/scheduler/",
            "crates/proto/src/stream/",
        ],
        &["mmsp1", "mmsp2", "toy"],
        "what all wires share knows none but by crate::wire: convert blocks where they are read and written",
    ),
    (
        &["crates/proto/src/endpoint/mmsp1/", "crates/proto/src/mmsp1/"],
        &["mmsp2", "toy"],
        "one wire knows no other: move what they share beside them",
    ),
    (
        &["crates/proto/src/mmsp2/"],
        &["mmsp1", "toy"],
        "one wire knows no other: move what they share beside them",
    ),
];
/// Where one wire, and tests, may name it.
const EXCEPT: [&str; 4] = [
    "crates/wire/src/lib.rs",
    "crates/wire/src/mmsp1/",
    "crates/wire/src/mmsp2/",
    "crates/wire/src/testing.rs",
];
/// The owner of paths, and files that change them by its methods: elsewhere `path` is a view of one, or a link of a
/// test.
const PATHS: &str = "crates/proto/src/path/";
const USERS_OF_PATHS: [&str; 5] = [
    "crates/proto/src/connection/",
    "crates/proto/src/engine/",
    "crates/proto/src/mmsp1/",
    "crates/proto/src/mmsp2/",
    "crates/proto/src/toy/",
];

/// The parts of a path that others use by their methods.
const PARTS: [&str; 7] =
    ["addresses", "back_pressure", "challenger", "mtu", "receiving", "recovery", "silence"];

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
            for (_, modules, advice) in &forbidden {
                for module in modules.iter().filter(|module| words(&code).any(|word| word == **module)) {
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

/// The identifiers of a line.
fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_'))
}

/// Whether a line assigns to `path.FIELD`, or replaces a part of a path as a whole.
fn writes_a_field_of_a_path(code: &str) -> bool {
    let assigns = |after: &str| [" = ", " += ", " -= ", " |= "].iter().any(|sign| after.starts_with(sign));
    let is_replaced = ["mem::replace(", "mem::swap(", "mem::take("].iter().any(|call| code.contains(call));
    code.match_indices('.').any(|(dot, _)| {
        let (owner, rest) = (code.get(..dot).unwrap_or_default(), code.get(dot + 1..).unwrap_or_default());
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (field, after) = rest.split_at(end);
        let is_path = words(owner).last() == Some("path");
        let is_part = PARTS.contains(&field) && words(owner).last() != Some("self");
        (is_path || is_part) && (assigns(after) || is_replaced && is_part && !after.starts_with(['.', '(']))
    })
}

#[cfg(test)]
mod tests {
    use super::super::files::file;
    use super::check;

    #[test]
    fn an_import_against_the_layers_is_found() {
        for (path, text, findings) in [
            ("crates/wire/src/reader.rs", "use crate::mmsp2::Block;", 1),
            ("crates/wire/src/reader.rs", "use crate::{mmsp1::Block, ids};", 1),
            ("crates/wire/src/mmsp2/probe.rs", "use crate::mmsp2::Block;", 0),
            ("crates/wire/src/lib.rs", "pub mod mmsp1;", 0),
            ("crates/wire/src/reader.rs", "// as in crate::mmsp2", 0),
            ("crates/proto/src/recovery/ecn.rs", "use manyway_wire::mmsp2::EcnCounts;", 1),
            ("crates/proto/src/engine/health.rs", "use manyway_wire::mmsp2::Liveness;", 1),
            ("crates/proto/src/engine/health.rs", "use crate::mmsp2::Control;", 1),
            ("crates/proto/src/path/mtu.rs", "use manyway_wire::{PathId, mmsp1};", 1),
            ("crates/proto/src/engine/mod.rs", "use crate::toy::Toy;", 1),
            ("crates/proto/src/engine/mod.rs", "if wire.is_mmsp1() {", 0),
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
            ("crates/proto/src/engine/health.rs", "    found.mtu = MtuSearch::default();", 1),
            ("crates/proto/src/engine/health.rs", "    let old = mem::replace(&mut path.recovery, new);", 1),
            ("crates/proto/src/engine/health.rs", "    if it { self.paths.get_mut(id)?.silence = new; }", 1),
            ("crates/proto/src/engine/health.rs", "    let old = mem::take(path.recovery.lost());", 0),
            ("crates/proto/src/engine/health.rs", "    self.addresses = addresses;", 0),
            ("crates/proto/src/engine/health.rs", "    path.set_role(Role::Backup);", 0),
            ("crates/proto/src/engine/health.rs", "    if path.id == id {", 0),
            ("crates/proto/src/path/mod.rs", "    path.role = Role::Backup;", 0),
            ("crates/proto/src/scheduler/background.rs", "    path.sendable = ByteCount::ZERO;", 0),
        ] {
            assert_eq!(check(&[file(path, text)]).len(), findings, "{path}: {text}");
        }
    }
}
