//! What runs on real sockets.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use manyway_lab::contender::ExternalProgram;

use super::campaign::parse_length;
use super::{CampaignArgs, SettingsArgs};

/// Which scenarios run on real sockets, and which contenders.
#[derive(Debug, Clone, Args)]
pub struct ScenarioArgs {
    /// Contenders to run [default: manyway,manyway-best,tcp-cubic,possible,mptcp-cubic,mptcp-bbr]
    #[arg(short = 'c', long, value_name = "NAME,…", value_parser = parse_list)]
    pub contenders: Vec<NameList>,
    /// Another program, which then is a contender called external:NAME; repeatable
    #[arg(long = "external", value_name = "NAME;SENDER;RECEIVER")]
    #[arg(long_help = "Another program, which then is a contender called external:NAME; repeatable. \
        SENDER reads from standard input, RECEIVER writes to standard output and is started first. In both {local}, \
        {remote}, {locals}, {remotes}, {routes} and {port} are replaced. Another sign than ; may separate them, where \
        the commands need that one.")]
    pub externals: Vec<ExternalProgram>,
    /// What to run.
    #[command(flatten)]
    pub campaign: CampaignArgs,
}

/// What else is done about real sockets.
#[derive(Debug, Clone, Subcommand)]
pub enum LabAction {
    /// List the scenarios
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Check the results against the project's limits; the status is 6 if one is missed
    #[command(after_help = GATES_EXAMPLES)]
    Gates(CampaignArgs),
    /// Compare real sockets with virtual time, and end with status 6 if the goodput differs by 5 % or more
    #[command(after_help = AGREE_EXAMPLES)]
    Agree(CampaignArgs),
    /// Let several contenders run at the same time over the same links, and compare what each gets
    #[command(after_help = SHARE_EXAMPLES)]
    Share(ShareArgs),
    /// Measure what the emulated links do against what their settings say, and end with status 6 if something falls
    /// short
    #[command(after_help = VALIDATE_EXAMPLES)]
    Validate(ValidateArgs),
    /// Measure what a byte costs in processor time, without emulated links; the status is 6 if a goal is missed
    #[command(after_help = CPU_EXAMPLES)]
    Cpu(CpuArgs),
    /// Open thousands of connections over `manyway forward`, and measure answers, memory and processor time
    #[command(after_help = FLOWS_EXAMPLES)]
    Flows(FlowsArgs),
    /// Bring up the network of a scenario and keep it until Ctrl-C
    #[command(after_help = UP_EXAMPLES)]
    Up(UpArgs),
}

/// Arguments of `share`.
#[derive(Debug, Clone, Args)]
pub struct ShareArgs {
    /// The scenario: its name or a file that ends in .toml
    #[arg(value_name = "NAME|FILE.toml", default_value = "one-bottleneck")]
    pub scenario: String,
    /// Contenders to run, all at once; the last one is what the others are compared with
    #[arg(short = 'c', long, value_name = "NAME,…", value_parser = parse_list)]
    #[arg(
        long_help = "Contenders to run, all at once; a name may stand there several times. The last one is what the others are \
        compared with [default: manyway:congestion=fair three times, and tcp-cubic]"
    )]
    pub contenders: Vec<NameList>,
    /// Repetitions [default: 3]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: Option<u32>,
    /// Make the scenario this long [default: as it says]
    #[arg(short = 't', long, value_name = "TIME", value_parser = parse_length)]
    pub duration: Option<Duration>,
    /// The seed of the first run; each further one has the next
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Once, for 10 s at most; -n and -t override
    #[arg(long)]
    pub quick: bool,
    /// Keep to this time: fewer runs, then shorter ones, and it says so
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    pub budget: Option<Duration>,
    /// End with status 6 if one gets less or more than so many times what the last one gets
    #[arg(long, value_name = "LEAST..MOST", value_parser = parse_range)]
    pub within: Option<(f64, f64)>,
    /// What every Manyway uses.
    #[command(flatten)]
    pub settings: SettingsArgs,
}

/// Arguments of `validate`.
#[derive(Debug, Clone, Args)]
pub struct ValidateArgs {
    /// What is measured [default: everything]
    #[arg(value_name = "PROPERTY", value_parser = PROPERTIES, hide_possible_values = true)]
    pub properties: Vec<String>,
    /// Repetitions, interleaved; the median is judged [default: 3]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: Option<u32>,
    /// The seed of the first repetition; each further one has the next
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Measure each once, for half the time; -n overrides
    #[arg(long)]
    pub quick: bool,
    /// Keep to this time: fewer repetitions, then half the time, and it says so
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    pub budget: Option<Duration>,
}

/// What `lab validate` can measure.
pub(crate) const PROPERTIES: [&str; 10] =
    ["rate", "trace", "delay", "queue", "jitter", "loss", "corruption", "duplication", "codel", "speed"];

