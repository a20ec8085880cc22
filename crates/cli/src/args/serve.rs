//! `manyway serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Arguments of `serve`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// The directory that clients fetch from and send to
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Let clients fetch, not send
    #[arg(long)]
    pub read_only: bool,
    /// Listen here; may be given several times; default all addresses, port 4455
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Vec<SocketAddr>,
    /// Tell clients to come here, for a server behind NAT; may be given several times
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Vec<String>,
}

impl ServeArgs {
    /// The port where nothing else is asked for, UDP and TCP.
    pub const DEFAULT_PORT: u16 = 4455;
}

const EXAMPLES: &str = "\
Examples:
  manyway serve --dir /srv/incoming
  manyway serve --read-only --dir films --advertise media.example.org:4455
  manyway serve --listen 192.0.2.7:4455 --listen [2001:db8::7]:4455";
