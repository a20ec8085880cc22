//! Figures: what theory expects, what is accepted, and what was measured.

use serde::Serialize;

use super::property::Property;
use crate::measures::Spread;

/// A figure with its expected and its measured value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure<Measured = f64> {
    /// The property.
    pub property: Property,
    /// The settings.
    pub setting: String,
    /// The unit of all values.
    pub unit: &'static str,
    /// The expected value by the settings of the link; `None` if only the machine decides.
    pub theory: Option<f64>,
    /// Lower bound; `None` is no bound.
    pub least: Option<f64>,
    /// Upper bound; `None` is no bound. Without either bound the figure is for comparison only.
    pub most: Option<f64>,
    /// The measured value.
    pub measured: Measured,
}

impl Figure {
    pub(super) fn new(
        property: Property,
        setting: impl Into<String>,
        unit: &'static str,
        measured: f64,
    ) -> Self {
        Self { property, setting: setting.into(), unit, theory: None, least: None, most: None, measured }
    }

    /// Accepts values within this distance of the expected one.
    pub(super) fn near(self, theory: f64, tolerance: f64) -> Self {
        self.between(theory, (theory - tolerance, theory + tolerance))
    }

    pub(super) fn between(self, theory: f64, (least, most): (f64, f64)) -> Self {
        Self { theory: Some(theory), least: Some(least), most: Some(most), ..self }
    }

    pub(super) fn at_least(self, least: f64) -> Self {
        Self { least: Some(least), ..self }
    }
}

/// A figure of all repetitions.
pub type Row = Figure<Spread>;

impl Row {
    /// Whether the median is within the bounds.
    pub fn holds(&self) -> bool {
        let median = self.measured.median;
        self.least.is_none_or(|least| median >= least) && self.most.is_none_or(|most| median <= most)
    }

    /// Whether it has bounds.
    pub fn is_judged(&self) -> bool {
        self.least.is_some() || self.most.is_some()
    }
}
