//! The properties of a link that are measured.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

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
    pub(super) fn of(self, time: Duration) -> Duration {
        match self {
            Self::Full => time,
            Self::Quick => time / 2,
        }
    }
}
