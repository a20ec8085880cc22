//! `manyway ping`.

use std::time::Duration;

use clap::Args;

use super::number::{port, within};
use crate::output::units::parse_duration;

/// Arguments of `ping`; letters as in ping(8).
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct PingArgs {
    /// The server: ticket, @FILE containing it, or saved name
    #[arg(value_name = "TICKET")]
    pub ticket: String,
    /// Stop after N probes; default until Ctrl-C
    #[arg(short = 'c', long, value_name = "N", value_parser = parse_count)]
    pub count: Option<u64>,
    /// Interval between probes; at least 10ms
    #[arg(short = 'i', long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,
    /// How long to wait for an answer
    #[arg(short = 'W', long = "wait", value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    pub wait: Duration,
    /// Connect to this port instead of the ticket's
    #[arg(short = 'p', long, value_name = "PORT", value_parser = port)]
    pub port: Option<u16>,
}

fn parse_count(text: &str) -> Result<u64, String> {
    within(text, 1..=u64::MAX)
}

/// Reads a time that is not too short to repeat something.
pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    if interval < SHORTEST_INTERVAL {
        return Err("10ms is the shortest interval".to_owned());
    }
    Ok(interval)
}

const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

const EXAMPLES: &str = "\
Probes the server on every path at once: a live table at a terminal, a line for each answer elsewhere, and at the end a \
summary of each path. Ends with status 0 if there was any answer, else with 1.

Examples:
  manyway ping @home.ticket
  manyway ping -c 20 -i 100ms home
  manyway ping -I wwan0 -W 5s home
  manyway ping --json -c 5 home | jq .rtt";
