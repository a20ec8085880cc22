//! The legend above a chart: outside of the frame, where it covers no curve.

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::style::{DashedStyle, LEGEND};

/// Splits off the upper part of an area that the names of curves need, writes them there beside samples of their styles,
/// in rows from left to right, and returns the lower part.
pub(super) fn above<'document>(
    area: &DrawingArea<SVGBackend<'document>, Shift>,
    names: &[&str],
    styles: impl Iterator<Item = DashedStyle>,
) -> Result<DrawingArea<SVGBackend<'document>, Shift>, Box<dyn std::error::Error>> {
    let font = ("sans-serif", 15).into_text_style(area);
    let (width, _) = area.dim_in_pixel();
    let room = i32::try_from(width).unwrap_or(i32::MAX) - 2 * MARGIN;
    let mut places = Vec::new();
    let (mut x, mut row) = (0, 0);
    for name in names {
        let (length, _) = area.estimate_text_size(name, &font)?;
        let entry = LEGEND + GAP + i32::try_from(length).unwrap_or(i32::MAX - room);
        if x > 0 && x + entry > room {
            (x, row) = (0, row + 1);
        }
        places.push((x, row));
        x += entry + 3 * GAP;
    }
    let rows = if names.is_empty() { 0 } else { row + 1 };
    let (upper, lower) = area.split_vertically(rows * LINE + GAP);
    for ((name, (x, row)), DashedStyle { style, dash, gap }) in names.iter().zip(places).zip(styles) {
        let (x, middle) = (MARGIN + x, row * LINE + LINE / 2);
        upper.draw(&DashedPathElement::new([(x, middle), (x + LEGEND, middle)], dash, gap, style))?;
        upper.draw(&Text::new((*name).to_owned(), (x + LEGEND + GAP, middle - TEXT / 2), font.clone()))?;
    }
    Ok(lower)
}

/// From the edges of the figure to the first name, and after the last one.
const MARGIN: i32 = 24;
/// Between a sample and its name, a third of that between two names.
const GAP: i32 = 8;
/// Height of a row, and of the letters in it.
const LINE: i32 = 20;
const TEXT: i32 = 14;
