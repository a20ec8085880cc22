//! `manyway serve`.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use ipnet::IpNet;
use manyway::resolve::socket_address;
use manyway::{AddressFilter, ConfigError, HostPort, IdLayout};
use manyway_egress::NetPorts;

use super::number::{port, within};
use super::tunnel::parse_network;

/// Arguments of `serve`.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct ServeArgs {
    /// The directory to serve; default the current one
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Clients may only fetch
    #[arg(long)]
    pub read_only: bool,
    /// With --wire mmsp1: clients may connect from here, such as 192.168.1.0/24; may be repeated
    #[arg(long, value_name = "NET", conflicts_with = "open")]
    pub from: Vec<AddressFilter>,
    /// With --wire mmsp1: anyone may fetch, no one send
    #[arg(long)]
    pub open: bool,
    /// Listen here; may be repeated; default all addresses, port 4455
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_listen)]
    pub listen: Vec<SocketAddr>,
    /// Accept TCP within TLS here too, for networks that block all else: at 443, where clients try it
    #[arg(long, value_name = "PORT", value_parser = port)]
    pub tls_port: Option<u16>,
    /// Advertise this address to clients, for a server behind NAT; may be repeated
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Vec<HostPort>,
    /// Connections at the same time; default no limit
    #[arg(long, value_name = "N", value_parser = parse_clients)]
    pub max_clients: Option<NonZeroUsize>,
    /// Threads, up to 64; default one for each processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub threads: Option<u8>,
    /// First bytes of connection IDs for a balancer
    #[arg(long, value_name = "HEX")]
    pub cid_prefix: Option<CidPrefix>,
    /// Length of connection IDs; default 8 + prefix
    #[arg(long, value_name = "BYTES")]
    pub cid_length: Option<u8>,
    /// Show this certificate (PEM, own one first) to clients that trust authorities instead of the key
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// The private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Let programs of clients reach the internet through this server: TCP, UDP, ICMP echo (`proxy`, `forward`, `run`,
    /// `tunnel`, `pipe`)
    #[arg(long)]
    pub egress: bool,
    /// With --egress, also to this network, such as 10.1.0.0/16 or 127.0.0.1:22; may be repeated
    #[arg(long, value_name = "NET[:PORTS]")]
    pub allow: Vec<NetPorts>,
    /// Forbid this network, even if --allow permits it; 0.0.0.0/0 does not cover IPv6, and a denial of some ports does
    /// not stop ping
    #[arg(long, value_name = "NET[:PORTS]")]
    pub deny: Vec<NetPorts>,
    /// TCP connections of a ticket at the same time with --egress, of the settings alone; default 512
    #[arg(skip)]
    pub egress_connections: Option<usize>,
    /// Network for sites (`tunnel --site`); needs root
    #[arg(long, value_name = "NET", value_parser = parse_network)]
    pub tun: Vec<IpNet>,
    /// With --tun, a network behind this host
    #[arg(long, value_name = "NET", value_parser = parse_network)]
    pub tun_announce: Vec<IpNet>,
    /// A network that client NAME may announce
    #[arg(long, value_name = "NAME=NET", value_parser = parse_behind)]
    pub tun_behind: Vec<(String, IpNet)>,
    /// Reserve this address for client NAME
    #[arg(long, value_name = "NAME=IP", value_parser = parse_fixed)]
    pub tun_address: Vec<(String, IpAddr)>,
    /// Largest packet between sites; default 1400
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(SITE_MTU))]
    pub tun_mtu: Option<u16>,
    /// Store nothing; key and ticket are lost at exit
    #[arg(long)]
    pub ephemeral: bool,
    /// How to log on standard error; -q logs nothing
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

/// How a server logs what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// A JSON document a line
    Json,
}

/// First bytes of connection IDs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CidPrefix(Vec<u8>);

impl FromStr for CidPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits: Option<Vec<_>> = text.chars().map(|digit| digit.to_digit(16)).collect();
        let digits = digits.filter(|digits| digits.len().is_multiple_of(2));
        let digits =
            digits.ok_or_else(|| format!("{text:?} is not in hexadecimal digits, two for each byte"))?;
        let byte = |pair: &[u32]| pair.iter().fold(0, |byte, digit| byte << 4 | digit);
        Ok(Self(digits.chunks(2).filter_map(|pair| u8::try_from(byte(pair)).ok()).collect()))
    }
}

