//! A wanted rate, held by the receiver (MultiTCP): the receiver bounds how much is on its way on each path, and asks for
//! more or fewer TCP connections.

mod controller;
pub(crate) mod report;

use std::time::Duration;

pub(crate) use controller::{RateController, Sample};
pub use report::TargetReport;

use crate::{ByteCount, ConfigError, Rate};

/// Most connections that a target may use.
const MOST_CONNECTIONS: u8 = 16;
/// The guard is at least this (MultiTCP, table 8.1).
const LEAST_GUARD: Rate = Rate::from_bytes_per_second(7000);

/// The rate at which a receiver wants its data, and how it holds that.
///
/// The receiver measures the rate of the payload and adjusts the receive windows of all paths together: those of TCP
/// connections through the system, those of paths over UDP by the block RECEIVE-LIMIT. In a congested network several
/// TCP connections get a larger share, so the target is held where one connection would fall below it. It is never a
/// promise: the rate falls below the target where all connections together do not reach it.
///
/// Source: R. Tullimalli, *Multimedia streaming using multiple TCP connections*, chapters 6 and 8.
///
/// ```
/// use manyway_proto::{Rate, RateAlgorithm, TargetRate};
///
/// let mut target = TargetRate::new(Rate::from_bits_per_second(800_000));
/// target.algorithm = RateAlgorithm::Advanced;
/// assert!(target.validate().is_ok());
/// assert_eq!(target.guard(), Rate::from_bytes_per_second(7000));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TargetRate {
    /// The wanted rate of the payload, `T_d`. At least 1000 bytes a second.
    pub rate: Rate,
    /// Whether the number of TCP connections varies. Default [`RateAlgorithm::Basic`].
    pub algorithm: RateAlgorithm,
    /// TCP connections on each interface that uses TCP: their number with [`RateAlgorithm::Basic`], the largest one with
    /// [`RateAlgorithm::Advanced`], which uses at most [`congestion`](Self::congestion) − 1. 1 to 16, default 5. Without
    /// effect on paths over UDP.
    pub connections: u8,
    /// Time between two adjustments, δ. Default `None`: eight round trips, from 100 ms to 5 s.
    pub interval: Option<Duration>,
    /// Share of the old mean in the new one, α, in percent: 0 to 99, default 80.
    pub smoothing: u8,
    /// The sum of all windows may be this many times what the target needs without congestion, f: at least 2, default 6.
    pub spike: u8,
    /// From this congestion ratio on, fewer connections are better than more, cf. At least 2, default 5.
    pub congestion: u8,
    /// Round trips without any data after which a severely congested network counts as such, X. Default 3.
    pub silence: u8,
    /// No path gets a larger window than this, whatever the algorithm chose for it, as if the socket buffers of the system
    /// had this size. At least 1000 bytes. Default `None`: 16 MiB over TCP, and no bound over UDP.
    pub most_receive_window: Option<ByteCount>,
}

/// How the number of TCP connections is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RateAlgorithm {
    /// It is constant (MultiTCP, section 6.3).
    #[default]
    Basic,
    /// It begins with one, grows with congestion, and falls when that ends or gets severe (MultiTCP, section 6.5).
    Advanced,
}

impl RateAlgorithm {
    /// Every algorithm.
    pub const ALL: [Self; 2] = [Self::Basic, Self::Advanced];

    /// Its name: `basic` or `advanced`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Advanced => "advanced",
        }
    }
}

impl std::str::FromStr for RateAlgorithm {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let found = Self::ALL.into_iter().find(|algorithm| algorithm.name() == text);
        let reason = || format!("must be basic or advanced, not {text:?}");
        found.ok_or_else(|| ConfigError { field: "algorithm", reason: reason() })
    }
}

impl std::fmt::Display for RateAlgorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl TargetRate {
    /// This rate with the defaults.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            algorithm: RateAlgorithm::default(),
            connections: 5,
            interval: None,
            smoothing: 80,
            spike: 6,
            congestion: 5,
            silence: 3,
            most_receive_window: None,
        }
    }

    /// How far above the target the rate may lie before the windows shrink, λ: 2 % of it, at least 7000 bytes a second.
    pub fn guard(&self) -> Rate {
        self.rate.scaled(2, 100).max(LEAST_GUARD)
    }

    /// Checks all ranges.
    ///
    /// # Errors
    /// Names the field that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |holds: bool, field, reason: &str| {
            if holds { Ok(()) } else { Err(ConfigError { field, reason: reason.to_owned() }) }
        };
        check(self.rate.bytes_per_second() >= 1000, "rate", "must be at least 8 kbit/s")?;
        check((1..=MOST_CONNECTIONS).contains(&self.connections), "connections", "must be 1 to 16")?;
        check(
            self.interval.is_none_or(|time| time >= Duration::from_millis(10)),
            "interval",
            "is too short",
        )?;
        check(self.smoothing <= 99, "smoothing", "must be 0 to 99 percent")?;
        check(self.spike >= 2, "spike", "must be at least 2")?;
        check(self.congestion >= 2, "congestion", "must be at least 2")?;
        let is_wide = self.most_receive_window.is_none_or(|window| window >= ByteCount(1000));
        check(is_wide, "most_receive_window", "must be at least 1000 bytes")
    }
}
