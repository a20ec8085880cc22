//! The rate at which the receiver of a contender wants its data.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use manyway_proto::{ByteCount, ConfigError, Rate, RateAlgorithm, TargetRate};
use serde::{Deserialize, Serialize};

/// A rate, and whether the number of TCP connections is fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// In bits a second.
    pub bits_per_second: u64,
    /// Whether the number of TCP connections varies.
    pub is_advanced: bool,
    /// Time between two adjustments; `None` is the default of the receiver.
    pub interval: Option<Duration>,
    /// The largest receive window of each connection, in bytes; `None` is that of the receiver.
    pub buffer: Option<u64>,
}

impl Target {
    /// The setting of a receiver that uses so many TCP connections, or the default number.
    ///
    /// # Errors
    /// The rate or the number is out of range.
    pub fn setting(&self, connections: Option<u8>) -> Result<TargetRate, ConfigError> {
        let mut setting = TargetRate::new(Rate::from_bits_per_second(self.bits_per_second));
        setting.algorithm = if self.is_advanced { RateAlgorithm::Advanced } else { RateAlgorithm::Basic };
        setting.interval = self.interval;
        setting.most_receive_window = self.buffer.map(ByteCount);
        setting.connections = connections.unwrap_or(setting.connections);
        setting.validate().map(|()| setting)
    }
}

impl FromStr for Target {
    type Err = ConfigError;

    /// Reads bits a second, such as `800k` or `1600000`; k and M are powers of 1000.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let (number, unit) = match text.as_bytes().last() {
            Some(b'k') => (text.strip_suffix('k'), 1000),
            Some(b'M') => (text.strip_suffix('M'), 1_000_000),
            _ => (Some(text), 1),
        };
        let number = number.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        let bits = number.and_then(|number| number.parse::<u64>().ok()?.checked_mul(unit));
        let reason = || format!("must be bits a second, such as 800k or 2M, not {text:?}");
        let bits_per_second = bits.ok_or_else(|| ConfigError { field: "target", reason: reason() })?;
        Ok(Self { bits_per_second, is_advanced: false, interval: None, buffer: None })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.bits_per_second;
        match bits {
            _ if bits > 0 && bits.is_multiple_of(1_000_000) => write!(f, "{}M", bits / 1_000_000),
            _ if bits > 0 && bits.is_multiple_of(1000) => write!(f, "{}k", bits / 1000),
            _ => write!(f, "{bits}"),
        }
    }
}

/// A time in the largest unit of which it is a whole number.
pub(super) fn whole_units(time: Duration) -> String {
    let nanos = time.as_nanos();
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let unit = units.into_iter().find(|(unit, _)| nanos.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "ns"));
    format!("{}{name}", nanos / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_read_as_it_is_written_and_its_ranges_are_checked() {
        for text in ["800k", "2M", "1500k", "123456"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for text in ["", "k", "-1", "1.5M", "fast", "99999999999999999999"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
        let target: Target = "800k".parse().unwrap();
        assert_eq!(target.setting(None).unwrap().connections, 5);
        assert_eq!(target.setting(Some(17)).unwrap_err().field, "connections");
        assert_eq!("1".parse::<Target>().unwrap().setting(None).unwrap_err().field, "rate");
    }
}
