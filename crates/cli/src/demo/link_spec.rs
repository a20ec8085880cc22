//! `--link RATE,DELAY[,LOSS]`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use manyway_proto::Rate;
use manyway_sim::link::{LinkConfig, LossModel, Probability};

use crate::output::units::{self, UnitError};

/// An emulated link, the same in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSpec {
    /// Its rate; at least 8 kbit/s, counted with IP and UDP headers.
    pub rate: Rate,
    /// Its one-way delay; at most 10 s.
    pub delay: Duration,
    /// Probability of random loss; below one.
    pub loss: Probability,
}

impl LinkSpec {
    /// The links of the demo: fast and near, slower, and slow, far and lossy.
    pub fn defaults() -> Vec<Self> {
        let link = |megabits: u64, delay, loss| Self {
            rate: Rate::from_bits_per_second(megabits * 1_000_000),
            delay: Duration::from_millis(delay),
            loss: Probability::from_ppm(loss),
        };
        vec![link(40, 15, 0), link(20, 40, 0), link(8, 60, 5_000)]
    }

    /// One direction for the emulator, with a drop-tail queue of this length in time.
    pub fn config(&self, queue: Duration) -> LinkConfig {
        LinkConfig::new(self.rate, self.delay).with_loss(LossModel::Random(self.loss)).with_queue_time(queue)
    }
}

impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.rate, units::duration(self.delay))?;
        let billionths = self.loss.billionths();
        if billionths > 0 {
            write!(f, ", {}.{:02} % loss", billionths / 10_000_000, billionths / 100_000 % 100)?;
        }
        Ok(())
    }
}

/// Why a `--link` is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkSpecError {
    /// Not two or three fields.
    Fields {
        /// How many there are.
        found: usize,
    },
    /// A field cannot be read.
    Unit {
        /// Its name.
        field: &'static str,
        /// Why.
        error: UnitError,
    },
    /// A field is out of range.
    Range {
        /// Its name.
        field: &'static str,
        /// What is allowed.
        allowed: &'static str,
    },
}

impl fmt::Display for LinkSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fields { found } => {
                write!(
                    f,
                    "a link has the fields RATE,DELAY[,LOSS], here are {found}; example: 20Mbit,40ms,0.5%"
                )
            }
            Self::Unit { field, error } => write!(f, "{field}: {error}"),
            Self::Range { field, allowed } => write!(f, "{field}: must be {allowed}"),
        }
    }
}

impl std::error::Error for LinkSpecError {}

impl FromStr for LinkSpec {
    type Err = LinkSpecError;

    fn from_str(text: &str) -> Result<Self, LinkSpecError> {
        let fields: Vec<_> = text.split(',').collect();
        let (rate, delay, loss) = match *fields.as_slice() {
            [rate, delay] => (rate, delay, "0"),
            [rate, delay, loss] => (rate, delay, loss),
            _ => return Err(LinkSpecError::Fields { found: fields.len() }),
        };
        let unit = |field| move |error| LinkSpecError::Unit { field, error };
        let rate = units::parse_rate(rate).map_err(unit("RATE"))?;
        let delay = units::parse_duration(delay).map_err(unit("DELAY"))?;
        let loss = units::parse_share(loss).map_err(unit("LOSS"))?;
        if rate < LEAST_RATE {
            return Err(LinkSpecError::Range { field: "RATE", allowed: "8kbit or more" });
        }
        if delay > MOST_DELAY {
            return Err(LinkSpecError::Range { field: "DELAY", allowed: "10s or less" });
        }
        if loss >= 1_000_000_000 {
            return Err(LinkSpecError::Range { field: "LOSS", allowed: "below 100%" });
        }
        Ok(Self { rate, delay, loss: Probability::from_billionths(loss) })
    }
}

const LEAST_RATE: Rate = Rate::from_bits_per_second(8_000);
const MOST_DELAY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_links_can_be_written_down() {
        let written: Vec<LinkSpec> =
            ["40Mbit,15ms", "20M,0.04s,0", "8Mbit,60ms,0.5%"].iter().map(|t| t.parse().unwrap()).collect();
        assert_eq!(written, LinkSpec::defaults());
        assert_eq!(written[2].to_string(), "8.0 Mbit/s, 60.0 ms, 0.50 % loss");
    }

    #[test]
    fn an_error_names_its_field() {
        let error = |text: &str| text.parse::<LinkSpec>().unwrap_err().to_string();
        assert!(error("20Mbit").starts_with("a link has the fields RATE,DELAY[,LOSS], here are 1"));
        assert!(error("fast,1ms").starts_with("RATE: \"fast\" is not a rate"));
        assert!(error("20Mbit,soon").starts_with("DELAY: "));
        assert!(error("20Mbit,1ms,2").starts_with("LOSS: "));
        assert_eq!(error("20Mbit,11s"), "DELAY: must be 10s or less");
        assert_eq!(error("1,1s"), "RATE: must be 8kbit or more");
        assert_eq!(error("1M,1s,100%"), "LOSS: must be below 100%");
    }
}
