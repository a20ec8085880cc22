//! `manyway pipe`.

use clap::Args;
use manyway_egress::Host;

use super::number::port;

/// Arguments of `pipe`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct PipeArgs {
    /// The server, started with --egress: ticket, @FILE containing it, saved name, or HOST:PORT
    #[arg(value_name = "TICKET")]
    pub server: String,
    /// The host to connect to; the server resolves its name
    #[arg(value_name = "HOST", value_parser = Host::parse)]
    pub host: Host,
    /// The TCP port to connect to
    #[arg(value_name = "PORT", value_parser = port)]
    pub port: u16,
}

const EXAMPLES: &str = "\
Examples:
  ssh -o ProxyCommand='manyway pipe home %h %p' user@host.example.org
  GIT_SSH_COMMAND=\"ssh -o ProxyCommand='manyway pipe home %h %p'\" git pull
  rsync -e \"ssh -o ProxyCommand='manyway pipe home %h %p'\" film.mp4 host.lan:
  printf 'GET / HTTP/1.0\\r\\n\\r\\n' | manyway pipe @home.ticket example.org 80

In ~/.ssh/config, for every ssh, scp, git and rsync to a host:
  Host host.example.org
      ProxyCommand manyway pipe home %h %p

`home` is a saved server: manyway keys add server home @home.ticket

EOF is forwarded; the destination may continue to send.";
