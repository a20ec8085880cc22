//! The rows of an experiment: what is run, and which part of it counts.

/// How much of an experiment is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Everything, in the document's times.
    Full,
    /// Some rows, in a tenth of the time, but at least 3 s.
    Quick,
}

/// A line of the table.
#[derive(Debug, Clone)]
pub struct Row {
    /// The values for the scenario.
    pub values: Vec<f64>,
    /// The evaluated part of the runs; `None` for all of it.
    pub phase: Option<Phase>,
    /// The document's numbers; one that it does not have is not a number.
    pub document: Vec<f64>,
    /// Whether it is also run in a quick extent.
    pub extent: Extent,
}

impl Row {
    /// A row that is only run in the full extent.
    pub fn new(values: impl Into<Vec<f64>>, document: impl Into<Vec<f64>>) -> Self {
        Self { values: values.into(), phase: None, document: document.into(), extent: Extent::Full }
    }

    /// The name of a contender in this row: `{0}` stands for the first value.
    pub fn filled(&self, name: &str) -> String {
        self.values.first().map_or_else(|| name.to_owned(), |value| name.replace("{0}", &value.to_string()))
    }

    /// The same, also run in a quick extent.
    #[must_use]
    pub fn quick(self) -> Self {
        Self { extent: Extent::Quick, ..self }
    }

    /// The same, evaluated in a part of the runs.
    #[must_use]
    pub fn during(self, name: &'static str, from: f64, to: f64) -> Self {
        Self { phase: Some(Phase { name, from, to }), ..self }
    }
}

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// Its description.
    pub name: &'static str,
    /// Its start as a share of the duration.
    pub from: f64,
    /// Its end, likewise.
    pub to: f64,
}
