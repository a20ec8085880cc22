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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use manyway_play::Figures;

    use super::*;

    /// A film of a minute whose buffer grows by a second each second, at a rate of 4 Mbit/s.
    fn played(name: &str, seconds: u32) -> MediaFigures {
        let began = Instant::now();
        let mut told = MediaFigures::new(false);
        for second in 0..seconds {
            let time = Duration::from_secs(second.into());
            let figures = Figures {
                name: name.to_owned(),
                began,
                time,
                bytes: u64::from(second) * 500_000,
                bit_rate: Some(2_000_000),
                startup: Some(Duration::from_secs(1)),
                stalls: 0,
                stall_time: Duration::ZERO,
                played: time,
                buffered: Some(time),
                seeks: 0,
                variant_switches: 0,
            };
            told.sample(vec![figures], began + time).unwrap();
        }
        told
    }

    #[test]
    fn the_picture_has_buffer_and_rate_of_each_film_with_their_units() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("film.svg");
        Report::create(&place).unwrap().write(&played("film <1>.mp4", 60)).unwrap();
        let svg = std::fs::read_to_string(&place).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        for text in
            ["film &lt;1&gt;.mp4: buffer", "film &lt;1&gt;.mp4: rate", "time, s", "buffer, s; rate, Mbit/s"]
        {
            assert!(svg.contains(text), "{text}\n{svg}");
        }
    }

    #[test]
    fn the_curves_are_those_of_the_samples_and_bounded() {
        let plot = plot(&played("film.mp4", 1000));
        let [buffer, rate] = &plot.curves[..] else { panic!("{plot:?}") };
        assert!(
            buffer.points.len() <= POINTS + 1 && buffer.points.len() > POINTS / 2,
            "{}",
            buffer.points.len()
        );
        assert!(buffer.points.iter().all(|(at, buffered)| (at - buffered).abs() < 1e-9), "{buffer:?}");
        // The first samples see less than the window over which the rate is taken.
        let settled = rate.points.iter().filter(|(at, _)| *at > 10.0);
        assert!(
            settled.clone().count() > 100 && settled.clone().all(|(_, rate)| (rate - 4.0).abs() < 0.1),
            "{rate:?}"
        );
    }

    #[test]
    fn a_path_that_cannot_be_written_is_refused_before_anything_is_played() {
        let error = Report::create(Path::new("/nowhere/film.svg")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/film.svg"), "{error}");
    }
}
