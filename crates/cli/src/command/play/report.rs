//! Buffer and rate over time as a picture.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use manyway_chart::{Curve, CurvePlot};
use manyway_terminal::CommandError;
use manyway_transfer::Failure;

use super::figures::{Media, MediaFigures, Sample};

/// Most points of a curve.
const POINTS: usize = 250;

/// A file for the picture.
#[derive(Debug)]
pub(super) struct Report<'a> {
    file: File,
    place: &'a Path,
}

impl<'a> Report<'a> {
    /// Creates the file, before anything is played that it should show.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(super) fn create(place: &'a Path) -> Result<Self, CommandError> {
        let file = File::create(place).map_err(|error| failed(&error, place))?;
        Ok(Self { file, place })
    }

    /// Draws the media of a run into the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(mut self, media: &MediaFigures) -> Result<(), CommandError> {
        let svg = plot(media).to_svg().map_err(CommandError::failed)?;
        self.file.write_all(svg.as_bytes()).map_err(|error| failed(&error, self.place))
    }
}

fn failed(error: &std::io::Error, place: &Path) -> CommandError {
    CommandError::failed(Failure::from_io(error).at(place))
}

fn plot(media: &MediaFigures) -> CurvePlot {
    CurvePlot {
        title: "buffer and rate".to_owned(),
        horizontal: "time, s".to_owned(),
        vertical: "buffer, s; rate, Mbit/s".to_owned(),
        curves: media.media().iter().flat_map(curves).collect(),
    }
}

fn curves(media: &Media) -> [Curve; 2] {
    let every = media.samples.len().div_ceil(POINTS).max(1);
    let curve = |what: &str, value: fn(&Sample) -> f64| {
        let points = media.samples.iter().step_by(every).map(|sample| (sample.at, value(sample)));
        // From 0 on, so that the axes are linear.
        let points = std::iter::once((0.0, 0.0)).chain(points).collect();
        Curve { name: format!("{}: {what}", media.figures.name), points }
    };
    #[expect(clippy::cast_precision_loss, reason = "a curve")]
    let rate = curve("rate", |sample| sample.rate as f64 / 1e6);
    [curve("buffer", |sample| sample.buffered), rate]
}
