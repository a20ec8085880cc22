//! Compares contenders: a bar for the median, a whisker from the least to the greatest value.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::FigureError;
use super::compact::compact;
use super::style::{SIZE, colours};

/// The results of repeated measurements of one contender.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Values {
    /// The median, which is the length of the bar.
    pub median: f64,
    /// The smallest, where the whisker begins.
    pub least: f64,
    /// The largest, where the whisker ends. If it is infinite no bar is drawn.
    pub most: f64,
}

/// The bar of one contender.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Its name, printed at the left.
    pub name: String,
    /// Its values; `None` draws no bar, such as for a contender that could not run.
    pub value: Option<Values>,
}

/// The figure to draw.
#[derive(Debug, Clone, PartialEq)]
pub struct BarChart {
    /// Its title.
    pub title: String,
    /// The meaning of the values, with the unit.
    pub unit: String,
    /// The bars from top to bottom.
    pub bars: Vec<Bar>,
}

impl BarChart {
    /// Draws an SVG document, 1000 wide and as high as the bars need.
    ///
    /// # Errors
    /// The drawing library fails.
    pub fn to_svg(&self) -> Result<String, FigureError> {
        let mut document = String::new();
        self.draw(&mut document).map_err(|error| FigureError(error.to_string()))?;
        Ok(compact(&document))
    }

    fn draw(&self, document: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let count = u32::try_from(self.bars.len()).unwrap_or(u32::MAX).max(1);
        let values = self.bars.iter().filter_map(|bar| bar.value);
        let most = values.map(|value| value.most).filter(|most| most.is_finite()).fold(0.001, f64::max);
        let height = HEAD + FOOT + BAR * count;
        let root = SVGBackend::with_string(document, (SIZE.0, height)).into_drawing_area();
        root.fill(&WHITE)?;
        let area = root.margin(8, 0, 0, 0).titled(&self.title, ("sans-serif", 22))?;
        let mut chart = ChartBuilder::on(&area)
            .margin(14)
            .margin_left(NAMES)
            .x_label_area_size(44)
            .build_cartesian_2d(0.0..most * 1.15, f64::from(count)..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .x_desc(&self.unit)
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .label_style(("sans-serif", 15))
            .axis_desc_style(("sans-serif", 16))
            .draw()?;
        let right = ("sans-serif", 15).into_font().color(&BLACK).pos(Pos::new(HPos::Right, VPos::Center));
        let left = ("sans-serif", 14).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
        for ((place, bar), colour) in (0_u32..).zip(&self.bars).zip(colours()) {
            let y = f64::from(place) + 0.5;
            let (x, middle) = chart.backend_coord(&(0.0, y));
            root.draw(&Text::new(bar.name.clone(), (x - 8, middle), right.clone()))?;
            let Some(value) = bar.value.filter(|value| value.most.is_finite()) else {
                root.draw(&Text::new("no value", (x + 8, middle), left.clone()))?;
                continue;
            };
            let corners = [(0.0, y - 0.32), (value.median, y + 0.32)];
            chart.draw_series([Rectangle::new(corners, colour.mix(0.8).filled())])?;
            let whisker = [(value.least, y), (value.most, y)];
            let ends = [value.least, value.most].map(|x| vec![(x, y - 0.15), (x, y + 0.15)]);
            for line in [whisker.to_vec()].into_iter().chain(ends) {
                chart.draw_series([PathElement::new(line, BLACK.stroke_width(1))])?;
            }
        }
        root.present()?;
        Ok(())
    }
}

/// Height of a bar and the gap below it.
const BAR: u32 = 34;
/// Height of what stands above the bars.
const HEAD: u32 = 56;
/// Height of what stands below.
const FOOT: u32 = 64;
/// Width of the names.
const NAMES: u32 = 220;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_has_its_name_and_no_number() {
        let bar = |name: &str, values: Option<[f64; 3]>| Bar {
            name: name.to_owned(),
            value: values.map(|[least, median, most]| Values { median, least, most }),
        };
        let chart = BarChart {
            title: "80 & 20 <Mbit/s>".into(),
            unit: "goodput (Mbit/s)".into(),
            bars: vec![
                bar("manyway", Some([94.0, 95.0, 96.5])),
                bar("tcp-cubic", Some([47.9; 3])),
                bar("mptcp-bbr", None),
            ],
        };
        let svg = chart.to_svg().unwrap();
        assert!(!svg.contains("95.0"), "the table has the numbers");
        for text in ["manyway", "tcp-cubic", "no value", "80 &amp; 20 &lt;Mbit/s&gt;"] {
            assert!(svg.contains(text), "{text}\n{svg}");
        }
        if let Some(place) = std::env::var_os("MANYWAY_PLOT") {
            std::fs::write(place, svg).unwrap();
        }
    }
}
