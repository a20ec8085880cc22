//! `manyway proxy`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Arguments of `proxy`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ProxyArgs {
    /// The server, started with --egress: ticket, @FILE containing it, saved name, or HOST:PORT
    #[arg(value_name = "TICKET")]
    pub server: String,
    /// Where programs find the proxy; other hosts reach it on an address that is not loopback, which requires --users
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:1080", value_parser = parse_listen)]
    pub listen: SocketAddr,
    /// Only for the users of this file, which has a line NAME:PASSWORD for each
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,
}

fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    super::serve::parse_address(text, "127.0.0.1:1080 or [::1]:1080")
}

const EXAMPLES: &str = "\
Examples:
  manyway proxy @home.ticket
  curl -x socks5h://127.0.0.1:1080 https://example.org
  git -c http.proxy=socks5h://127.0.0.1:1080 clone https://git.example.org/it
  ssh -o ProxyCommand='nc -X 5 -x 127.0.0.1:1080 %h %p' user@host.example.org
  ALL_PROXY=socks5h://127.0.0.1:1080 some-program
  manyway proxy @home.ticket --listen 192.168.1.10:1080 --users proxy.users

One port speaks SOCKS5 (CONNECT and UDP ASSOCIATE) and HTTP (CONNECT). Browsers take \
their settings from http://127.0.0.1:1080/proxy.pac. The server resolves names. \
The command runs until Ctrl-C, and reconnects when the server was away.";
