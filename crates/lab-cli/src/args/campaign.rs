//! Options of every campaign of the lab, on real sockets or in virtual time.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use manyway_proto::PairMode;
use manyway_units::text::parse_duration;

/// What is run, how often, and what is written of it.
#[derive(Debug, Clone, Args)]
pub struct CampaignArgs {
    /// Scenarios or groups by name (`list` shows them), `all`, files that end in .toml, or one experiment
    #[arg(value_name = "NAME|GROUP|FILE.toml")]
    pub names: Vec<String>,
    /// Repetitions, interleaved
    #[arg(short = 'n', long, visible_alias = "seeds", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: Option<u32>,
    /// Make every scenario this long; events move with it
    #[arg(short = 't', long, value_name = "TIME", value_parser = parse_length)]
    pub duration: Option<Duration>,
    /// Which way the traffic goes: up as the scenario says, down the other way
    #[arg(long, value_enum, value_name = "WAY")]
    pub direction: Option<Ways>,
    /// The seed of the first repetition; each further one has the next
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Run each contender once, for 3 s at most, of an experiment some points in a tenth of the time, and repeat no
    /// disturbed run; -n and -t override
    #[arg(long)]
    pub quick: bool,
    /// Keep to this time: fewer repetitions, then shorter runs, and it says so
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    pub budget: Option<Duration>,
    /// End with status 1 if a contender can not run or breaks down, if the time is over before all was run, or if gates
    /// can not judge something
    #[arg(long)]
    pub strict: bool,
    /// Write a page with every figure, setting and command into this directory, also after Ctrl-C
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Write a line for each run into this file
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// What every Manyway uses.
    #[command(flatten)]
    pub settings: SettingsArgs,
}

/// Settings of each Manyway that has none of its own behind its name.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Settings of each Manyway that has none of its own")]
pub struct SettingsArgs {
    /// How to distribute data across paths; `manyway help options` explains each
    #[arg(long, value_name = "NAME[=SETTINGS]")]
    pub scheduler: Option<String>,
    /// Congestion control of each path
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Which local/remote address pairs to use: local-disjoint, disjoint or full-mesh
    #[arg(long, value_name = "MODE")]
    pub pairs: Option<PairMode>,
}

impl SettingsArgs {
    /// Whether none is given.
    pub fn are_default(&self) -> bool {
        self.scheduler.is_none() && self.congestion.is_none() && self.pairs.is_none()
    }
}

/// Which ways the traffic of a scenario goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ways {
    /// As the scenario says
    Up,
    /// The other way
    Down,
    /// One after the other
    Both,
}

/// A time above zero.
pub(super) fn parse_length(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if time < SHORTEST { Err("at least 100ms".to_owned()) } else { Ok(time) }
}

const SHORTEST: Duration = Duration::from_millis(100);
