//! Options of every command.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use manyway::{CarrierChoice, CarrierOptions, Detection, HostPort, PairMode, Wire};
use manyway_terminal::logging::Verbosity;
use serde::Deserialize;

use super::number::within;
use super::via::{Via, parse_via};
use crate::caps::{CapRule, CapRules, InterfaceWish};
use crate::output::desk::Desk;
use crate::output::units::parse_duration;
use crate::status::Board;
use crate::traffic::TrafficRule;

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = super::help::SHARED)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct GlobalArgs {
    /// Print JSON for programs on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Print no progress and only errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Log more; twice decisions, three times packets
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Use only this interface; may be given several times
    #[arg(short = 'I', long = "interface", global = true, value_name = "IF")]
    #[arg(long_help = "Use this interface, and only those named so; may be given several times. In full: \
        IF[,role=ROLE][,cost=N][,weight=N][,cap=SIZE]. ROLE is primary (the \
        default), secondary (joins when the primaries are full), backup (only when none of the others works) or \
        never. The cost is 0 for an interface that costs nothing (the default), more for costlier ones, which the \
        schedulers cost and primary of this end avoid. The weight, 1 (the default) to 1000, is its share of what this end sends with \
        --scheduler weighted=fixed. The role holds in both directions, cost and weight for what this end sends. SIZE is as \
        of --cap. Without this option every usable interface is used.")]
    pub interfaces: Vec<InterfaceWish>,
    /// Monthly data cap of an interface; may be given several times
    #[arg(long = "cap", global = true, value_name = "IF=SIZE[@DAY]")]
    #[arg(long_help = "Monthly data cap of an interface, both directions and all headers counted, \
        of all commands of this user together; may be given several times. The month begins on its first day, or on DAY \
        (1 to 31; the last day of a month that has fewer), at midnight of the local time. Once the cap is reached the \
        interface is left alone until then. `IF=none` lifts a cap of the settings. `manyway caps` tells what was used. \
        Example: --cap wwan0=5GB@15")]
    pub caps: Vec<CapRule>,
    /// Do not use this interface; may be given several times
    #[arg(long, global = true, value_name = "IF")]
    pub exclude: Vec<String>,
    /// The wire protocol: mmsp2, or mmsp1 in clear text
    #[arg(long, global = true, value_name = "NAME", default_value_t, hide_default_value = true)]
    #[arg(
        long_help = "The wire protocol of serve, send, get, bench, ping and paths: mmsp2 (the default: everything is \
        encrypted, and both ends are authenticated) or mmsp1 (the protocol of the thesis in clear text, for comparison \
        and trusted links: every host on the way can read and change what is sent, and neither end authenticates \
        the other). Both ends have to name mmsp1; neither falls back to the other. With mmsp1 the server is named by \
        HOST[:PORT], and unless chosen the scheduler is primary, the congestion control new-reno, the detection probes."
    )]
    pub wire: Wire,
    /// With --wire mmsp1, how to detect that a path fails: probes or fast
    #[arg(long, global = true, value_name = "HOW", value_enum)]
    #[arg(
        long_help = "With --wire mmsp1, how to detect that a path fails: probes (the default: three probes in a row without \
        an answer, about 3 s, as in the thesis) or fast (by silence, within some round trips, as MMSP/2 always does)"
    )]
    pub detection: Option<DetectionChoice>,
    /// What carries the packets: udp, tcp, or auto, which is TCP where UDP does not work
    #[arg(long, global = true, value_name = "NAME", default_value_t, hide_default_value = true)]
    #[arg(
        long_help = "What carries the packets of the paths: udp, tcp or auto (the default: UDP, and on each interface where \
        that does not work for 250 ms a TCP connection to the same port, or within TLS to port 443, until \
        UDP has worked there for 5 s). A server accepts both unless udp is chosen; --wire mmsp1 is always UDP. `manyway paths` tells which paths go over TCP"
    )]
    pub carrier: CarrierChoice,
    /// The system's congestion control of TCP connections, such as cubic, reno or bbr
    #[arg(long, global = true, value_name = "NAME")]
    #[arg(
        long_help = "The system's congestion control of the TCP connections that carry paths, such as cubic, reno or bbr, for \
        what this end sends; the default is that of the system. Linux only"
    )]
    pub carrier_congestion: Option<String>,
    /// Connect by TCP through this HTTP proxy: http://HOST:PORT, or none
    #[arg(long, global = true, value_name = "URL", value_parser = parse_via)]
    #[arg(
        long_help = "Connect by TCP through this HTTP proxy: http://[NAME:PASSWORD@]HOST:PORT, by CONNECT; none goes directly. \
        Without this option HTTPS_PROXY counts, unless NO_PROXY is *. UDP is tried beside it, directly; --carrier tcp \
        leaves that out"
    )]
    pub via: Option<Via>,
    /// TCP connections on each interface that uses TCP
    #[arg(long, global = true, value_name = "N", value_parser = parse_connections)]
    #[arg(
        long_help = "TCP connections on each interface that uses TCP, 1 to 16; the default is 1, with bench --target-rate 5. \
        Without effect on UDP and at a server. Several connections get a larger share where a network is full"
    )]
    pub connections: Option<u8>,
    /// How to distribute data across paths
    #[arg(long, global = true, value_name = "NAME[=SETTINGS]")]
    #[arg(
        long_help = "How to distribute across paths what this end sends; for what it receives, as with get, the \
        scheduler of the other end decides. earliest (each byte goes where it arrives first; the \
        default), min-rtt (the path with the lowest RTT that has room), round-robin, \
        weighted (by measured rates; weighted=1:1:2 by these shares, weighted=fixed by those of -I IF,weight=N), \
        outstanding-ratio (the emptiest window), blest and ecf (a slow path only if it helps), primary (one path, the others in reserve; primary=rank the fastest), \
        stream-bound (each stream on a path of its own), redundant (everything on every path; redundant=late only what \
        is late or urgent) or cost (the cheapest paths that carry the load within 1 s, or cost=TIME)."
    )]
    pub scheduler: Option<String>,
    /// How each path avoids congestion
    #[arg(long, global = true, value_name = "NAME")]
    #[arg(
        long_help = "How each path avoids congestion, by what it is to do or by name. bond, the default, is bbr: it models the path, \
        tolerates random loss and keeps queues short. fair is coupled-cubic: paths that turn out to share a bottleneck compete \
        there as one flow of CUBIC. The others: cubic, new-reno, fixed (a constant window, for experiments), and lia, olia \
        and balia, which compete in a shared bottleneck as about one flow of Reno"
    )]
    pub congestion: Option<String>,
    /// Which local/remote address pairs to use: local-disjoint, disjoint or full-mesh
    #[arg(long, global = true, value_name = "MODE")]
    #[arg(
        long_help = "Which local/remote address pairs to use; without effect at a server. local-disjoint \
        (the default): one for each interface, that which answers first; when it falls silent, the other addresses of the \
        interface and of the server are tried too: a prefix that dies in silence is left for another after a second or two. disjoint: no address \
        of either side twice, as many pairs and then as many interfaces as that allows, and of these choices the one with \
        the smallest sum of costs; a cost is the round-trip time, and the time that 256 KiB take once the rate is known, \
        for which a pair is tried beside the others for some seconds. \
        To a server with one address that is one path. full-mesh: every pair that answers, up to 8, one of each interface \
        first. Only permanent, sufficiently routable local addresses count, up to 8 of an interface; with \
        disjoint and full-mesh two of them on one interface give two paths, which share its link."
    )]
    pub pairs: Option<PairMode>,
    /// What to do when only a more expensive path is left: ask, allow or never
    #[arg(long, global = true, value_name = "ANSWER")]
    #[arg(
        long_help = "What the scheduler primary does when only a path works that costs more (-I IF,cost=N) than the one \
        before: ask (the default: at a terminal it asks once for each interface; elsewhere it says so and waits for the \
        other paths), allow or never (wait for the other paths)"
    )]
    pub costly: Option<Costly>,
    /// How much memory a connection may take: auto or small
    #[arg(long, global = true, value_name = "SIZE")]
    #[arg(
        long_help = "How much memory a connection may take at this end: auto (the default: as much as the paths need, up \
        to 64 MiB in each direction) or small (at most 256 KiB, for routers and servers of many; it carries about 34 KB \
        in each round trip, 13 Mbit/s at 20 ms, over at most four paths). File buffers are additional"
    )]
    pub memory: Option<Memory>,
    /// How long to try to reach the other side
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_duration)]
    #[arg(long_help = "How long to try to reach the other side; default 10s")]
    pub connect_timeout: Option<Duration>,
    /// Find the other side again at this host when both have moved; may be given several times
    #[arg(long, global = true, value_name = "HOST[:PORT]")]
    #[arg(
        long_help = "Find the other side again at this host, where `manyway rendezvous` runs, when both sides have other \
        addresses at the same moment; may be given several times, up to four addresses count. A server tells its clients, \
        which need no option of their own. Default none."
    )]
    pub rendezvous: Vec<HostPort>,
    /// Write a log of each connection in qlog into this directory; it has addresses, but no content
    #[arg(long, global = true, value_name = "DIR")]
    pub qlog: Option<PathBuf>,
    /// Use IPv4 only
    #[arg(short = '4', long, global = true, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long, global = true)]
    pub ipv6: bool,
    /// How to verify a server given by name: keys, system or FILE
    #[arg(long, global = true, value_name = "keys|system|FILE")]
    #[arg(
        long_help = "How to verify a server given by name, as HOST[:PORT]: keys (the default: its key is \
        asked about once and kept), system (certificates of the authorities that this system trusts) or a FILE with \
        certificates of authorities (PEM)."
    )]
    pub trust: Option<Trust>,
    /// Keep the key of a server that is not known yet without asking
    #[arg(long, global = true)]
    pub trust_on_first_use: bool,
    /// Read settings from here instead of ~/.config/manyway/config.toml
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "no_config")]
    pub config: Option<PathBuf>,
    /// Ignore the configuration file
    #[arg(long, global = true)]
    pub no_config: bool,
    /// The interface or local address whose path is to be the primary one, as the command names it.
    #[arg(skip)]
    pub primary: Option<String>,
    /// Whether the scheduler stands in the settings and not on the command line.
    #[arg(skip)]
    pub scheduler_of_settings: bool,
    /// Whether the interfaces stand in the settings and not on the command line.
    #[arg(skip)]
    pub interfaces_of_settings: bool,
    /// Whom the settings believe.
    #[arg(skip)]
    pub settings_trust: Option<Trust>,
    /// Caps of the settings.
    #[arg(skip)]
    pub settings_caps: Vec<CapRule>,
    /// Rules of the settings for the traffic of programs.
    #[arg(skip)]
    pub traffic_rules: Vec<TrafficRule>,
    /// Where and what the user was asked in this run.
    #[arg(skip)]
    pub desk: Desk,
    /// The mark of all packets to peers and name servers.
    #[arg(skip)]
    pub mark: Option<u32>,
    /// Where `manyway status` sees this command.
    #[arg(skip)]
    pub board: Board,
}

