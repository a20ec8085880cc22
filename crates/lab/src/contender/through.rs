//! Programs over a verb of the `manyway` command, or over a peer of it.

use std::fmt;
use std::str::FromStr;

use super::error::NameError;

/// A program whose connections a verb of `manyway` carries to a server with `--egress`, over all routes, or a peer over the
/// best one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Through {
    /// The verb, or the peer, at the client.
    pub verb: Verb,
    /// The program that sends and receives.
    pub program: Program,
    /// Its parallel TCP connections for bulk, from 1 to [`Self::MOST_FLOWS`]. Default 1.
    pub flows: u8,
}

/// A verb of `manyway` for other programs, or what is used in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// A local port for the one destination.
    Forward,
    /// A proxy, which the program asks by SOCKS5.
    Proxy,
    /// The program runs in a network namespace of its own.
    Run,
    /// The traffic of the whole host.
    Tunnel,
    /// `ssh -D`, a proxy as well, over one TCP connection.
    Ssh,
    /// A tunnel by wireguard-go.
    WireGuard,
    /// None: the program itself.
    Direct,
}

/// A program that sends and receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Program {
    /// The lab's own, which sends any traffic, and measures as it does for every contender.
    #[default]
    Own,
    /// `iperf3`, for bulk of the duration of the run, and for messages with a lifetime as datagrams.
    Iperf3,
    /// `curl`, for bulk from the server.
    Curl,
    /// quinn over QUIC, by the program `manyway-peers`, for bulk from the server.
    Quinn,
    /// `srt-live-transmit`, for messages with a lifetime to the server.
    Srt,
}

impl Verb {
    const ALL: [Self; 7] =
        [Self::Forward, Self::Proxy, Self::Run, Self::Tunnel, Self::Ssh, Self::WireGuard, Self::Direct];

    /// Whether it is no verb of `manyway`, and uses the best route alone.
    pub const fn is_peer(self) -> bool {
        matches!(self, Self::Ssh | Self::WireGuard | Self::Direct)
    }

    /// Whether programs ask it by SOCKS5.
    pub(crate) const fn is_proxy(self) -> bool {
        matches!(self, Self::Proxy | Self::Ssh)
    }

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Proxy => "proxy",
            Self::Run => "run",
            Self::Tunnel => "tunnel",
            Self::Ssh => "ssh",
            Self::WireGuard => "wireguard-go",
            Self::Direct => "direct",
        }
    }
}

impl Program {
    const ALL: [Self; 5] = [Self::Own, Self::Iperf3, Self::Curl, Self::Quinn, Self::Srt];

    /// Whether its connections go over UDP.
    pub(crate) const fn uses_udp(self) -> bool {
        matches!(self, Self::Quinn | Self::Srt)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Iperf3 => "iperf3",
            Self::Curl => "curl",
            Self::Quinn => "quinn",
            Self::Srt => "srt",
        }
    }
}

impl Through {
    /// One flow of the lab's own program.
    pub const fn new(verb: Verb) -> Self {
        Self { verb, program: Program::Own, flows: 1 }
    }

    /// Most parallel connections.
    pub const MOST_FLOWS: u8 = 64;

    /// Whether a name is that of a verb, with settings or without.
    pub(super) fn is_meant(name: &str) -> bool {
        Verb::ALL.iter().any(|verb| name.split(':').next() == Some(verb.name()))
    }

    fn set(&mut self, setting: &str) -> Result<(), NameError> {
        let wrong = |text: String| Err(NameError(text));
        match setting.split_once('=') {
            Some(("flows", value)) => {
                match value.parse().ok().filter(|number| (1..=Self::MOST_FLOWS).contains(number)) {
                    Some(flows) => self.flows = flows,
                    None => return wrong(format!("flows must be 1 to {}, not {value:?}", Self::MOST_FLOWS)),
                }
            }
            Some(("program", value)) => {
                match Program::ALL.into_iter().find(|program| program.name() == value) {
                    Some(program) => self.program = program,
                    None => {
                        return wrong(format!(
                            "program must be own, iperf3, curl, quinn or srt, not {value:?}"
                        ));
                    }
                }
            }
            _ => return wrong(format!("{setting:?} is not like flows=N or program=NAME")),
        }
        Ok(())
    }
}

impl FromStr for Through {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let (verb, settings) = name.split_once(':').map_or((name, None), |(verb, rest)| (verb, Some(rest)));
        let verb = Verb::ALL.into_iter().find(|one| one.name() == verb);
        let verb = verb.ok_or_else(|| NameError(format!("{name:?} is no verb of manyway, and no peer")))?;
        let mut through = Self::new(verb);
        settings.into_iter().flat_map(|all| all.split(',')).try_for_each(|one| through.set(one))?;
        match (through.verb, through.program) {
            (_, program @ (Program::Curl | Program::Quinn | Program::Srt)) if through.flows > 1 => {
                Err(NameError(format!("{} has one flow: leave flows out", program.name())))
            }
            (verb, program) if verb.is_proxy() && program.uses_udp() => {
                Err(NameError(format!("{} knows no proxy", program.name())))
            }
            _ => Ok(through),
        }
    }
}

impl fmt::Display for Through {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.verb.name())?;
        let flows = (self.flows != 1).then(|| format!("flows={}", self.flows));
        let program = (self.program != Program::Own).then(|| format!("program={}", self.program.name()));
        let settings: Vec<String> = [flows, program].into_iter().flatten().collect();
        if settings.is_empty() { Ok(()) } else { write!(f, ":{}", settings.join(",")) }
    }
}
