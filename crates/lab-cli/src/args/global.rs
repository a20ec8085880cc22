//! Options of every command.

use clap::Args;
use manyway_terminal::logging::Verbosity;

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct GlobalArgs {
    /// Print JSON for programs on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Print no progress and only errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Log more: -v events, -vv decisions, -vvv packets
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

impl GlobalArgs {
    /// How much is logged to standard error.
    pub fn verbosity(&self) -> Verbosity {
        if self.quiet { Verbosity::Quiet } else { Verbosity::Level(self.verbose) }
    }
}
