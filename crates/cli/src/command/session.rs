//! A connection as the transfer protocol wants it.

use std::io;

use manyway::{Connection, ReceiveStream, SendStream};
use manyway_transfer::Session;

/// A [`Connection`] that carries the verbs.
#[derive(Debug, Clone)]
pub struct NetSession(pub Connection);

impl Session for NetSession {
    type Send = SendStream;
    type Receive = ReceiveStream;

    async fn open(&self) -> io::Result<(SendStream, ReceiveStream)> {
        self.0.open().await.map_err(io::Error::other)
    }

    async fn accept(&self) -> Option<(SendStream, ReceiveStream)> {
        self.0.accept().await.ok()
    }
}
