//! The rules of this repository that no existing tool checks, one by one.

mod citations;
mod clippy_files;
pub(crate) mod files;
mod finding;
mod layers;
mod leftovers;
mod licences;
mod links;
mod machine_paths;
mod named_tests;
mod packaging;
mod path_words;
mod product;
mod ranks;
mod shape;
mod skips;
mod structure;
mod walks;
mod wires;

use std::io;
use std::path::Path;

use files::SourceFile;
pub use finding::Finding;

/// Runs every check on the repository at `root`.
///
/// # Errors
/// If `git` or `cargo metadata` can not be run, or a file can not be read.
pub fn run(root: &Path) -> io::Result<Vec<Finding>> {
    let files = files::tracked(root)?;
    let mut findings = check_files(&files);
    let metadata = licences::metadata(root)?;
    findings.extend(licences::check(&metadata));
    findings.extend(product::check(&metadata));
    Ok(findings)
}

fn check_files(files: &[SourceFile]) -> Vec<Finding> {
    [
        clippy_files::check,
        citations::check,
        shape::check,
        structure::check,
        walks::check,
        path_words::check,
        layers::check,
        wires::check,
        links::check,
        leftovers::check,
        machine_paths::check,
        named_tests::check,
        packaging::check,
        skips::check,
    ]
    .iter()
    .flat_map(|check| check(files))
    .collect()
}
