//! What `send` and `get` have in common.

use std::fmt;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use manyway_proto::Rate;
use manyway_transfer::{Excludes, Links, Rules};

use crate::output::units;

/// Arguments of every command that transfers files.
#[derive(Debug, Clone, Args)]
pub struct TransferArgs {
    /// How often to reconnect, or "forever"
    #[arg(long, value_name = "N", default_value = "3")]
    pub retry: Retries,
    /// What to do with symbolic links
    #[arg(long, value_name = "HOW", default_value = "keep")]
    links: LinksArg,
    /// Leave out "*.tmp", "build/", "/raw"; repeatable
    #[arg(long, value_name = "GLOB")]
    exclude_files: Vec<String>,
    /// Rate limit in bit/s, such as 20M
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub bwlimit: Option<Rate>,
}

/// What happens to symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LinksArg {
    /// Links stay links; those that lead out of the directory are skipped.
    Keep,
    /// What they lead to takes their place.
    Follow,
    /// They are left out.
    Skip,
}

impl TransferArgs {
    /// What of directories is transferred.
    ///
    /// # Errors
    /// A pattern is none; the text says so.
    pub fn rules(&self) -> Result<Rules, String> {
        let links = match self.links {
            LinksArg::Keep => Links::Keep,
            LinksArg::Follow => Links::Follow,
            LinksArg::Skip => Links::Skip,
        };
        let exclude = Excludes::new(self.exclude_files.iter().cloned());
        let exclude = exclude.map_err(|failure| format!("--exclude-files: {}", failure.text))?;
        Ok(Rules { links, exclude })
    }
}

fn parse_rate(text: &str) -> Result<Rate, String> {
    let rate = units::parse_rate(text).map_err(|error| error.to_string())?;
    if rate.bytes_per_second() == 0 { Err("nothing could pass".to_owned()) } else { Ok(rate) }
}

/// How often a broken transfer is taken up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retries {
    /// At most so often.
    AtMost(u32),
    /// Until it is done.
    Forever,
}

impl Retries {
    /// Whether there may be another attempt after so many repetitions.
    pub fn allow(self, repetitions: u32) -> bool {
        match self {
            Self::AtMost(most) => repetitions < most,
            Self::Forever => true,
        }
    }
}

impl FromStr for Retries {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "forever" => Ok(Self::Forever),
            number => number
                .parse()
                .map(Self::AtMost)
                .map_err(|_| "it must be a number of attempts, or \"forever\"".to_owned()),
        }
    }
}

impl fmt::Display for Retries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => most.fmt(f),
            Self::Forever => f.write_str("forever"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_number_or_forever() {
        assert_eq!("0".parse(), Ok(Retries::AtMost(0)));
        assert_eq!("forever".parse(), Ok(Retries::Forever));
        assert!("-1".parse::<Retries>().is_err() && "".parse::<Retries>().is_err());
        assert!(Retries::AtMost(1).allow(0) && !Retries::AtMost(1).allow(1));
    }
}
