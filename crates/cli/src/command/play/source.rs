//! The server of the films.

use std::sync::Arc;

use manyway::{Rate, TargetRate};
use manyway_play::Source;

use super::super::bond::Bond;
use super::super::holding::HoldingSession;

/// A connection to the server with films, and how a target rate is held on it.
#[derive(Debug)]
pub(super) struct BondSource {
    bond: Arc<Bond>,
    target: TargetRate,
}

impl BondSource {
    /// Targets are held with so many TCP connections on each interface that uses TCP.
    pub(super) fn new(bond: Arc<Bond>, connections: Option<u8>) -> Self {
        // Each stream names its own rate.
        let mut target = TargetRate::new(Rate::from_bits_per_second(0));
        target.connections = connections.unwrap_or(target.connections);
        Self { bond, target }
    }
}

impl Source for BondSource {
    type Session = HoldingSession;

    async fn session(&self) -> Option<HoldingSession> {
        let session = self.bond.session().await?;
        Some(HoldingSession::new(&session.0, Some(self.target)))
    }
}
