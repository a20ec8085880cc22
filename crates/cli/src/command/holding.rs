//! A connection that may want to receive at a certain rate.

use std::io;
use std::sync::Arc;

use manyway::{Connection, Rate, ReceiveStream, SendStream, TargetRate};
use manyway_transfer::{Session, Transport};

use super::session::NetSession;

/// A connection, and how it holds a target rate.
#[derive(Debug, Clone)]
pub struct HoldingSession {
    net: NetSession,
    target: Option<TargetRate>,
}

impl HoldingSession {
    /// A connection whose streams are held at their targets by these settings; without them at none.
    pub fn new(connection: &Connection, target: Option<TargetRate>) -> Self {
        Self { net: NetSession(connection.clone()), target }
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.net.0
    }

    /// How a target is held.
    pub fn target(&self) -> Option<TargetRate> {
        self.target
    }
}

impl Session for HoldingSession {
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
