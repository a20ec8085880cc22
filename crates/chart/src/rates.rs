//! The rate of each path over time.

use std::time::Duration;

use manyway_units::Rate;
use plotters::prelude::*;

use super::FigureError;
use super::compact::compact;
use super::style::{LEGEND, SIZE, axes, curve, dashed, in_millions, legend};

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// A link was cut.
    Cut,
    /// A link was restored.
    Restored,
}

/// A vertical line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// When, since the start.
    pub at: Duration,
    /// What.
    pub kind: MarkKind,
    /// Its label, such as `link 1 cut`.
    pub label: String,
}

/// The rate of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathSeries {
    /// Its name in the legend.
    pub name: String,
    /// The rate in each bin of [`RatePlot::bin`].
    pub rates: Vec<Rate>,
}

/// How far the axes of a picture reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// The latest time, from the start.
    pub time: Duration,
    /// The largest rate, without room for the legend.
    pub rate: Rate,
}

impl Extent {
    /// The smallest extent that holds both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self { time: self.time.max(other.time), rate: self.rate.max(other.rate) }
    }
}

/// The picture to draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RatePlot {
    /// Its title.
    pub title: String,
    /// The time that each rate covers; above zero.
    pub bin: Duration,
    /// The paths.
    pub paths: Vec<PathSeries>,
    /// The curve drawn above them, such as what reached the application. Default the sum of all paths.
    pub total: Option<PathSeries>,
    /// The events.
    pub marks: Vec<Mark>,
}

impl RatePlot {
    /// Draws an SVG document, 1000 by 500.
    ///
    /// # Errors
    /// The drawing library fails.
    pub fn to_svg(&self) -> Result<String, FigureError> {
        self.to_svg_within(Extent::default())
    }

    /// The same with axes that reach to `extent` at least, so that several pictures can be compared.
    ///
    /// # Errors
    /// The drawing library fails.
    pub fn to_svg_within(&self, extent: Extent) -> Result<String, FigureError> {
        let mut document = String::new();
        self.draw(&mut document, extent).map_err(|error| FigureError(error.to_string()))?;
        Ok(compact(&document))
    }

    /// The extent of its own axes.
    pub fn extent(&self) -> Extent {
        let total = self.total();
        let bins = u32::try_from(self.bins(&total)).unwrap_or(u32::MAX);
        let last_mark = self.marks.iter().map(|mark| mark.at).max().unwrap_or_default();
        let every = self.paths.iter().chain([&total]).flat_map(|series| series.rates.iter().copied());
        Extent { time: self.bin.saturating_mul(bins).max(last_mark), rate: every.max().unwrap_or_default() }
    }

    /// The curve above the paths: the total that was given, or the sum of all paths in each bin.
    pub fn total(&self) -> PathSeries {
        if let Some(total) = &self.total {
            return total.clone();
        }
        let bins = self.paths.iter().map(|p| p.rates.len()).max().unwrap_or(0);
        let sum = |bin| self.paths.iter().filter_map(|p: &PathSeries| p.rates.get(bin).copied()).sum();
        PathSeries { name: "all paths".to_owned(), rates: (0..bins).map(sum).collect() }
    }

