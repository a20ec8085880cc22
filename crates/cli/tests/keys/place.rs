//! The users of a server and of a client, each with persistent keys of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::common::program::{Finished, MANYWAY, Running, Server, make_file};

/// Two homes, and a directory for each.
pub(crate) struct Place(TempDir);

/// The owner of a home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(TempDir::new().unwrap());
        for side in [Side::Client, Side::Server] {
            std::fs::create_dir_all(place.files(side)).unwrap();
        }
        place
    }

    /// The file directory of a side.
    pub(crate) fn files(&self, side: Side) -> PathBuf {
        self.side(side).join("files")
    }

    /// The key directory of a side.
    pub(crate) fn home(&self, side: Side) -> PathBuf {
        self.side(side).join("home")
    }

    fn side(&self, side: Side) -> PathBuf {
        self.0.path().join(match side {
            Side::Client => "client",
            Side::Server => "server",
        })
    }

    /// `manyway` with these arguments as the user of one side.
    pub(crate) fn command(&self, side: Side, arguments: &[&str]) -> Command {
        let mut command = Command::new(MANYWAY);
        command.current_dir(self.files(side)).env("MANYWAY_HOME", self.home(side)).args(arguments);
        command
    }

    /// Starts `manyway` as the client's user.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(Side::Client, arguments))
    }

    /// Runs `manyway` as the client's user.
    pub(crate) fn client(&self, arguments: &[&str]) -> Finished {
        self.start(arguments).end()
    }

    /// Runs `manyway keys` as the server's user.
    pub(crate) fn server_keys(&self, arguments: &[&str]) -> Finished {
        Running::start(self.command(Side::Server, &[&["keys"], arguments].concat())).end()
    }

    /// Starts a server on a port that the system chooses.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Server {
        self.serve_at("127.0.0.1:0", arguments)
    }

    /// Starts a server that prints a ticket.
    pub(crate) fn serve_at(&self, address: &str, arguments: &[&str]) -> Server {
        let arguments = [&["serve", "--listen", address], arguments].concat();
        Server::start(self.command(Side::Server, &arguments))
    }

    /// Makes a ticket as the server's user.
    pub(crate) fn add_ticket(&self, name: &str, rights: &[&str]) -> String {
        let made = self.server_keys(&[&["add", "ticket", name, "-q"], rights].concat()).expect(0);
        made.out.trim().to_owned()
    }

    /// The key of a side's user.
    pub(crate) fn key(&self, side: Side) -> String {
        let shown = Running::start(self.command(side, &["keys", "show", "--json"])).end().expect(0);
        shown.summary()["key"].as_str().unwrap().to_owned()
    }

    /// A file of the client's user.
    pub(crate) fn make(&self, name: &str, size: usize) {
        make_file(&self.files(Side::Client).join(name), size);
    }

    /// A file in the served directory.
    pub(crate) fn make_served(&self, name: &str, size: usize) {
        make_file(&self.files(Side::Server).join(name), size);
    }
}

/// The permission bits of a file.
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}
