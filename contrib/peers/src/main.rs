//! One stream in one direction at full speed, by a QUIC library of others: what `manyway-lab cpu` compares Manyway with, and
//! the download of `manyway-lab programs`.
//!
//! `receive` and `serve` print a line that `send` and `fetch` take as their argument, and each prints what it measured: a
//! line of JSON.

mod flow;
mod network;
mod order;
mod quinn;
mod s2n_quic;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

use flow::{Announcement, Failure, Identity, Received, Sent, say};

/// QUIC libraries of others, for `manyway-lab cpu` and `manyway-lab programs`.
#[derive(Debug, Parser)]
#[command(name = "manyway-peers", version)]
struct Cli {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the libraries that this program was built with, and their versions
    Libraries,
    /// Receive one stream of one connection
    Receive {
        library: Library,
        /// Where to listen; port 0 is any
        #[arg(value_name = "IP:PORT")]
        address: SocketAddr,
    },
    /// Send a stream for a time
    Send {
        library: Library,
        /// The line that `receive` printed
        announcement: String,
        /// For how long
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
    },
    /// Listen with quinn, and send a stream until the client closes
    Serve {
        /// Where to listen; port 0 is any
        #[arg(value_name = "IP:PORT")]
        address: SocketAddr,
        /// After which time the client has to close
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
    },
    /// Connect with quinn, and receive the stream of `serve` until its time is over
    Fetch {
        /// The line that `serve` printed
        announcement: String,
        /// Connect here instead, such as to a forwarded port
        #[arg(long, value_name = "IP:PORT")]
        at: Option<SocketAddr>,
    },
}

/// A library.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Library {
    Quinn,
    S2nQuic,
}

impl Library {
    fn name(self) -> &'static str {
        match self {
            Self::Quinn => "quinn",
            Self::S2nQuic => "s2n-quic",
        }
    }

    fn receive(self, address: SocketAddr, identity: &Identity) -> Result<Received, Failure> {
        match self {
            Self::Quinn => quinn::receive(address, identity),
            Self::S2nQuic => s2n_quic::receive(address, identity),
        }
    }

    fn send(self, to: &Announcement, duration: Duration) -> Result<Sent, Failure> {
        match self {
            Self::Quinn => quinn::send(to, duration),
            Self::S2nQuic => s2n_quic::send(to, duration),
        }
    }
}

fn main() -> ExitCode {
    match act(Cli::parse().action) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn act(action: Action) -> Result<(), Failure> {
    match action {
        Action::Libraries => {
            for library in Library::value_variants() {
                println!("{} {}", library.name(), version(library.name()).unwrap_or("of an unknown version"));
            }
            Ok(())
        }
        Action::Receive { library, address } => say(&library.receive(address, &Identity::new()?)?),
        Action::Send { library, announcement, seconds } => {
            let to: Announcement = serde_json::from_str(&announcement)?;
            say(&library.send(&to, Duration::try_from_secs_f64(seconds)?)?)
        }
        Action::Serve { address, seconds } => {
            say(&quinn::serve(address, &Identity::new()?, Duration::try_from_secs_f64(seconds)?)?)
        }
        Action::Fetch { announcement, at } => {
            let from: Announcement = serde_json::from_str(&announcement)?;
            say(&quinn::fetch(&from, at)?)
        }
    }
}

/// The version of a package with which this program was built.
fn version(package: &str) -> Option<&'static str> {
    let (_, rest) =
        include_str!("../Cargo.lock").split_once(&format!("name = \"{package}\"\nversion = \""))?;
    Some(rest.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_library_has_a_version() {
        for library in Library::value_variants() {
            assert!(version(library.name()).is_some_and(|version| version.contains('.')), "{library:?}");
        }
    }
}
