//! The style of all figures: a white background, so that they are legible on light and dark pages, colours that the
//! colour-blind can distinguish, and a dash pattern for each curve, for print without colours.

use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

/// Width and height of a figure.
pub(super) const SIZE: (u32, u32) = (1000, 500);
/// Length of the sample in a legend.
pub(super) const LEGEND: i32 = 34;

/// How a curve is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct DashedStyle {
    pub(super) style: ShapeStyle,
    pub(super) dash: u32,
    pub(super) gap: u32,
}

/// The styles of curves, in order. When the colours repeat, each has another dash pattern than before.
pub(super) fn dashed() -> impl Iterator<Item = DashedStyle> {
    let rounds = (0..DASHES.len()).cycle();
    let styles = rounds.flat_map(|round| COLOURS.iter().zip(DASHES.iter().cycle().skip(round)));
    styles.map(|(colour, (dash, gap))| DashedStyle { style: colour.stroke_width(2), dash: *dash, gap: *gap })
}

/// The colours of bars, in order, cyclic.
pub(super) fn colours() -> impl Iterator<Item = RGBColor> {
    COLOURS.into_iter().cycle()
}

/// A number as an axis shows it.
#[expect(clippy::as_conversions, reason = "beyond 2^53 the last digits do not matter")]
pub(super) fn in_millions(number: u64) -> f64 {
    number as f64 / 1e6
}

/// A chart of a value over seconds.
pub(super) type Chart<'area, 'document> =
    ChartContext<'area, SVGBackend<'document>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws the axes: time, and `what` over it.
pub(super) fn axes(chart: &mut Chart<'_, '_>, what: &str) -> Drawn {
    chart
        .configure_mesh()
        .x_desc("time (s)")
        .y_desc(what)
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .label_style(("sans-serif", 15))
        .axis_desc_style(("sans-serif", 16))
        .draw()
        .map_err(|error| error.to_string().into())
}

/// Draws a curve and registers it for the legend.
pub(super) fn curve(
    chart: &mut Chart<'_, '_>,
    name: &str,
    points: Vec<(f64, f64)>,
    DashedStyle { style, dash, gap }: DashedStyle,
) -> Drawn {
    chart
        .draw_series(DashedLineSeries::new(points, dash, gap, style))
        .map_err(|error| error.to_string())?
        .label(name)
        .legend(move |(x, y)| DashedPathElement::new([(x, y), (x + LEGEND, y)], dash, gap, style));
    Ok(())
}

/// Draws the legend of all curves so far.
pub(super) fn legend<'area, 'document: 'area>(
    chart: &mut Chart<'area, 'document>,
    position: SeriesLabelPosition,
) -> Drawn {
    chart
        .configure_series_labels()
        .position(position)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .legend_area_size(LEGEND + 8)
        .label_font(("sans-serif", 15))
        .draw()
        .map_err(|error| error.to_string().into())
}

/// The palette of Okabe and Ito.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];
/// Length of a dash and of the gap after it.
const DASHES: [(u32, u32); 6] = [(14, 0), (10, 4), (4, 4), (16, 6), (2, 3), (7, 7)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dozen_contenders_and_more_look_different() {
        let looks: Vec<_> =
            dashed().take(24).map(|style| (style.style.color.rgb(), style.dash, style.gap)).collect();
        for (place, look) in looks.iter().enumerate() {
            assert!(!looks[..place].contains(look), "{place}: {look:?}");
        }
    }
}
