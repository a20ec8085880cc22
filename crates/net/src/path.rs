//! The application's handle of a path.

use std::sync::Arc;
use std::time::Duration;

use manyway_proto::{ConnectionError, Event, PathEvent, PathId};
use tokio::sync::broadcast::error::RecvError;

use crate::info::PathInfo;
use crate::link::{Command, Link};

/// One path of a connection, from [`Connection::paths`](crate::Connection::paths); clones are handles of the same path.
///
/// Dropping it changes nothing: paths belong to the connection.
#[derive(Debug, Clone)]
pub struct Path {
    link: Arc<Link>,
    id: PathId,
}

impl Path {
    pub(crate) fn new(link: Arc<Link>, id: PathId) -> Self {
        Self { link, id }
    }

    /// Its ID, which no other path of the connection ever has.
    pub fn id(&self) -> PathId {
        self.id
    }

    /// Reads its figures; `None` once it is closed. Costs a round trip to the driver thread.
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn info(&self) -> Result<Option<PathInfo>, ConnectionError> {
        let info = self.link.info().await?;
        Ok(info.paths.into_iter().find(|path| path.statistics.id == self.id))
    }

    /// Waits for the next state change and returns it with its reason. Changes from before the call are not returned.
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn changed(&self) -> Result<PathEvent, ConnectionError> {
        let mut events = self.link.events();
        loop {
            match events.recv().await {
                Ok(Event::Path(event)) if event.path == self.id => return Ok(event),
                Ok(Event::Closed(error)) => return Err(error),
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Err(self.link.closed().await),
            }
        }
    }

    /// Sends a ping on this path, and waits for the round-trip time of the response; `None` if the path closes before,
    /// or if 256 later pings on it are outstanding. A lost ping is not repeated, so the wait may never end: use a
    /// timeout. Dropping the future stops the wait. The ping is sent in any state of the path, and costs about 40 bytes
    /// in each direction.
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn ping(&self) -> Result<Option<Duration>, ConnectionError> {
        self.link.ask(|reply| Command::Ping { handle: self.link.handle(), path: self.id, reply }).await
    }

    /// Makes it the primary path of the scheduler `primary`, as soon as it works; other schedulers have no primary
    /// path. An [`Event::PrimaryPath`] follows when new data goes on it.
    pub fn make_primary(&self) {
        self.link.send(Command::SetPrimary { handle: self.link.handle(), path: Some(self.id) });
    }

    /// Permits its use although it costs more than the last primary path that needed no permission: the answer to
    /// [`Event::CostlyPathNeeded`]. The permission lasts as long as this path is open; a path with another address is
    /// another path.
    pub fn allow_costly(&self) {
        self.link.send(Command::AllowCostly { handle: self.link.handle(), path: self.id });
    }

    /// Closes it; its data goes on over the others. It is opened again when its interface changes.
    pub fn close(&self) {
        self.link.send(Command::ClosePath { handle: self.link.handle(), path: self.id });
    }
}
