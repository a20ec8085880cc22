//! Where the files are.

use std::future::Future;

use manyway_session::Session;

/// The connection to a server with files, which may be replaced when it breaks.
pub trait Source: Send + Sync + 'static {
    /// A connection.
    type Session: Session + 'static;

    /// The present connection; waits while a broken one is being replaced. `None`: the server is away.
    fn session(&self) -> impl Future<Output = Option<Self::Session>> + Send;
}
