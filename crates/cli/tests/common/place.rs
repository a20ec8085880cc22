//! A directory for the client and one for the server, and programs in them.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::common::program::{Finished, MANYWAY, Running, Server};

/// Two directories that are removed with it.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let place = TempDir::new().unwrap();
        for side in ["client", "server"] {
            std::fs::create_dir(place.path().join(side)).unwrap();
        }
        Self(place)
    }

    /// The client's directory.
    pub(crate) fn here(&self) -> PathBuf {
        self.0.path().join("client")
    }

    /// The served directory.
    pub(crate) fn there(&self) -> PathBuf {
        self.0.path().join("server")
    }

    /// A server at a port of its own.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Server {
        Server::start(self.serving(&[&["--listen", "127.0.0.1:0"], arguments].concat()))
    }

    /// `manyway serve` with these arguments.
    pub(crate) fn serving(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(MANYWAY);
        command.arg("serve").arg("--dir").arg(self.there()).args(arguments);
        command
    }

    /// `manyway` with these arguments where the client runs.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(MANYWAY);
        command.current_dir(self.here()).args(arguments);
        command
    }

    /// Starts a client.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(arguments))
    }

    /// Runs a client to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.start(arguments).end()
    }
}
