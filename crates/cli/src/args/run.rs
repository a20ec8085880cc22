//! `manyway run`.

use std::ffi::OsString;

use clap::Args;

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// The server, started with --egress: ticket, @FILE containing it, saved name, or HOST:PORT
    #[arg(value_name = "TICKET")]
    pub server: String,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  manyway run @home.ticket -- curl https://example.org
  manyway run home -- git clone https://git.example.org/it
  manyway run home -- bash                     a shell; its children too

The command needs no proxy settings: it runs in a network namespace of its own, whose TCP, UDP and name \
queries leave from the server, over all networks of this machine; nothing can bypass Manyway. No root is needed, but Linux with \
user namespaces and /dev/net/tun; where the system forbids them, the message says what to change.

The exit status is that of the command: 128+N after signal N, 127 if it does not exist, 126 if it cannot be executed. \
If Manyway fails before the command runs, it is one of `manyway --help`.";
