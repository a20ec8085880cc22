//! The connection of a run, which may want to receive at a certain rate.

use std::io;
use std::sync::Arc;

use manyway::{Connection, Rate, ReceiveStream, SendStream, TargetRate};
use manyway_transfer::{Session, Transport};

use crate::command::session::NetSession;

/// A connection, and how it holds a target rate.
#[derive(Debug, Clone)]
pub(super) struct BenchSession {
    net: NetSession,
    target: Option<TargetRate>,
}

impl BenchSession {
    pub(super) fn new(connection: &Connection, target: Option<TargetRate>) -> Self {
        Self { net: NetSession(connection.clone()), target }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.net.0
    }

    pub(super) fn target(&self) -> Option<TargetRate> {
        self.target
    }
}

impl Session for BenchSession {
    type Send = SendStream;
    type Receive = ReceiveStream;

    async fn open(&self) -> io::Result<(SendStream, ReceiveStream)> {
        self.net.open().await
    }

    async fn accept(&self) -> Option<(SendStream, ReceiveStream)> {
        self.net.accept().await
    }

    fn hold(&self, receive: &mut ReceiveStream, bits_per_second: u64) {
        let Some(mut target) = self.target else { return };
        target.rate = Rate::from_bits_per_second(bits_per_second);
        if let Err(error) = receive.set_target_rate(Some(target)) {
            tracing::warn!(%error, "no target rate");
        }
    }

    fn transport(&self) -> Option<Arc<dyn Transport>> {
        self.net.transport()
    }
}
