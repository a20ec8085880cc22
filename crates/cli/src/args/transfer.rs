//! What `send` and `get` have in common.

use std::fmt;
use std::str::FromStr;

use clap::Args;

/// Arguments of every verb that transfers files.
#[derive(Debug, Clone, Copy, Args)]
pub struct TransferArgs {
    /// How often to connect again if the connection breaks in the middle: a number, or "forever"
    #[arg(long, value_name = "N", default_value = "3")]
    pub retry: Retries,
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
