//! A connection as the transfer protocol wants it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use manyway::{Connection, ReceiveStream, SendStream};
use manyway_transfer::{Session, Transport, TransportFacts};

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

    fn transport(&self) -> Option<Arc<dyn Transport>> {
        Some(Arc::new(self.clone()))
    }
}

impl Transport for NetSession {
    fn facts(&self) -> Pin<Box<dyn Future<Output = Option<TransportFacts>> + Send + '_>> {
        Box::pin(async {
            let info = self.0.info().await.ok()?;
            let paths = || info.paths.iter().map(|path| path.statistics);
            Some(TransportFacts {
                packets_sent: paths().map(|path| path.packets_sent).sum(),
                packets_lost: paths().map(|path| path.packets_lost).sum(),
                congestion: info.statistics.congestion.to_owned(),
            })
        })
    }

    fn set_congestion<'a>(&'a self, name: &'a str) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async { self.0.set_congestion(name).await.unwrap_or(false) })
    }
}
