//! `manyway rendezvous`.

use std::net::SocketAddr;

use clap::Args;

use super::parse_listen;

/// Arguments of `rendezvous`.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = EXAMPLES)]
pub struct RendezvousArgs {
    /// Listen here; may be given several times; default all addresses, port 4455
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_listen)]
    pub listen: Vec<SocketAddr>,
}

const EXAMPLES: &str = "\
Both sides of a connection leave their addresses here, sealed for each other. When both get new ones at the same \
moment, each finds the other again. This host can read nothing of it, carries no data, needs no key, and keeps the \
addresses of up to 32 768 connections in memory only, each for three minutes. It also keeps the mailboxes in which \
`manyway send` and `manyway get` meet by a short code, 4096 at most, each for an hour.

Examples:
  manyway rendezvous                            on a host with fixed addresses
  manyway rendezvous --listen 192.0.2.9:4455 --listen [2001:db8::9]:4455
  manyway serve --rendezvous meet.example.org   on the server
  manyway send film.mp4 --rendezvous meet.example.org   prints a short code";
