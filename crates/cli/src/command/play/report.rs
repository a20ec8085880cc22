//! Buffer and rate over time as a picture.

use std::path::Path;

use manyway_chart::{Curve, CurvePlot};
use manyway_terminal::CommandError;

use super::figures::{Course, Film, Sample, of_report};

/// Most points of a curve.
const POINTS: usize = 250;

/// Draws the films of a run into a file.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(course: &Course, place: &Path) -> Result<(), CommandError> {
    let plot = CurvePlot {
        title: "buffer and rate".to_owned(),
        horizontal: "time, s".to_owned(),
        vertical: "buffer, s; rate, Mbit/s".to_owned(),
        curves: course.films().iter().flat_map(curves).collect(),
    };
    let svg = plot.to_svg().map_err(CommandError::failed)?;
    std::fs::write(place, svg).map_err(|error| of_report(&error, place))
}

fn curves(film: &Film) -> [Curve; 2] {
    let every = film.samples.len().div_ceil(POINTS).max(1);
    let curve = |what: &str, value: fn(&Sample) -> f64| {
        let points = film.samples.iter().step_by(every).map(|sample| (sample.at, value(sample)));
        // From 0 on, so that the axes are linear.
        let points = std::iter::once((0.0, 0.0)).chain(points).collect();
        Curve { name: format!("{}: {what}", film.figures.name), points }
    };
    #[expect(clippy::cast_precision_loss, reason = "a curve")]
    let rate = curve("rate", |sample| sample.rate as f64 / 1e6);
    [curve("buffer", |sample| sample.buffered), rate]
}