/// Arguments of `cpu`.
#[derive(Debug, Clone, Args)]
pub struct CpuArgs {
    /// Repetitions, interleaved [default: 5]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: Option<u32>,
    /// How long each measurement lasts [default: 3s]
    #[arg(short = 't', long, value_name = "TIME", value_parser = parse_length)]
    pub duration: Option<Duration>,
    /// Measure each once, for 1 s; -n and -t override
    #[arg(long)]
    pub quick: bool,
    /// Keep to this time: fewer repetitions, then shorter measurements, and it says so
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    pub budget: Option<Duration>,
    /// Measure these alone, with commas between, such as manyway,manyway-tcp
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// The program manyway-peers, with QUIC libraries of others [default: beside this program, or in PATH]
    #[arg(long, value_name = "PATH")]
    pub peers: Option<PathBuf>,
}

/// Arguments of `flows`.
#[derive(Debug, Clone, Args)]
pub struct FlowsArgs {
    /// How many connections
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub flows: u32,
    /// How many are opened a second
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: u32,
    /// How often each asks once more when all are open
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
}

/// Arguments of `up`.
#[derive(Debug, Clone, Args)]
pub struct UpArgs {
    /// The scenario: its name or a file that ends in .toml
    #[arg(value_name = "NAME|FILE.toml")]
    pub scenario: PathBuf,
    /// The seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Names of contenders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameList(pub Vec<String>);

/// Splits names at commas. A comma before `key=value` continues the settings of the name before.
pub(super) fn parse_list(text: &str) -> Result<NameList, String> {
    let mut names: Vec<String> = Vec::new();
    for word in text.split(',').map(str::trim) {
        // A colon after the sign belongs to the value.
        let is_setting = word.split_once('=').is_some_and(|(key, _)| !key.contains(':'));
        match names.last_mut() {
            Some(last) if is_setting && last.contains(':') => {
                last.push(',');
                last.push_str(word);
            }
            Some(_) | None if word.is_empty() => return Err("a name is empty".to_owned()),
            Some(_) | None => names.push(word.to_owned()),
        }
    }
    Ok(NameList(names))
}

fn parse_range(text: &str) -> Result<(f64, f64), String> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let ends = text.split_once("..").and_then(|(least, most)| Some((number(least)?, number(most)?)));
    let fits = |(least, most): &(f64, f64)| (0.0..=*most).contains(least);
    ends.filter(fits).ok_or_else(|| "two numbers with dots between, such as 0.7..1.4".to_owned())
}

pub(super) const EXAMPLES: &str = "\
Runs contenders on real sockets in network namespaces over emulated links, which needs root, `ip` \
and /dev/net/tun; nothing outside is touched, and everything is removed at the end. Without names \
the group `table` runs. An experiment of a document says itself who runs, and ends with status 6 \
if what must hold does not.

Contenders:
  manyway           over all routes; settings go behind a colon:
                    manyway:wire=WIRE,scheduler=NAME,congestion=NAME,pairs=MODE
  manyway-best      over the best route alone
  tcp-CC            a connection of the system's TCP over the best route
  manyway@2         over the second route alone; so does tcp-CC@2
  possible          TCP on every route at once; possible-CC chooses how
  mptcp-CC          the system's multipath TCP
  chunks            a file in chunks over several TCP connections of each route;
                    settings go behind a colon: chunks:connections=N,shares=1/2/1
  run, tunnel,      a program that this verb of `manyway` carries; settings go behind
  forward, proxy    a colon: run:flows=N,program=NAME (own, iperf3, curl, quinn or srt)
  ssh, wireguard-go the same by ssh -D, or a tunnel of wireguard-go, over the best route
  direct            the program over the best route, without any of these
  external:NAME     a program given by --external

Examples:
  manyway-lab list
  sudo manyway-lab two-50
  sudo manyway-lab wifi-lte -c manyway,possible,mptcp-bbr -n 3 --report out
  sudo manyway-lab ams-fig10 --quick
  sudo manyway-lab all --direction both --budget 2h --report out
  sudo manyway-lab two-50 \\
    --external 'nc;nc -N {remote} {port};nc -l {local} {port}'
  manyway-lab sim two-50 --seeds 5

Exit status:
  0    done
  1    failed
  2    wrong usage
  6    below what was asked for: gates, agree, validate, share --within, or an experiment
  130  ended by Ctrl-C or SIGTERM before it was done; of up, Ctrl-C is the regular end: 0
  141  standard output was closed before it was done";

const LIST_EXAMPLES: &str = "\
Examples:
  manyway-lab list
  manyway-lab list --json | jq -r .scenario";

const GATES_EXAMPLES: &str = "\
Without names all scenarios, five interleaved repetitions of 15 s, which takes hours: --budget, \
--quick and names make it shorter.

Examples:
  sudo manyway-lab gates
  sudo manyway-lab gates table --budget 30m
  sudo manyway-lab gates two-50 --quick --json";

const AGREE_EXAMPLES: &str = "\
Without names ten scenarios, three repetitions each.

Examples:
  sudo manyway-lab agree
  sudo manyway-lab agree wifi-lte jit-20 -n 5 -t 10s";