impl GlobalArgs {
    /// Every cap that the options name, and behind them those of the settings.
    pub fn cap_rules(&self) -> CapRules {
        let named = self.interfaces.iter().filter_map(InterfaceWish::cap_rule);
        CapRules::new(named.chain(self.caps.iter().cloned())).behind(self.settings_caps.iter().cloned())
    }

    /// How to verify a server given by name: as the option says, or else the settings.
    pub fn trust(&self) -> Option<&Trust> {
        self.trust.as_ref().or(self.settings_trust.as_ref())
    }

    /// What carries the packets of paths.
    pub fn carriers(&self) -> CarrierOptions {
        let mut options = CarrierOptions::default();
        options.choice = self.carrier;
        options.congestion.clone_from(&self.carrier_congestion);
        options.connections = self.connections.unwrap_or(1);
        options.via = self.via.clone().unwrap_or_else(Via::of_environment).0;
        options
    }

    /// How much is logged to standard error.
    pub fn verbosity(&self) -> Verbosity {
        if self.quiet { Verbosity::Quiet } else { Verbosity::Level(self.verbose) }
    }

    /// How long to try to reach the other side.
    pub fn connect_timeout(&self) -> Duration {
        self.connect_timeout.unwrap_or(Duration::from_secs(10))
    }
}

/// What to do when only a path works that costs more than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Costly {
    /// Ask, at a terminal.
    #[default]
    Ask,
    /// Use it.
    Allow,
    /// Wait for the others.
    Never,
}

/// How the failure of a path is detected over MMSP/1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DetectionChoice {
    /// By probes without an answer.
    Probes,
    /// By silence.
    Fast,
}

impl From<DetectionChoice> for Detection {
    fn from(choice: DetectionChoice) -> Self {
        match choice {
            DetectionChoice::Probes => Self::Probes,
            DetectionChoice::Fast => Self::Fast,
        }
    }
}

/// How much memory a connection may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// What its paths need.
    #[default]
    Auto,
    /// At most 256 KiB.
    Small,
}

/// Whom to believe that a server is the right one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Trust {
    /// Nobody: its key is known.
    #[default]
    Keys,
    /// The authorities that the system trusts.
    System,
    /// The authorities in this file.
    File(PathBuf),
}

impl FromStr for Trust {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "keys" => Self::Keys,
            "system" => Self::System,
            file => Self::File(file.into()),
        })
    }
}

fn parse_connections(text: &str) -> Result<u8, String> {
    within(text, 1..=16)
}
