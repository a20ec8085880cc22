//! The command line: one file a command.

mod bench;
mod caps;
mod completion;
mod decode;
mod demo;
mod forward;
mod get;
mod global;
mod help;
mod keys;
mod lab;
mod number;
mod paths;
mod ping;
mod pipe;
mod play;
mod proxy;
mod rendezvous;
mod run;
mod scope;
mod send;
mod serve;
mod status;
mod transfer;
mod tunnel;
mod via;

pub use bench::BenchArgs;
pub use caps::{CapsAction, CapsArgs, ClearArgs, SetArgs};
pub use completion::CompletionArgs;
pub use decode::DecodeArgs;
pub use demo::DemoArgs;
pub use forward::{ForwardArgs, ForwardRule, Protocol};
pub use get::GetArgs;
pub use global::{Costly, DetectionChoice, GlobalArgs, Memory, Trust};
pub use help::{command, shared_options, with_help_as_option};
pub use keys::{
    AddArgs, AddClientArgs, AddServerArgs, AddTicketArgs, AddWhat, DEFAULT_TICKET, EntryKind, KeysAction,
    KeysArgs, ListArgs, RemoveArgs, RightsArgs, ShowArgs,
};
pub use lab::PassedOn;
pub use paths::PathsArgs;
pub use ping::PingArgs;
pub use pipe::PipeArgs;
pub use play::{PlayArgs, PlayRate};
pub use proxy::ProxyArgs;
pub use rendezvous::RendezvousArgs;
pub use run::RunArgs;
pub use scope::{unfit_for_wire, unused};
pub use send::{Recipient, SendArgs};
pub use serve::{CidPrefix, LogFormat, SITE_MTU, ServeArgs, parse_behind, parse_fixed, parse_listen};
pub use status::StatusArgs;
pub use transfer::{Retries, TransferArgs};
pub use tunnel::{DnsSource, TunnelArgs, parse_network};
pub use via::Via;

use clap::{Parser, Subcommand};

/// One connection over all your networks.
///
/// Manyway sends data over every network of this machine at once: their bandwidth adds up, and when one of them
/// fails the others carry on.
#[derive(Debug, Parser)]
#[command(name = "manyway", version, max_term_width = 100, after_help = EXAMPLES)]
#[command(subcommand_required = true, arg_required_else_help = true, propagate_version = true)]
pub struct Cli {
    /// What every command understands.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Whether standard output is for programs.
    pub fn wants_json(&self) -> bool {
        self.global.json || matches!(&self.command, Command::Bench(bench) if bench.document)
    }

    /// In which form messages go to standard error.
    pub fn log_format(&self) -> LogFormat {
        if let Command::Serve(serve) = &self.command { serve.log_format } else { LogFormat::Text }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show on this machine alone what Manyway does: three emulated links, one is cut and restored
    Demo(DemoArgs),
    /// Serve a directory and print the ticket that clients need
    Serve(ServeArgs),
    /// Send files and directories to a server, or offer them to one recipient with a one-time code
    Send(SendArgs),
    /// Fetch files and directories from a server, or the file of a URL
    Get(GetArgs),
    /// Play films of a server in any player or browser on this machine
    Play(PlayArgs),
    /// Measure throughput to a server
    Bench(BenchArgs),
    /// Measure round-trip time and loss on every path
    Ping(PingArgs),
    /// List interfaces and paths, and say why each is used or not
    Paths(PathsArgs),
    /// Connect standard input and output to a TCP port through a server, for ssh and git
    Pipe(PipeArgs),
    /// Forward local TCP and UDP ports through a server (ssh -L), or ports of the server to this host (ssh -R)
    Forward(ForwardArgs),
    /// Run a local SOCKS5 and HTTP proxy whose connections leave from a server
    Proxy(ProxyArgs),
    /// Run a command whose whole traffic goes through a server, without root
    Run(RunArgs),
    /// Send all traffic of this machine through a server, as root
    Tunnel(TunnelArgs),
    /// Show what every running command and server of this user is doing
    Status(StatusArgs),
    /// Show and change tickets, authorised clients and known servers
    Keys(KeysArgs),
    /// Show and correct the data counted against interface caps
    Caps(CapsArgs),
    /// Run a rendezvous server, for short codes and for peers that both change address
    Rendezvous(RendezvousArgs),
    /// Decode packets and blocks from a capture or hex text
    Decode(DecodeArgs),
    /// Compare Manyway with TCP and others on real sockets over emulated links, as root
    #[command(after_help = lab::LAB_EXAMPLES)]
    Lab(PassedOn),
    /// Run Manyway through the same scenarios in virtual time
    #[command(after_help = lab::SIM_EXAMPLES)]
    Sim(PassedOn),
    /// Print a completion script for a shell
    Completion(CompletionArgs),
    /// Print the manual page
    Man,
}

impl Command {
    /// Whether it uses interfaces of this host of its own choice: a server does not, its clients do, and a demo has
    /// links of its own.
    pub fn chooses_interfaces(&self) -> bool {
        match self {
            Self::Serve(_) | Self::Demo(_) => false,
            Self::Send(send) => !send.offers(),
            Self::Get(_)
            | Self::Play(_)
            | Self::Bench(_)
            | Self::Ping(_)
            | Self::Paths(_)
            | Self::Pipe(_)
            | Self::Forward(_)
            | Self::Proxy(_)
            | Self::Run(_)
            | Self::Tunnel(_)
            | Self::Status(_)
            | Self::Keys(_)
            | Self::Caps(_)
            | Self::Rendezvous(_)
            | Self::Decode(_)
            | Self::Lab(_)
            | Self::Sim(_)
            | Self::Completion(_)
            | Self::Man => true,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  manyway demo                         see it work, no network needed
  manyway serve --dir /srv/incoming    on the server; prints a ticket
  manyway send film.mp4 @home.ticket   on the client, with that ticket in a file

Exit status:
  0    done
  1    failed
  2    wrong usage
  3    authentication failed
  4    incomplete: run the same command again
  5    limit reached
  6    below the requested threshold (--min-gain)
  7    peer not reached
  129  ended by SIGHUP (its terminal was closed) before it was done
  130  ended by Ctrl-C or SIGTERM before it was done
  141  standard output was closed before it was done
Commands that run until Ctrl-C then end with 0: serve, play, rendezvous, forward, proxy, tunnel, bench -t 0, paths -w, \
status -w, and ping without -c if there was an answer. `run` ends with the status of its command, as shells have it.

Settings: ~/.config/manyway/config.toml (the command line overrides). Keys and tickets are beside it \
(`manyway keys show`). MANYWAY_HOME relocates all files.

A ticket is a secret: where a command takes one, @FILE reads it from a file and keeps it out of the process list.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_measurement_asks_for_json_by_a_letter_of_its_own() {
        let wants = |words: &[&str]| Cli::try_parse_from(words).unwrap().wants_json();
        assert!(wants(&["manyway", "bench", "-J", "mw1x"]) && wants(&["manyway", "--json", "bench", "mw1x"]));
        assert!(!wants(&["manyway", "bench", "mw1x"]));
    }

    #[test]
    fn global_options_stand_before_or_after_the_command() {
        let before = Cli::try_parse_from(["manyway", "-vv", "--json", "demo"]).unwrap();
        let after = Cli::try_parse_from(["manyway", "demo", "--json", "-v", "-v"]).unwrap();
        for cli in [before, after] {
            assert!(cli.global.json && cli.global.verbose == 2);
        }
    }
}
