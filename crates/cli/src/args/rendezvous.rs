//! `manyway rendezvous`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use manyway::{ByteCount, ForwardLimits, Rate, RelayLimits};

use super::parse_listen;
use crate::output::units::{parse_duration, parse_rate, parse_size};

/// Arguments of `rendezvous`.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = EXAMPLES)]
pub struct RendezvousArgs {
    /// Listen here; repeatable; default all addresses, port 4455
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_listen)]
    pub listen: Vec<SocketAddr>,
    /// Also relay between two sides that met by a short code and find no direct way
    #[arg(long)]
    pub relay: bool,
    /// Most bytes that are relayed for a pair; default 10GB
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "relay")]
    pub relay_bytes: Option<u64>,
    /// Rate of a pair; default 20M
    #[arg(long, value_name = "RATE", value_parser = parse_rate, requires = "relay")]
    pub relay_rate: Option<Rate>,
    /// How long a pair is relayed; default 1h
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "relay")]
    pub relay_time: Option<Duration>,
}

impl RendezvousArgs {
    /// What the server keeps and relays.
    pub fn limits(&self) -> RelayLimits {
        let mut limits = RelayLimits::default();
        limits.forwarding = self.relay.then(|| {
            let mut forwarding = ForwardLimits::default();
            forwarding.bytes = self.relay_bytes.map_or(forwarding.bytes, ByteCount);
            forwarding.rate = self.relay_rate.unwrap_or(forwarding.rate);
            forwarding.time = self.relay_time.unwrap_or(forwarding.time);
            forwarding
        });
        limits
    }
}

const EXAMPLES: &str = "\
Both sides of a connection leave their addresses here, sealed for each other. When both get new ones at the same \
moment, each finds the other again. This host can read nothing of it, needs no key, and keeps the \
addresses of up to 32 768 connections in memory only, each for three minutes. It also keeps the mailboxes in which \
`manyway send` and `manyway get` meet by a short code, 4096 at most, each for an hour. It carries no data unless it is started with --relay: then it passes sealed packets on \
between two sides of such a code, in both directions together within the limits, for 64 pairs at most.

Examples:
  manyway rendezvous                            on a host with fixed addresses
  manyway rendezvous --relay --relay-rate 50M   where no direct way works
  manyway rendezvous --listen 192.0.2.9:4455 --listen [2001:db8::9]:4455
  manyway serve --rendezvous meet.example.org   on the server
  manyway send film.mp4 --rendezvous meet.example.org   prints a short code";