/// The name of a ticket or key, and a network behind its client.
///
/// # Errors
/// The error text shows the right form.
pub fn parse_behind(text: &str) -> Result<(String, IpNet), String> {
    let (name, network) = named(text).ok_or_else(|| {
        format!(
            "{text:?} is not NAME=NET: write it like branch=192.168.5.0/24; the first ticket is `default`"
        )
    })?;
    Ok((name.to_owned(), parse_network(network)?))
}

/// The name of a ticket or key, and the address of its client.
///
/// # Errors
/// The error text shows the right form.
pub fn parse_fixed(text: &str) -> Result<(String, IpAddr), String> {
    let parsed = named(text).and_then(|(name, address)| Some((name.to_owned(), address.parse().ok()?)));
    parsed.ok_or_else(|| {
        format!("{text:?} is not NAME=IP: write it like branch=10.99.0.7; the first ticket is `default`")
    })
}

/// Largest packets between sites, in bytes: that of IPv6 at least (RFC 8200, section 5), and of jumbo frames at most.
pub const SITE_MTU: RangeInclusive<i64> = 1280..=9000;

fn named(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(name, _)| !name.is_empty())
}

fn parse_clients(text: &str) -> Result<NonZeroUsize, String> {
    within(text, 1..=usize::MAX.try_into().unwrap_or(u64::MAX))
        .and_then(|number: usize| NonZeroUsize::new(number).ok_or_else(|| "must be at least 1".to_owned()))
}

/// Reads a listening address.
///
/// # Errors
/// The error text shows the right form.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    parse_address(text, "0.0.0.0:4455, [::]:4455 or [fe80::1%eth0]:4455")
}

/// Reads an address with a port.
///
/// # Errors
/// The error text shows the right form, with `examples`.
pub(super) fn parse_address(text: &str, examples: &str) -> Result<SocketAddr, String> {
    let wrong = || format!("{text:?} is not ADDRESS:PORT; write it like {examples}");
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    // With the name of an interface. Port 0, for any, is none that a client can connect to.
    let (place, port) = text.rsplit_once("]:").ok_or_else(wrong)?;
    let host: HostPort = format!("{place}]").parse().map_err(|_| wrong())?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    if host.zone().is_none() {
        return Err(wrong());
    }
    let mut address = socket_address(&host).map_err(|error| error.to_string())?;
    address.set_port(port);
    Ok(address)
}

impl ServeArgs {
    /// The port where nothing else is asked for, UDP and TCP.
    pub const DEFAULT_PORT: u16 = 4455;

    /// Whether clients may fetch only.
    pub fn is_read_only(&self) -> bool {
        self.read_only || self.open
    }

    /// The form of the connection IDs.
    ///
    /// # Errors
    /// If the prefix is too long, or the length does not fit it.
    pub fn ids(&self) -> Result<IdLayout, ConfigError> {
        let prefix = self.cid_prefix.as_ref().map_or(&[][..], |prefix| &prefix.0);
        let length = self.cid_length.map_or(IdLayout::SHORTEST + prefix.len(), usize::from);
        IdLayout::new(length, prefix)
    }

    /// The directory to serve.
    pub fn dir(&self) -> &Path {
        self.dir.as_deref().unwrap_or_else(|| Path::new("."))
    }
}

const EXAMPLES: &str = "\
Examples:
  manyway serve --dir /srv/incoming
  manyway serve --read-only --dir films --advertise media.example.org:4455
  manyway serve --listen 192.0.2.7:4455 --listen [2001:db8::7]:4455
  manyway serve --egress --allow 10.1.0.0/16 --allow 127.0.0.1:22
  manyway serve --egress --deny 0.0.0.0/0:25 --deny [::/0]:25     no mail
  sudo manyway serve --tun 10.99.0.0/24 --tun-behind default=192.168.5.0/24
  manyway serve --rendezvous meet.example.org
  manyway serve --cert fullchain.pem --key privkey.pem
  manyway serve --wire mmsp1 --from 192.168.1.0/24     in clear text, no ticket

The ticket is kept for the next start, until `manyway keys remove default`. \
`manyway keys` makes more tickets and lets in clients by their keys.";
