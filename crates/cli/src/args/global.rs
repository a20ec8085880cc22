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
    /// Log more: -v events, -vv decisions, -vvv packets
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Use only this interface; repeatable
    #[arg(short = 'I', long = "interface", global = true, value_name = "IF")]
    #[arg(long_help = "Use only the interfaces named by -I; repeatable. Default: every usable interface. \
        Syntax: IF[,role=ROLE][,cost=N][,weight=N][,cap=SIZE]. ROLE is primary (the default), secondary (joins when the \
        primaries are full), backup (only when no other works) or never. The cost is 0 (the default) for an interface \
        that is free, and higher for one that costs more; the schedulers cost and primary of this end avoid it. The \
        weight, 1 (the default) to 1000, is its share with --scheduler weighted=fixed. The role applies in both \
        directions, cost and weight to what this end sends. SIZE is as in --cap.")]
    pub interfaces: Vec<InterfaceWish>,
    /// Monthly data cap of an interface; repeatable
    #[arg(long = "cap", global = true, value_name = "IF=SIZE[@DAY]")]
    #[arg(
        long_help = "Monthly data cap of an interface for all commands of this user together; may be given several \
        times. Both directions and all headers count. The month begins on its first day, or on DAY (1 to 31; the last \
        day of a month that has fewer), at midnight of the local time. Once the cap is reached the interface is not used \
        until the next reset. `IF=none` lifts a cap of the settings. `manyway caps` shows the counts. \
        Example: --cap wwan0=5GB@15"
    )]
    pub caps: Vec<CapRule>,
    /// Do not use this interface; repeatable
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
    /// Transport: udp, tcp, or auto (UDP; TCP where UDP is blocked)
    #[arg(long, global = true, value_name = "NAME", default_value_t, hide_default_value = true)]
    #[arg(
        long_help = "Transport of the paths: udp, tcp or auto (the default). auto uses UDP. On an interface where UDP \
        fails for 250 ms it uses TCP to the same port, or TLS to port 443, until UDP has worked there for 5 s. A server \
        accepts both unless udp is chosen; --wire mmsp1 is always UDP. `manyway paths` shows which paths use TCP"
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
        long_help = "Connect by TCP through this HTTP proxy, with CONNECT: http://[NAME:PASSWORD@]HOST:PORT. none: no proxy. \
        Default: HTTPS_PROXY unless NO_PROXY=*. UDP is still tried directly; --carrier tcp prevents that"
    )]
    pub via: Option<Via>,
    /// TCP connections on each interface that uses TCP
    #[arg(long, global = true, value_name = "N", value_parser = parse_connections)]
    #[arg(
        long_help = "TCP connections on each interface that uses TCP, 1 to 16; the default is 1, with bench --target-rate and play 5. \
        Without effect on UDP and at a server. Several connections get a larger share where a network is full"
    )]
    pub connections: Option<u8>,
    /// How to distribute data across paths
    #[arg(long, global = true, value_name = "NAME[=SETTINGS]")]
    #[arg(
        long_help = "How this end distributes the data it sends across paths. The scheduler of the other end decides for what \
        this end receives, as with get. One of:\n\
        earliest (default): each byte on the path where it arrives first\n\
        min-rtt: the path with the lowest RTT that has available cwnd\n\
        round-robin: the next path in turn\n\
        weighted: shares by measured rates; weighted=1:1:2: these shares; weighted=fixed: those of -I IF,weight=N\n\
        outstanding-ratio: the path with the least in flight relative to its window\n\
        blest: a slow path only if the peer's credit suffices\n\
        ecf: a slow path only if waiting for a fast one takes longer\n\
        primary: one path, the others in reserve; primary=rank: the fastest path\n\
        stream-bound: each stream on one path\n\
        redundant: everything on every path; redundant=late: only data that is late or urgent\n\
        cost: the cheapest paths that carry the load within 1 s; cost=TIME: within TIME"
    )]
    pub scheduler: Option<String>,
    /// Congestion control of each path
    #[arg(long, global = true, value_name = "NAME")]
    #[arg(
        long_help = "Congestion control of each path: a profile (bond, fair) or an algorithm. bond, the default, is bbr: it \
        models the path, tolerates random loss and keeps queues short. fair is coupled-cubic: paths found to share a \
        bottleneck compete there as one flow of CUBIC. The other algorithms are cubic, new-reno, fixed (a constant \
        window, for experiments), and lia, olia and balia, which compete in a shared bottleneck as about one flow of Reno"
    )]
    pub congestion: Option<String>,
    /// Which local/remote address pairs to use: local-disjoint, disjoint or full-mesh
    #[arg(long, global = true, value_name = "MODE")]
    #[arg(
        long_help = "Which local/remote address pairs to use; no effect at a server. local-disjoint, the default, uses one \
        pair for each interface: the first that answers, and another one when it falls silent. disjoint uses no address \
        of either end twice and chooses the pairs that deliver 256 KiB soonest; to a server with one address that is \
        one path. full-mesh uses every pair that answers, up to 8."
    )]
    pub pairs: Option<PairMode>,
    /// What to do when only a more expensive path is left: ask, allow or never
    #[arg(long, global = true, value_name = "ANSWER")]
    #[arg(
        long_help = "What the scheduler primary of this end does when only a path works that costs more (-I IF,cost=N) \
        than the one before: ask (the default: at a terminal it asks once for each interface; elsewhere it says so and waits for the \
        other paths), allow or never (wait for the other paths)"
    )]
    pub costly: Option<Costly>,
    /// How much memory a connection may take: auto or small
    #[arg(long, global = true, value_name = "SIZE")]
    #[arg(
        long_help = "How much memory a connection may take at this end: auto (the default: as much as the paths need, up \
        to 64 MiB in each direction) or small (at most 256 KiB, for routers, or servers with many clients; it carries \
        about 34 KB in each round trip, 13 Mbit/s at 20 ms, over at most four paths). File buffers are additional"
    )]
    pub memory: Option<Memory>,
    /// Connect timeout
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_duration)]
    #[arg(long_help = "Connect timeout; default 10s")]
    pub connect_timeout: Option<Duration>,
    /// Rendezvous server, for short codes and when both ends change address; repeatable
    #[arg(long, global = true, value_name = "HOST[:PORT]")]
    #[arg(
        long_help = "Rendezvous server: a host that runs `manyway rendezvous`. It is used when both ends change address \
        at the same moment, and for the short codes of `send` and `get`. Repeatable; up to four addresses count. A server announces it to its \
        clients, which need no option of their own. Default none"
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
        long_help = "How to verify a server given by name, as HOST[:PORT]: keys (the default: asks once, then \
        remembers the key), system (certificates of the authorities that this system trusts) or a FILE with \
        certificates of authorities (PEM)"
    )]
    pub trust: Option<Trust>,
    /// Remember the key of an unknown server without asking
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

    /// The connect timeout.
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
    /// No authority: its key is known.
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
