//! `manyway run`.

use std::ffi::OsString;

use clap::Args;

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// The server, started with --egress: its ticket, @FILE with it, its name, or HOST:PORT
    #[arg(value_name = "TICKET")]
    pub server: String,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  manyway run @home -- curl https://example.org
  manyway run home -- git clone https://git.example.org/it
  manyway run home -- bash              a shell; so is all that it starts

The command needs no proxy settings: it runs in a network namespace of its own, whose TCP, UDP and name \
queries leave from the server, by all networks of this machine, and where there is no other way out. No root is needed, but Linux with user \
namespaces and /dev/net/tun; where the system forbids them, the message says what to change.

The exit status is that of the command: 128+N after signal N, 127 if it does not exist, 126 if it cannot be executed. \
If Manyway fails before the command runs, it is one of `manyway --help`.";
