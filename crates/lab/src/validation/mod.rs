//! Compares the emulator with theory: what a link must do by its settings, and what it does.
//!
//! Each [`Property`] is measured with UDP over real links between two hosts. `manyway-lab validate` prints the figures,
//! and a test applies the same bounds.
//!
//! * `theory`: the expected numbers;
//! * `timing`, `fate`, `speed`: the measured ones: arrival times, fate and throughput of packets;
//! * `stage`, [`datagrams`]: links, sockets, traffic;
//! * `text`: the table.

pub mod datagrams;
mod fate;
mod figure;
mod property;
mod speed;
mod stage;
mod text;
mod theory;
mod timing;
mod trial;

use std::time::Duration;

use serde::Serialize;

use crate::campaign::Activity;
use crate::measures::Spread;
use crate::{LabError, Stop};

pub use figure::{Figure, Row};
pub use property::{Extent, Property};
pub use stage::{open, side_by_side, socket};
pub use text::text;
use trial::Trial;

/// How [`run`] measures.
#[derive(Debug, Clone)]
pub struct Options {
    /// The properties. Default all.
    pub properties: Vec<Property>,
    /// Repetitions, interleaved. Default 3, at least 1.
    pub repetitions: u32,
    /// Duration of each.
    pub extent: Extent,
    /// Seed of everything random in the first repetition; each further one has the next. Default 1.
    pub seed: u64,
    /// Ends the measurements soon.
    pub stop: Stop,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            properties: Property::ALL.to_vec(),
            repetitions: 3,
            extent: Extent::Full,
            seed: 1,
            stop: Stop::default(),
        }
    }
}

impl Options {
    /// About how long [`run`] takes.
    pub fn takes(&self) -> Duration {
        self.once() * self.repetitions
    }

    /// About how long a repetition takes.
    pub fn once(&self) -> Duration {
        self.properties.iter().map(|property| property.takes(self.extent)).sum()
    }
}

/// All figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// In the order of [`Options::properties`].
    pub rows: Vec<Row>,
    /// Remarks for the reader of the figures.
    pub remarks: Vec<String>,
}

impl Report {
    /// Whether all figures are within their bounds.
    pub fn holds(&self) -> bool {
        self.rows.iter().all(Row::holds)
    }
}

/// Measures, and reports each repetition, from 0, before it. A [`Stop`] is noticed between two parts of a measurement,
/// which take 4 s at most; the properties measured until then are returned.
///
/// # Errors
/// As [`Hosts::make`](crate::hosts::Hosts::make) and [`Emulator::start`](crate::emulator::Emulator::start);
/// [`LabError::Interrupted`] if no property was measured.
pub fn run(options: &Options, mut begins: impl FnMut(u32)) -> Result<Report, LabError> {
    crate::hosts::Hosts::check()?;
    let before = Activity::now();
    let mut repetitions: Vec<Vec<Figure>> = Vec::new();
    for number in 0..options.repetitions.max(1) {
        begins(number);
        let seed = options.seed.wrapping_add(u64::from(number));
        let trial = Trial { extent: options.extent, seed, stop: &options.stop };
        let mut figures = Vec::new();
        let end: Result<(), LabError> = options.properties.iter().try_for_each(|property| {
            figures.extend(measure(trial, *property)?);
            Ok(())
        });
        repetitions.push(figures);
        match end {
            Err(LabError::Interrupted) if repetitions.iter().any(|figures| !figures.is_empty()) => break,
            end => end?,
        }
    }
    let mut remarks = Vec::new();
    if cfg!(debug_assertions) {
        remarks
            .push("this program was built without full optimisation: with it, links are faster".to_owned());
    }
    let disturbance = before.zip(Activity::now()).map(|(before, now)| now.since(before));
    remarks.extend(disturbance.filter(|found| found.is_notable()).map(|found| found.words()));
    Ok(Report { rows: rows(&repetitions), remarks })
}

/// Measures a property once.
fn measure(trial: Trial<'_>, property: Property) -> Result<Vec<Figure>, LabError> {
    trial.stop.check()?;
    match property {
        Property::Rate => timing::rates(trial),
        Property::Trace => timing::trace(trial),
        Property::Delay => timing::delay(trial),
        Property::Queue => timing::queue(trial),
        Property::Jitter => timing::jitter(trial),
        Property::Loss => fate::loss(trial),
        Property::Corruption => fate::corruption(trial),
        Property::Duplication => fate::duplication(trial),
        Property::Codel => fate::codel(trial),
        Property::Speed => speed::figures(trial),
    }
}

/// Each figure over all repetitions; the last may lack some, and a first that does was the only one.
fn rows(repetitions: &[Vec<Figure>]) -> Vec<Row> {
    let Some(first) = repetitions.first() else { return Vec::new() };
    let row = |(place, figure): (usize, &Figure)| {
        let measured = repetitions.iter().filter_map(|figures| Some(figures.get(place)?.measured));
        Some(Row {
            property: figure.property,
            setting: figure.setting.clone(),
            unit: figure.unit,
            theory: figure.theory,
            least: figure.least,
            most: figure.most,
            measured: Spread::of(measured)?,
        })
    };
    first.iter().enumerate().filter_map(row).collect()
}
