//! `manyway status`.

use std::time::Duration;

use clap::Args;

use super::ping::parse_interval;

/// Arguments of `status`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct StatusArgs {
    /// Update continuously, until Ctrl-C
    #[arg(short = 'w', long)]
    pub watch: bool,
    /// Interval between updates; at least 10ms
    #[arg(short = 'i', long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,
    /// Print metrics in the text format of Prometheus, once
    #[arg(long, conflicts_with = "watch")]
    pub prometheus: bool,
}

const EXAMPLES: &str = "\
Shows every command and server of this user that is running now: its peers, paths, rates and files. Each tells it over a \
socket that only this user can open; no ticket, key or content is shown.

Examples:
  manyway status
  manyway status -w                    live, like top
  manyway status --json | jq '.commands[].peers[].paths[] | {interface, state}'
  manyway status --prometheus > /var/lib/node_exporter/manyway.prom";
