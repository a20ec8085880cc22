//! `manyway caps`.

use clap::{Args, Subcommand};

use crate::output::units::parse_size;

/// Arguments of `caps`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct CapsArgs {
    /// What to do with them; without it they are listed.
    #[command(subcommand)]
    pub action: Option<CapsAction>,
}

/// What to do with counts.
#[derive(Debug, Clone, Subcommand)]
pub enum CapsAction {
    /// List what went over each interface with a cap, and how much may still go
    #[command(
        after_help = "Example:\n  manyway caps list --json | jq '.caps[] | select(.reached) | .interface'"
    )]
    List,
    /// Set what went over an interface in this period, as the bill of its provider says
    #[command(after_help = "Example:\n  manyway caps set wwan0 3.2GB        the provider counts this much")]
    Set(SetArgs),
    /// Reset the usage counters of interfaces
    #[command(after_help = "Examples:\n  manyway caps clear wwan0\n  manyway caps clear --all")]
    Clear(ClearArgs),
}

/// Arguments of `caps set`.
#[derive(Debug, Clone, Args)]
pub struct SetArgs {
    /// The interface, which must have a cap
    #[arg(value_name = "IF")]
    pub name: String,
    /// How much went over it since the last reset day
    #[arg(value_name = "SIZE", value_parser = parse_size)]
    pub bytes: u64,
}

/// Arguments of `caps clear`.
#[derive(Debug, Clone, Args)]
pub struct ClearArgs {
    /// The interfaces
    #[arg(value_name = "IF", required_unless_present = "all", conflicts_with = "all")]
    pub names: Vec<String>,
    /// All interfaces of which something was counted
    #[arg(long)]
    pub all: bool,
}

const EXAMPLES: &str = "\
A cap is set by --cap IF=SIZE[@DAY], or in the settings:

  [caps.wwan0]
  cap = \"5 GB\"
  reset-day = 15

Examples:
  manyway caps                         how much is left?
  manyway caps --json                  the same for programs
  manyway caps set wwan0 3.2GB         the provider counts this much
  manyway caps clear wwan0             reset the counter";
