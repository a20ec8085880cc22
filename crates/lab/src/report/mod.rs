//! The output of a campaign: a table for people, JSON and CSV for programs, figures, and a page with everything.

mod cross;
mod csv;
mod describe;
mod grid;
mod html;
mod json;
mod lead;
mod matrix;
mod numbers;
mod origin;
mod result;
mod table;
#[cfg(test)]
mod tests;
mod volume;

use std::path::Path;
use std::{fs, io};

pub use csv::csv;
pub use describe::cross as describe_cross;
pub(crate) use html::file_name;
pub use json::{document, run_line};
pub use lead::{Lead, Picture};
pub use matrix::matrix;
pub use origin::Origin;
pub(crate) use table::remarks;
pub use table::table;
pub use volume::{Chapter, HEADS, World, verdicts, write_volume};

use crate::campaign::Results;
use crate::error::LabError;

/// Creates the directory of a report, and checks that it can be written.
///
/// # Errors
/// [`LabError::Io`] if it cannot.
pub fn prepare(directory: &Path) -> Result<(), LabError> {
    let place = directory.join("figures");
    doing(&place, fs::create_dir_all(&place))?;
    let page = directory.join("index.html");
    doing(&page, fs::OpenOptions::new().create(true).append(true).open(&page)).map(drop)
}

/// Writes everything into a directory, which is created if necessary: `index.html`, `results.json`, `runs.csv`, and
/// every figure as a file in `figures`. Files of the same names are replaced.
///
/// # Errors
/// [`LabError::Io`] if that cannot be written.
pub fn write(results: &Results, origin: &Origin, directory: &Path) -> Result<(), LabError> {
    write_with(results, origin, directory, &Lead::default())
}

/// As [`write()`], with a part of its own first.
///
/// # Errors
/// As [`write()`].
pub fn write_with(results: &Results, origin: &Origin, directory: &Path, lead: &Lead) -> Result<(), LabError> {
    let figures = html::figures(results)?;
    prepare(directory)?;
    let place = directory.join("figures");
    let save = |path: std::path::PathBuf, text: String| doing(&path, fs::write(&path, text));
    for picture in &lead.pictures {
        save(place.join(format!("{}.svg", picture.file)), picture.svg.clone())?;
    }
    for figure in &figures {
        save(place.join(format!("{}.svg", figure.file)), figure.svg.clone())?;
    }
    save(directory.join("results.json"), format!("{:#}\n", document(results, origin)))?;
    save(directory.join("runs.csv"), csv(results))?;
    save(directory.join("index.html"), html::page(results, origin, (lead, &figures)))
}

fn doing<T>(path: &Path, result: io::Result<T>) -> Result<T, LabError> {
    result.map_err(|error| LabError::Io { doing: format!("writing {}", path.display()), error })
}
