//! Curves: a point for each pair of numbers, and lines between.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::FigureError;
use super::compact::compact;
use super::legend;
use super::style::{DashedStyle, SIZE, dashed};

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
}

/// The figure to draw.
#[derive(Debug, Clone, PartialEq)]
pub struct CurvePlot {
    /// Its title.
    pub title: String,
    /// The meaning of the horizontal axis, with the unit. It is logarithmic if the greatest value is twenty times the
    /// least.
    pub horizontal: String,
    /// The meaning of the vertical axis, with the unit; logarithmic by the same rule, from 0 otherwise.
    pub vertical: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

impl CurvePlot {
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
        let root = SVGBackend::with_string(document, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let area = root.margin(8, 0, 0, 0).titled(&self.title, ("sans-serif", 20))?;
        let names: Vec<&str> = self.curves.iter().map(|curve| curve.name.as_str()).collect();
        let area = legend::above(&area, &names, dashed())?;
        let points = || self.curves.iter().flat_map(|curve| curve.points.iter());
        let across = Axis::over(points().map(|(x, _)| *x));
        let upward = Axis::over(points().map(|(_, y)| *y));
        self.draw_on(&area, across, upward)?;
        root.present()?;
        Ok(())
    }

    /// Coordinates are transformed to linear or logarithmic before they are drawn, so that there is one kind of chart.
    fn draw_on(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        across: Axis,
        upward: Axis,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let mut chart = ChartBuilder::on(area)
            .margin(14)
            .margin_right(24)
            .x_label_area_size(44)
            .y_label_area_size(72)
            .build_cartesian_2d(across.range(), upward.range())?;
        chart
            .configure_mesh()
            .x_desc(&self.horizontal)
            .y_desc(&self.vertical)
            .x_label_formatter(&|at| across.label(*at))
            .y_label_formatter(&|at| upward.label(*at))
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .label_style(("sans-serif", 15))
            .axis_desc_style(("sans-serif", 16))
            .draw()?;
        for (curve, DashedStyle { style, dash, gap }) in self.curves.iter().zip(dashed()) {
            let places: Vec<(f64, f64)> =
                curve.points.iter().map(|(x, y)| (across.place(*x), upward.place(*y))).collect();
            if places.len() <= MOST_MARKED {
                let marks = places.iter().map(|place| Circle::new(*place, 3, style.filled()));
                chart.draw_series(marks)?;
            }
            chart.draw_series(DashedLineSeries::new(places, dash, gap, style))?;
        }
        Ok(())
    }
}

/// The points of a curve with more are not marked.
const MOST_MARKED: usize = 60;

/// The scale of an axis.
#[derive(Debug, Clone, Copy)]
struct Axis {
    is_logarithmic: bool,
    least: f64,
    most: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>) -> Self {
        let (least, most) =
            values.fold((f64::INFINITY, 0.0), |(least, most), value| (value.min(least), value.max(most)));
        let most = if most > 0.0 { most } else { 1.0 };
        Self { is_logarithmic: least > 0.0 && most >= least * 20.0, least: least.min(most), most }
    }

    fn place(self, value: f64) -> f64 {
        if self.is_logarithmic { value.max(self.least).log10() } else { value }
    }

    fn range(self) -> std::ops::Range<f64> {
        if self.is_logarithmic {
            return self.least.log10() - 0.05..self.most.log10() + 0.05;
        }
        0.0..self.most * 1.08
    }

    fn label(self, at: f64) -> String {
        let value = if self.is_logarithmic { 10_f64.powf(at) } else { at };
        match value {
            value if value >= 100.0 => format!("{value:.0}"),
            value if value >= 10.0 => format!("{value:.1}"),
            value => format!("{value:.2}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_names_its_axes_and_curves() {
        let curve = |name: &str, factor: f64| Curve {
            name: name.to_owned(),
            points: [0.1, 1.0, 10.0].map(|x| (x, x * factor)).to_vec(),
        };
        let plot = CurvePlot {
            title: "throughput <over> bandwidth".into(),
            horizontal: "total, Mbit/s".into(),
            vertical: "throughput, Mbit/s".into(),
            curves: vec![curve("both links", 0.95), curve("the faster one", 0.75)],
        };
        let svg = plot.to_svg().unwrap();
        for text in ["total, Mbit/s", "throughput, Mbit/s", "both links", "the faster one", "&lt;over&gt;"] {
            assert!(svg.contains(text), "{text}\n{svg}");
        }
        if let Some(place) = std::env::var_os("MANYWAY_PLOT") {
            std::fs::write(place, svg).unwrap();
        }
    }

    /// The frame begins below the last name, and names that do not fit beside each other have rows of their own.
    #[test]
    fn the_legend_lies_above_the_curves() {
        let names = ["manyway:carrier=tcp,connections=5,target=800k", "of the document", "one", "two"]
            .map(|name| name.repeat(2));
        let curve = |name: &String| Curve { name: name.clone(), points: vec![(0.0, 5.0), (900.0, 5.0)] };
        let plot = CurvePlot {
            title: "rate".into(),
            horizontal: "time, s".into(),
            vertical: "Mbit/s".into(),
            curves: names.iter().map(curve).collect(),
        };
        let svg = plot.to_svg().unwrap();
        let lines: Vec<&str> = svg.lines().collect();
        let number = |line: &str, key: &str| -> Option<i32> {
            line.split_once(key)?.1.split_once('"')?.0.parse().ok()
        };
        let row = |name: &String| {
            let place = lines.iter().position(|line| line == name).unwrap();
            number(lines[place - 1], " y=\"").unwrap()
        };
        let rows: Vec<i32> = names.iter().map(row).collect();
        assert!(rows[0] < rows[3], "{rows:?}");
        // The lines of the grid, which reach from the lower to the upper edge of the frame.
        let upper = lines.iter().filter_map(|line| number(line, " y2=\"")).min();
        assert!(upper > Some(rows[3] + 10), "{rows:?} {upper:?}");
    }

    #[test]
    fn an_axis_is_logarithmic_where_values_differ_much() {
        let wide = Axis::over([0.1, 10.0].into_iter());
        let narrow = Axis::over([1.0, 3.0].into_iter());
        assert!(wide.is_logarithmic && !narrow.is_logarithmic);
        assert_eq!((wide.label(0.0), narrow.label(2.5)), ("1.00".to_owned(), "2.50".to_owned()));
        assert!(
            CurvePlot {
                title: String::new(),
                horizontal: String::new(),
                vertical: String::new(),
                curves: Vec::new()
            }
            .to_svg()
            .is_ok()
        );
    }
}
