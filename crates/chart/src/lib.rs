//! Tables and figures: text in columns, and plots as SVG documents.

mod bars;
mod bytes;
mod columns;
mod compact;
mod curves;
mod legend;
mod rates;
mod style;

use std::fmt;

pub use bars::{Bar, BarChart, Values};
pub use bytes::{BytesPlot, BytesSeries};
pub use columns::{Align, Columns, Table};
pub use curves::{Curve, CurvePlot};
pub use rates::{Extent, Mark, MarkKind, PathSeries, RatePlot};

/// A figure could not be drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FigureError(String);

impl fmt::Display for FigureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the figure cannot be drawn: {}", self.0)
    }
}

impl std::error::Error for FigureError {}