const SHARE_EXAMPLES: &str = "\
Flows that begin together need a while to find their shares: the first quarter of each run does \
not count. Programs of others (external:NAME) can not run here.

Examples:
  sudo manyway-lab share
  sudo manyway-lab share -c manyway:congestion=fair,tcp-cubic -n 5 -t 30s
  sudo manyway-lab share --within 0.7..1.4 --budget 5m
  sudo manyway-lab share my-links.toml -c manyway,mptcp-bbr --json";

const VALIDATE_EXAMPLES: &str = "\
Properties:
  rate          1, 10 and 100 Mbit/s, both ways, within 1 %
  trace         the mean rate of a trace, within 1 %
  delay         a round trip: at most 0.4 ms more at the median
  queue         the delay of a full queue
  jitter        its deviation, and how many packets overtake
  loss          random and in bursts, within three standard deviations
  corruption    packets that are damaged, as precisely
  duplication   packets that come twice, as precisely
  codel         how often it drops, and marks by ECN
  speed         at least 1 Gbit/s of packets of 1500 bytes on one core

Examples:
  sudo manyway-lab validate
  sudo manyway-lab validate rate delay loss --quick
  sudo manyway-lab validate speed -n 5 --json";

const CPU_EXAMPLES: &str = "\
quinn and s2n-quic are measured, too, where the program manyway-peers is: `just peers` builds it \
beside this one.

Examples:
  sudo manyway-lab cpu
  sudo manyway-lab cpu --peers target/release/manyway-peers
  sudo manyway-lab cpu --quick --json";

const FLOWS_EXAMPLES: &str = "\
The server, its clients (one for each 512 connections, the limit of a ticket) and the destination are processes on this \
machine, connected over loopback: no privilege is needed. The limit on open files of a process has to be above the number \
of connections, and twice as high for the server.

Examples:
  manyway-lab flows
  manyway-lab flows -n 1000 --json";

const UP_EXAMPLES: &str = "\
Reads orders from standard input, a line each, and answers each with a line of JSON. They are \
events of a scenario, in words; an interface of the server is server.NAME:
  cut LINK [up|down]            a black hole
  restore LINK [up|down]
  set LINK PROPERTY VALUE … [up|down]
  down INTERFACE                and up INTERFACE
  address INTERFACE ADDRESS     another in the place of its first
  rebind INTERFACE              its address translator forgets
  figures                       what has passed until now
  quit
Properties and values are those of a scenario, such as rate 10Mbit, delay 20ms, jitter 5ms, \
queue 100ms, loss 1%, corruption 1%, duplication 1%, mtu 1400, trace FILE, or in braces:
jitter { spread = \"5ms\", order = \"free\" }, loss { share = \"1%\", burst = 4 }, \
queue { codel = \"mark\" }. A trace's FILE is looked for beside the file of the scenario; of a \
built-in scenario, in the working directory.

Examples:
  sudo manyway-lab up wifi-lte
  echo 'cut wifi' | sudo manyway-lab up my-links.toml";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Action, Cli, SimAction, Ways};
    use clap::Parser;

    fn parse(words: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(["manyway-lab"].iter().chain(words))
    }

    #[test]
    fn names_of_contenders_keep_their_settings() {
        let list = parse_list("manyway,manyway:scheduler=min-rtt,congestion=cubic,tcp-cubic").unwrap();
        assert_eq!(list.0, ["manyway", "manyway:scheduler=min-rtt,congestion=cubic", "tcp-cubic"]);
        assert!(parse_list("manyway,,possible").is_err() && parse_list("").is_err());
    }

    #[test]
    fn scenarios_and_actions_are_distinguished() {
        let cli = parse(&["two-50", "wifi-lte", "-c", "manyway,possible"]).unwrap();
        assert!(cli.action.is_none());
        assert_eq!(cli.scenarios.campaign.names, ["two-50", "wifi-lte"]);
        assert_eq!(cli.scenarios.contenders[0].0, ["manyway", "possible"]);
        let action = parse(&["gates", "table", "--direction", "both"]).unwrap().action;
        let Some(Action::Lab(LabAction::Gates(gates))) = action else { panic!("another action") };
        assert_eq!((gates.names, gates.direction), (vec!["table".to_owned()], Some(Ways::Both)));
        let Some(Action::Sim(sim)) = parse(&["sim", "list"]).unwrap().action else {
            panic!("another action")
        };
        assert!(matches!(sim.action, Some(SimAction::List)));
    }

    #[test]
    fn wrong_options_are_refused() {
        for wrong in [
            &["two-50", "-n", "0"][..],
            &["two-50", "-t", "soon"],
            &["two-50", "-t", "1ms"],
            &["two-50", "--external", "only-a-name"],
            &["up"],
            &["share", "--within", "1.4..0.7"],
            &["share", "--within", "most"],
            &["validate", "colour"],
            &["sim", "two-50", "--direction", "sideways"],
            &["sim", "two-50", "--qlog", "logs"],
            &["two-50", "-I", "lo"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
