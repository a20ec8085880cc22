//! Options of every command.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use manyway::interfaces::InterfaceRule;

use crate::output::units::parse_duration;

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct GlobalArgs {
    /// Print JSON for programs on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Print no progress and only errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Log more; twice for decisions, three times for every packet
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Use this interface, and only those named so; may be given several times
    #[arg(short = 'I', long = "interface", global = true, value_name = "IF[,role=ROLE]")]
    #[arg(
        long_help = "Use this interface, and only those named so; may be given several times. ROLE is primary (the \
        default), secondary (joins when the primaries are full), backup (only when none of the others works) or \
        never. Without this option every usable interface is used."
    )]
    pub interfaces: Vec<InterfaceRule>,
    /// Do not use this interface; may be given several times
    #[arg(long, global = true, value_name = "IF")]
    pub exclude: Vec<String>,
    /// How data are shared out among the paths
    #[arg(long, global = true, value_name = "NAME")]
    pub scheduler: Option<String>,
    /// How each path avoids congestion
    #[arg(long, global = true, value_name = "NAME")]
    pub congestion: Option<String>,
    /// How long to try to reach the other side
    #[arg(long, global = true, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub connect_timeout: Duration,
    /// Write a log of each connection in qlog into this directory; it has addresses, but no content
    #[arg(long, global = true, value_name = "DIR")]
    pub qlog: Option<PathBuf>,
    /// Use IPv4 only
    #[arg(short = '4', long, global = true, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long, global = true)]
    pub ipv6: bool,
}
