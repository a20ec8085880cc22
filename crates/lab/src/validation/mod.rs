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
mod speed;
mod stage;
mod text;
mod theory;
mod timing;

use std::fmt;
use std::time::Duration;

use manyway_sim::link::LinkConfig;
use serde::Serialize;

use crate::campaign::Activity;
use crate::measures::Spread;
use crate::{LabError, Stop};

use stage::Stage;
pub use stage::{open, side_by_side, socket};
pub use text::text;

/// A property of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Property {
    /// A fixed rate, both ways.
    Rate,
    /// The mean rate of a trace.
    Trace,
    /// The round-trip time.
    Delay,
    /// The delay of a full queue.
    Queue,
    /// Spread of delays, and whether packets are reordered.
    Jitter,
    /// Random loss, and loss in bursts.
    Loss,
    /// Share of damaged packets.
    Corruption,
    /// Share of duplicated packets.
    Duplication,
    /// How often `CoDel` drops and marks.
    Codel,
    /// Throughput of one core.
    Speed,
}

impl Property {
    /// All, in the order of the report.
    pub const ALL: [Self; 10] = [
        Self::Rate,
        Self::Trace,
        Self::Delay,
        Self::Queue,
        Self::Jitter,
        Self::Loss,
        Self::Corruption,
        Self::Duplication,
        Self::Codel,
        Self::Speed,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Trace => "trace",
            Self::Delay => "delay",
            Self::Queue => "queue",
            Self::Jitter => "jitter",
            Self::Loss => "loss",
            Self::Corruption => "corruption",
            Self::Duplication => "duplication",
            Self::Codel => "codel",
            Self::Speed => "speed",
        }
    }

    /// About how long one measurement takes.
    pub fn takes(self, extent: Extent) -> Duration {
        let millis = match self {
            Self::Rate => 12_400,
            Self::Trace | Self::Delay => 4_700,
            Self::Queue => 1_600,
            Self::Jitter => 9_700,
            Self::Loss => 4_900,
            Self::Corruption | Self::Duplication => 2_400,
            Self::Codel => 5_200,
            Self::Speed => 9_800,
        };
        extent.of(Duration::from_millis(millis))
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How thoroughly a property is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// For the whole time.
    #[default]
    Full,
    /// For half of it.
    Quick,
}

impl Extent {
    fn of(self, time: Duration) -> Duration {
        match self {
            Self::Full => time,
            Self::Quick => time / 2,
        }
    }
}

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
    fn new(property: Property, setting: impl Into<String>, unit: &'static str, measured: f64) -> Self {
        Self { property, setting: setting.into(), unit, theory: None, least: None, most: None, measured }
    }

    /// Accepts values within this distance of the expected one.
    fn near(self, theory: f64, tolerance: f64) -> Self {
        self.between(theory, (theory - tolerance, theory + tolerance))
    }

    fn between(self, theory: f64, (least, most): (f64, f64)) -> Self {
        Self { theory: Some(theory), least: Some(least), most: Some(most), ..self }
    }

    fn at_least(self, least: f64) -> Self {
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
            figures.extend(trial.measure(*property)?);
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

/// The parameters of one repetition.
#[derive(Debug, Clone, Copy)]
struct Trial<'a> {
    extent: Extent,
    seed: u64,
    stop: &'a Stop,
}

impl Trial<'_> {
    /// A link to measure, unless the end was requested.
    fn stage(self, config: &LinkConfig) -> Result<Stage, LabError> {
        self.stop.check()?;
        Stage::with(config, self.seed)
    }

    fn measure(self, property: Property) -> Result<Vec<Figure>, LabError> {
        self.stop.check()?;
        match property {
            Property::Rate => timing::rates(self),
            Property::Trace => timing::trace(self),
            Property::Delay => timing::delay(self),
            Property::Queue => timing::queue(self),
            Property::Jitter => timing::jitter(self),
            Property::Loss => fate::loss(self),
            Property::Corruption => fate::corruption(self),
            Property::Duplication => fate::duplication(self),
            Property::Codel => fate::codel(self),
            Property::Speed => speed::figures(self),
        }
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
