//! The connections of a command, for `manyway status`.

#[cfg(unix)]
use std::sync::{Arc, Mutex, PoisonError};

use manyway::Connection;

use super::files::FileCounts;
#[cfg(unix)]
use super::listener::Listener;
use super::state::SharedState;

/// Where a command publishes its state; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Board {
    state: SharedState,
    #[cfg(unix)]
    listener: Arc<Mutex<Option<Listener>>>,
}

/// A peer on the board; dropping it removes the peer.
#[derive(Debug)]
pub struct PeerPlace {
    board: Board,
    number: u64,
}

impl Drop for PeerPlace {
    fn drop(&mut self) {
        self.board.state.lock().peers.remove(&self.number);
    }
}

impl Board {
    /// Publishes this command to its user from now on, until the last clone is dropped. Call it within a runtime. If
    /// that is impossible, for lack of a directory, the command does not fail.
    pub fn open(&self, verb: &'static str) {
        self.state.lock().begin(verb);
        #[cfg(unix)]
        match Listener::start(verb, self.state.downgrade()) {
            Ok(listener) => *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener),
            Err(error) => tracing::debug!(%error, "not shown by `manyway status`"),
        }
    }

    /// Adds a connection that is shown until it is closed.
    pub fn add(&self, name: Option<String>, connection: &Connection) {
        let mut state = self.state.lock();
        state.peers.retain(|_, peer| peer.connection.close_reason().is_none());
        state.add(name, connection, FileCounts::default());
    }

    /// Adds a connection with files of its own that is shown until the place is dropped.
    pub fn place(&self, name: Option<String>, connection: &Connection, files: FileCounts) -> PeerPlace {
        let number = self.state.lock().add(name, connection, files);
        PeerPlace { board: self.clone(), number }
    }

    /// Counts the files of the whole command.
    pub fn files(&self) -> FileCounts {
        self.state.lock().files.clone()
    }
}
