//! The program of CMT as a contender.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use manyway_units::text;

use super::error::NameError;
use super::target::whole_units;
use crate::dealing::Dealing;
use crate::scenario::{Direction, Scenario, Traffic};

/// A program that sends a file in chunks over several independent TCP connections of each route, deals them out in fixed
/// shares, and puts them into order by their numbers: CMT, section 4.4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunks {
    /// TCP connections of each route. Default 5.
    pub connections: u8,
    /// How many chunks each route gets in turn, in the order of the scenario; a route without a number gets one.
    pub shares: Vec<u32>,
    /// The receiving program looks each chunk up in a list of all chunks, which takes it this time for each entry. Default
    /// 0.
    pub search: Duration,
    /// The size of the file whose chunks are in that list. Default that of the traffic.
    pub file: Option<u64>,
}

impl Default for Chunks {
    fn default() -> Self {
        Self { connections: 5, shares: Vec::new(), search: Duration::ZERO, file: None }
    }
}

impl Chunks {
    /// Its name without settings.
    pub(super) const NAME: &str = "chunks";
    /// Why it cannot run in a scenario.
    pub(crate) const UNFIT: &str =
        "chunks takes one bulk of a given size from one end, and nothing beside it";
    /// Bytes of a chunk where the scenario says nothing.
    const CHUNK: u64 = 64 * 1024;
    const MOST_CONNECTIONS: u8 = 16;
    const MOST_SHARE: u32 = 100;

    /// Whether a name is that of the program, with settings or without.
    pub(super) fn is_meant(name: &str) -> bool {
        name.split(':').next() == Some(Self::NAME)
    }

    /// Time that the receiving program spends on a chunk, if the traffic has this size and its chunks have this length.
    fn cost(&self, size: u64, chunk: u64) -> Duration {
        let entries = self.file.unwrap_or(size).div_ceil(chunk.max(1));
        self.search.saturating_mul(u32::try_from(entries).unwrap_or(u32::MAX))
    }

    /// How it deals out the traffic of a scenario; `None` unless that is one bulk of a given size from one end.
    pub(crate) fn dealing(&self, scenario: &Scenario) -> Option<Dealing> {
        let [Traffic::Bulk { direction, size: Some(size), chunk, .. }] = scenario.traffic.as_slice() else {
            return None;
        };
        if *direction == Direction::Both || !scenario.cross_traffic.is_empty() {
            return None;
        }
        let (size, chunk) = (size.get(), chunk.map_or(Self::CHUNK, |chunk| chunk.get()));
        let share = |route: usize| self.shares.get(route).copied().unwrap_or(1);
        let shares: Vec<u32> = (0..scenario.routes.len()).map(share).collect();
        Some(Dealing::new((size, chunk), (&shares, self.connections.into()), self.cost(size, chunk)))
    }

    fn set(&mut self, setting: &str) -> Result<(), NameError> {
        let number = |value: &str| value.parse::<u32>().ok();
        match setting.split_once('=') {
            Some(("connections", value)) => {
                let range = 1..=Self::MOST_CONNECTIONS;
                let known = value.parse().ok().filter(|number| range.contains(number));
                let wrong = || {
                    NameError(format!("connections must be 1 to {}, not {value:?}", Self::MOST_CONNECTIONS))
                };
                self.connections = known.ok_or_else(wrong)?;
            }
            Some(("shares", value)) => {
                let range = 1..=Self::MOST_SHARE;
                let shares = value.split('/').map(|one| number(one).filter(|share| range.contains(share)));
                let wrong = || NameError(format!("shares must be like 1/2/1, not {value:?}"));
                self.shares = shares.collect::<Option<_>>().ok_or_else(wrong)?;
            }
            Some(("search", value)) => {
                self.search =
                    text::parse_duration(value).map_err(|error| NameError(format!("search {error}")))?;
            }
            Some(("file", value)) => {
                let bytes = value.parse().ok().filter(|bytes| *bytes > 0);
                self.file =
                    Some(bytes.ok_or_else(|| NameError(format!("file must be bytes, not {value:?}")))?);
            }
            _ => {
                let text =
                    format!("{setting:?} is not like connections=N, shares=1/2/1, search=TIME or file=BYTES");
                return Err(NameError(text));
            }
        }
        Ok(())
    }
}

impl FromStr for Chunks {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let mut chunks = Self::default();
        let settings = name.split_once(':').map(|(_, settings)| settings);
        settings.into_iter().flat_map(|all| all.split(',')).try_for_each(|one| chunks.set(one))?;
        Ok(chunks)
    }
}

impl fmt::Display for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        let shares: Vec<String> = self.shares.iter().map(ToString::to_string).collect();
        let settings = [
            (self.connections != usual.connections).then(|| format!("connections={}", self.connections)),
            (!shares.is_empty()).then(|| format!("shares={}", shares.join("/"))),
            (!self.search.is_zero()).then(|| format!("search={}", whole_units(self.search))),
            self.file.map(|file| format!("file={file}")),
        ];
        let settings: Vec<String> = settings.into_iter().flatten().collect();
        f.write_str(Self::NAME)?;
        if settings.is_empty() { Ok(()) } else { write!(f, ":{}", settings.join(",")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_takes_as_long_as_the_file_has_chunks() {
        let chunks: Chunks = "chunks:search=50ns,file=1000000".parse().unwrap();
        assert_eq!(chunks.cost(1, 500), Duration::from_micros(100));
        let chunks: Chunks = "chunks:search=50ns".parse().unwrap();
        assert_eq!(chunks.cost(2001, 500), Duration::from_nanos(250));
    }
}
