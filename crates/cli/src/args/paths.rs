//! `manyway paths`.

use std::time::Duration;

use clap::Args;

use super::number::port;
use super::ping::parse_interval;

/// Arguments of `paths`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct PathsArgs {
    /// The server: ticket, @FILE containing it, or saved name; without it the addresses of this host are listed
    #[arg(value_name = "TICKET")]
    pub ticket: Option<String>,
    /// Update continuously, until Ctrl-C
    #[arg(short = 'w', long)]
    pub watch: bool,
    /// Show every address pair, including unused ones
    #[arg(short = 'a', long)]
    pub all: bool,
    /// Interval between updates; at least 10ms
    #[arg(short = 'i', long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,
    /// Make the path over IF or ADDR primary in running commands
    #[arg(long, value_name = "IF|ADDR", conflicts_with_all = ["ticket", "watch", "all", "interval"])]
    pub primary: Option<String>,
    /// With --primary: of this process only
    #[arg(long, value_name = "PID", requires = "primary")]
    pub pid: Option<u32>,
    /// Connect to this port instead of the ticket's
    #[arg(short = 'p', long, value_name = "PORT", requires = "ticket")]
    #[arg(value_parser = port)]
    pub port: Option<u16>,
}

const EXAMPLES: &str = "\
Lists the paths to a server with their state and figures, and why each is used or not. The command opens a connection \
of its own: rtt and loss are those of its pings. To look at a transfer that is running, use `manyway status -w`.

Examples:
  manyway paths                        which interfaces would be used?
  manyway paths @home.ticket           which of them lead to the server?
  manyway paths -w home                and now, with one cable pulled?
  manyway paths --primary wlan0        running commands send on wlan0
  manyway paths --json home | jq '.pairs[] | select(.used | not) | .why'";
