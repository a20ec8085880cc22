//! `manyway-lab experiments`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::campaign::parse_length;

/// Arguments of `experiments`.
#[derive(Debug, Clone, Args)]
pub struct ExperimentsArgs {
    /// Where they run [default: both; without root, virtual time alone]
    #[arg(long, value_enum, value_name = "MODE")]
    pub only: Option<Only>,
    /// Which, and how.
    #[command(flatten)]
    pub series: SeriesArgs,
}

/// Experiments one after the other.
#[derive(Debug, Clone, Args)]
pub struct SeriesArgs {
    /// Which experiments [default: all; `list` shows them]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Repetitions of each [default: 3, on sockets alone 5, with --quick 1]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: Option<u32>,
    /// Make every run this long; events move with it
    #[arg(short = 't', long, value_name = "TIME", value_parser = parse_length)]
    pub duration: Option<Duration>,
    /// Some points of each, in a tenth of the time; about 19 minutes
    #[arg(long)]
    pub quick: bool,
    /// Keep to this time for all together: fewer repetitions, then shorter runs; with --quick fewer runs on sockets
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    pub budget: Option<Duration>,
    /// Write one page into this directory, also after Ctrl-C; it keeps what earlier runs of other experiments gave there
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}

/// Where experiments run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Only {
    /// In virtual time
    Virtual,
    /// On sockets
    Sockets,
}

pub(super) const EXAMPLES: &str = "\
Runs what the documents behind this project measured, first in virtual time, then on sockets, \
which needs root, and ends with status 6 if something that must hold does not.

Examples:
  manyway-lab experiments --only virtual --quick
  manyway-lab experiments multitcp-fig82 multitcp-fig87 --only virtual -n 1 --report out
  sudo manyway-lab experiments --report out --budget 2h";

pub(super) const PROGRAMS_EXAMPLES: &str = "\
Runs programs by `manyway forward`, `proxy`, `run` and `tunnel` between two hosts over emulated \
links, beside a stream of Manyway, the kernel's TCP and multipath TCP, and ends with status 6 if \
something that must hold does not. Needs root, and the command `manyway` beside this one. \
Programs that are not installed (iperf3, curl, srt-live-transmit, manyway-peers) are skipped.

Experiments:
  programs-tcp     one download, by the lab's own program, iperf3 and curl
  programs-flows   1 to 16 downloads at once
  programs-death   a link dies beneath a download, a call and a session
  programs-udp     one flow of datagrams over unequal links
  programs-quic    one download over QUIC, by quinn (`just peers`)
  programs-srt     a link dies beneath a camera that sends by SRT

Examples:
  sudo manyway-lab programs --quick
  sudo manyway-lab programs programs-death -n 3 --report out
  sudo manyway-lab programs --budget 30m --json";
