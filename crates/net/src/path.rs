//! A path as an application holds it.

use std::time::Duration;

use manyway_proto::{ConnectionError, Event, PathEvent, PathId};
use tokio::sync::broadcast::error::RecvError;

use crate::connection::{Connection, PathInfo};

/// One path of a connection, got from [`Connection::paths`]; clones stand for the same one.
///
/// Dropping it changes nothing: paths belong to the connection.
#[derive(Debug, Clone)]
pub struct Path {
    connection: Connection,
    id: PathId,
}

impl Path {
    pub(crate) fn new(connection: Connection, id: PathId) -> Self {
        Self { connection, id }
    }

    /// Its number, which no other path of the connection ever has.
    pub fn id(&self) -> PathId {
        self.id
    }

    /// Reads its figures; `None` once it is closed. Costs a round to the driver.
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn info(&self) -> Result<Option<PathInfo>, ConnectionError> {
        let info = self.connection.info().await?;
        Ok(info.paths.into_iter().find(|path| path.statistics.id == self.id))
    }

    /// Waits until it comes into another state, and tells which and why. News from before the call are not told.
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn changed(&self) -> Result<PathEvent, ConnectionError> {
        let mut events = self.connection.events();
        loop {
            match events.recv().await {
                Ok(Event::Path(event)) if event.path == self.id => return Ok(event),
                Ok(Event::Closed(error)) => return Err(error),
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Err(self.connection.closed().await),
            }
        }
    }

    /// Asks the peer once on this path, and waits for the round trip of the answer; `None` if the path closes before, or
    /// if 256 later questions on it wait. It may take for ever, since a lost question is not repeated: give it a time
    /// limit. Dropping the future is the way to stop waiting. The question goes out whatever the state of the path, and
    /// costs about 40 bytes in each direction.
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn ping(&self) -> Result<Option<Duration>, ConnectionError> {
        self.connection.ping(self.id).await
    }

    /// Makes it the primary path of the scheduler `primary`, as soon as it works; other schedulers have none. An
    /// [`Event::PrimaryPath`] tells when new data goes on it.
    pub fn make_primary(&self) {
        self.connection.make_primary(self.id);
    }

    /// Allows that it is used although it costs more than the last primary path that needed no leave: the answer to
    /// [`Event::CostlyPathNeeded`]. It holds as long as this path is open: with another address it is another one.
    pub fn allow_costly(&self) {
        self.connection.allow_costly(self.id);
    }

    /// Closes it; its data goes on over the others. It is opened again when its interface changes.
    pub fn close(&self) {
        self.connection.close_path(self.id);
    }
}