    fn draw(&self, document: &mut String, extent: Extent) -> Result<(), Box<dyn std::error::Error>> {
        let total = self.total();
        let Extent { time, rate } = self.extent().with(extent);
        let seconds = time.as_secs_f64().max(1.0);
        let top = megabits(rate).max(0.01) * self.headroom();

        let root = SVGBackend::with_string(document, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let below = root.margin(8, 0, 0, 0).titled(&self.title, ("sans-serif", 22))?;
        let (_, area) = below.split_vertically(LABEL_AREA);
        let mut chart = ChartBuilder::on(&area)
            .margin(14)
            .margin_top(0)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..seconds, 0.0..top)?;
        axes(&mut chart, "rate (Mbit/s)")?;

        for (mark, height) in self.marks.iter().zip(LABEL_ROWS.iter().cycle()) {
            let x = mark.at.as_secs_f64();
            let colour = match mark.kind {
                MarkKind::Cut => RGBColor(200, 30, 30),
                MarkKind::Restored => RGBColor(20, 120, 60),
            };
            let line = [(x, 0.0), (x, top)];
            chart.draw_series(DashedLineSeries::new(line, 3, 4, colour.stroke_width(1)))?;
            let style = ("sans-serif", 14).into_font().color(&colour);
            // Above the frame, where the legend covers nothing.
            let (left, frame) = chart.backend_coord(&(x, top));
            root.draw(&Text::new(mark.label.clone(), (left, frame - height), style))?;
        }

        let style = BLACK.mix(0.75).stroke_width(2);
        chart
            .draw_series(LineSeries::new(self.points(&total.rates), style))?
            .label(total.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + LEGEND, y)], style));
        for (path, style) in self.paths.iter().zip(dashed()) {
            curve(&mut chart, &path.name, self.points(&path.rates), style)?;
        }
        legend(&mut chart, SeriesLabelPosition::UpperRight)?;
        root.present()?;
        Ok(())
    }

    /// Height of the frame relative to the highest point, so that the legend lies above the curves.
    fn headroom(&self) -> f64 {
        let lines = u32::try_from(self.paths.len()).unwrap_or(u32::MAX);
        let legend = (f64::from(lines) + 2.0) * LEGEND_LINE;
        1.0 / (1.0 - (legend / FRAME).min(0.6))
    }

    fn bins(&self, total: &PathSeries) -> usize {
        self.paths.iter().chain([total]).map(|series| series.rates.len()).max().unwrap_or(0)
    }

    /// The middle of each bin and its rate.
    fn points(&self, rates: &[Rate]) -> Vec<(f64, f64)> {
        let bin = self.bin.as_secs_f64();
        (0_u32..).zip(rates).map(|(index, rate)| ((f64::from(index) + 0.5) * bin, megabits(*rate))).collect()
    }
}

fn megabits(rate: Rate) -> f64 {
    in_millions(rate.bits_per_second())
}

/// Height of the frame around the curves, about.
const FRAME: f64 = 370.0;
/// Height of a line of the legend.
const LEGEND_LINE: f64 = 22.0;
/// Room for the labels of the marks.
const LABEL_AREA: i32 = 38;
/// Labels of neighbours stand at different heights above the frame, so that they do not cover each other.
const LABEL_ROWS: [i32; 2] = [17, 34];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_names_axes_paths_and_events() {
        let path = |name: &str, megabits: u64| PathSeries {
            name: name.to_owned(),
            rates: (0..200)
                .map(|bin| Rate::from_bits_per_second(megabits * 1_000_000 * (bin % 7 + 20) / 20))
                .collect(),
        };
        let plot = RatePlot {
            title: "64 MiB over three links".into(),
            bin: Duration::from_millis(100),
            paths: vec![
                path("40 Mbit/s, 15 ms", 40),
                path("20 Mbit/s, 40 ms", 20),
                path("8 Mbit/s, 60 ms", 8),
            ],
            total: None,
            marks: vec![
                Mark { at: Duration::from_secs(5), kind: MarkKind::Cut, label: "link 1 cut".into() },
                Mark {
                    at: Duration::from_secs(10),
                    kind: MarkKind::Restored,
                    label: "link 1 restored".into(),
                },
            ],
        };
        let svg = plot.to_svg().unwrap();
        for text in
            ["<svg", "time (s)", "rate (Mbit/s)", "all paths", "8 Mbit/s, 60 ms", "link 1 cut", "</svg>"]
        {
            assert!(svg.contains(text), "{text}");
        }
        if let Some(place) = std::env::var_os("MANYWAY_PLOT") {
            std::fs::write(place, svg).unwrap();
        }
    }

    #[test]
    fn a_picture_of_nothing_is_a_picture() {
        let plot = RatePlot {
            title: String::new(),
            bin: Duration::from_secs(1),
            paths: Vec::new(),
            total: None,
            marks: Vec::new(),
        };
        assert!(plot.to_svg().unwrap().contains("</svg>"));
    }
}
