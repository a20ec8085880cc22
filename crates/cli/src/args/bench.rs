//! `manyway bench`.

use std::time::Duration;

use clap::Args;
use manyway_transfer::{BenchDirection, BenchLimit, BenchPlan};

use crate::output::units::{parse_duration, parse_size};

/// Arguments of `bench`; letters as in iperf3.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// The ticket that `manyway serve` printed
    #[arg(value_name = "TICKET")]
    pub ticket: String,
    /// How long to send
    #[arg(short = 't', long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub time: Duration,
    /// Send so much on each stream instead
    #[arg(short = 'n', long, value_name = "SIZE", conflicts_with = "time", value_parser = parse_size)]
    pub bytes: Option<u64>,
    /// How often to print figures
    #[arg(short = 'i', long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,
    /// How many streams at once
    #[arg(short = 'P', long = "parallel", value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(BenchPlan::MAX_STREAMS)))]
    pub parallel: u16,
    /// Let the server send
    #[arg(short = 'R', long)]
    pub reverse: bool,
}

impl BenchArgs {
    /// What to measure.
    pub fn plan(&self) -> BenchPlan {
        let mut plan = BenchPlan::default();
        plan.direction = if self.reverse { BenchDirection::Download } else { BenchDirection::Upload };
        plan.limit = self.bytes.map_or(BenchLimit::Duration(self.time), BenchLimit::Bytes);
        plan.interval = self.interval;
        plan.streams = self.parallel;
        plan
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    if interval < SHORTEST_INTERVAL {
        return Err("10ms is the shortest interval".to_owned());
    }
    Ok(interval)
}

const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

const EXAMPLES: &str = "\
Examples:
  manyway bench mw1…
  manyway bench -t 30 -P 4 -R mw1…
  manyway bench --json -i 100ms mw1… | jq .bits_per_second";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn options_become_a_plan() {
        let plan = |arguments: &[&str]| {
            let all = ["manyway", "bench", "mw1x"].iter().chain(arguments);
            Cli::try_parse_from(all).map(|cli| {
                let Command::Bench(bench) = cli.command else { panic!("another command") };
                bench.plan()
            })
        };
        assert_eq!(plan(&[]).unwrap(), BenchPlan::default());
        let reverse = plan(&["-R", "-P", "3", "-n", "5M"]).unwrap();
        assert_eq!((reverse.direction, reverse.streams), (BenchDirection::Download, 3));
        assert_eq!(reverse.limit, BenchLimit::Bytes(5 << 20));
        assert!(plan(&["-P", "0"]).is_err());
        assert!(plan(&["-i", "1ms"]).is_err());
        assert!(plan(&["-n", "5M", "-t", "3"]).is_err());
    }
}
