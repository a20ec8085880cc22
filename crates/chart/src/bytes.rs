//! Bytes that arrived over time, one curve for each contender.

use std::time::Duration;

use plotters::prelude::*;

use super::FigureError;
use super::compact::compact;
use super::style::{SIZE, axes, curve, dashed, in_millions, legend};

/// The arrivals of one contender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BytesSeries {
    /// Its name in the legend.
    pub name: String,
    /// Bytes that arrived in each bin of [`BytesPlot::bin`].
    pub bins: Vec<u64>,
}

/// The figure to draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BytesPlot {
    /// Its title.
    pub title: String,
    /// The time that each bin covers; above zero.
    pub bin: Duration,
    /// The curves.
    pub series: Vec<BytesSeries>,
}

impl BytesPlot {
    /// Draws an SVG document, 1000 by 500.
    ///
    /// # Errors
    /// The drawing library fails.
    pub fn to_svg(&self) -> Result<String, FigureError> {
        let mut document = String::new();
        self.draw(&mut document).map_err(|error| FigureError(error.to_string()))?;
        Ok(compact(&document))
    }

    fn draw(&self, document: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let curves: Vec<Vec<(f64, f64)>> = self.series.iter().map(|series| self.points(series)).collect();
        let ends = || curves.iter().filter_map(|curve| curve.last());
        let seconds = ends().map(|(x, _)| *x).fold(0.1, f64::max);
        let top = ends().map(|(_, y)| *y).fold(0.001, f64::max) * 1.05;

        let root = SVGBackend::with_string(document, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let area = root.margin(8, 0, 0, 0).titled(&self.title, ("sans-serif", 22))?;
        let mut chart = ChartBuilder::on(&area)
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..seconds, 0.0..top)?;
        axes(&mut chart, "arrived (MB)")?;
        for ((series, points), style) in self.series.iter().zip(curves).zip(dashed()) {
            curve(&mut chart, &series.name, points, style)?;
        }
        legend(&mut chart, SeriesLabelPosition::UpperLeft)?;
        root.present()?;
        Ok(())
    }

    /// The end of each bin and the megabytes until then.
    fn points(&self, series: &BytesSeries) -> Vec<(f64, f64)> {
        let bin = self.bin.as_secs_f64();
        let mut sum = 0_u64;
        let mut point = |(index, bytes): (u32, &u64)| {
            sum += bytes;
            (f64::from(index) * bin, in_millions(sum))
        };
        let curve = (1_u32..).zip(&series.bins).map(&mut point);
        [(0.0, 0.0)].into_iter().chain(curve).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_names_axes_and_contenders_and_its_curves_add_up() {
        let series = |name: &str, bytes| BytesSeries { name: name.to_owned(), bins: vec![bytes; 50] };
        let plot = BytesPlot {
            title: "two-50".into(),
            bin: Duration::from_millis(100),
            series: vec![series("manyway", 1_000_000), series("tcp-cubic", 500_000)],
        };
        let points = plot.points(&plot.series[0]);
        assert_eq!((points.len(), points[50]), (51, (5.0, 50.0)));
        let svg = plot.to_svg().unwrap();
        for text in ["time (s)", "arrived (MB)", "manyway", "tcp-cubic", "</svg>"] {
            assert!(svg.contains(text), "{text}");
        }
    }
}
