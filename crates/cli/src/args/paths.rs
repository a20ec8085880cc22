//! `manyway paths`.

use std::time::Duration;

use clap::Args;

use super::ping::parse_interval;

/// Arguments of `paths`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct PathsArgs {
    /// The ticket that `manyway serve` printed; without it the addresses of this host are listed
    #[arg(value_name = "TICKET")]
    pub ticket: Option<String>,
    /// Show it again and again, until Ctrl-C
    #[arg(short = 'w', long)]
    pub watch: bool,
    /// How often to show it again; at least 10ms
    #[arg(short = 'i', long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,
}

const EXAMPLES: &str = "\
Lists every pair of addresses with its role, its state and its figures, and why it is used or not. rtt and loss are
those of pings, rate is what the path was measured to deliver, share its part of the bytes of this connection.

Examples:
  manyway paths                        which interfaces would be used?
  manyway paths mw1…                   which of them lead to the server?
  manyway paths -w mw1…                and now, with one cable pulled?
  manyway paths --json mw1… | jq '.pairs[] | select(.used | not) | .why'";
