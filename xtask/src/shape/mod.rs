//! `cargo run -p xtask -- shape`: figures of the source tree, computed from its text alone.
//!
//! They show whether the code is getting easier or harder to change: the size of each type, the files that access the
//! parts of a path, the files that import each other, and how many files a reader has to visit. Code that comes from
//! macros of this repository is not counted.

pub(crate) mod circles;
mod figures;
pub(crate) mod imports;
mod modules;
mod options;
mod parts;
mod report;
mod revision;
mod sizes;
mod source;
pub(crate) mod tree;
pub(crate) mod types;
pub(crate) mod walks;

use std::path::Path;

use crate::check::files;
use options::Options;
use report::{Before, Report};

/// Computes the figures that the arguments ask for: a table, or JSON.
///
/// # Errors
/// If an argument is not known, a revision can not be read, or a file is no Rust.
pub fn run(root: &Path, arguments: impl Iterator<Item = String>) -> Result<String, String> {
    let options = Options::parse(arguments)?;
    let text = |error: std::io::Error| error.to_string();
    let now = figures::figures(&files::tracked(root).map_err(text)?)?;
    let before = match options.against {
        Some(revision) => {
            let sections = figures::figures(&revision::files(root, &revision).map_err(text)?)?;
            Some(Before { revision, sections })
        }
        None => None,
    };
    let report = Report { now, before };
    Ok(if options.json { format!("{}\n", report.json()) } else { report.table() })
}
