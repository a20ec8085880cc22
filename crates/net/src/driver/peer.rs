//! What a client knows of its peer.

use std::net::SocketAddr;

use manyway_proto::{ClosedBy, ConnectionError};

use crate::HostPort;
use crate::ledger::CAP_REACHED;

/// Identifies a client while it connects, perhaps by several handshakes, and afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct ClientId(u64);

impl ClientId {
    #[cfg(test)]
    pub(super) const FIRST: Self = Self(0);

    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The peer of a client.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) client: ClientId,
    /// Its host names, for resolving them again.
    pub(super) hosts: Vec<HostPort>,
    /// Its addresses.
    pub(super) remotes: Vec<SocketAddr>,
    /// While no interface leads to the peer: the interfaces whose cap is reached, and until when.
    pub(super) cap_reached: Option<String>,
}

impl Peer {
    pub(super) fn new(hosts: Vec<HostPort>, remotes: Vec<SocketAddr>) -> Self {
        Self { client: ClientId::default(), hosts, remotes, cap_reached: None }
    }

    /// Explains the end of a connection to this peer: a caller that waited for an interface learns which cap excluded
    /// it.
    pub(super) fn explain(&self, error: ConnectionError) -> ConnectionError {
        let failed_by_cap = matches!(
            error,
            ConnectionError::NoPath | ConnectionError::IdleTimeout | ConnectionError::ConnectTimeout
        );
        match self.cap_reached.clone().filter(|_| failed_by_cap) {
            Some(reason) => ConnectionError::Closed { by: ClosedBy::Us, code: CAP_REACHED, reason },
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_waits_for_an_interface_learns_of_the_cap_and_other_errors_stay_as_they_are() {
        let mut peer = Peer::new(Vec::new(), Vec::new());
        assert_eq!(peer.explain(ConnectionError::NoPath), ConnectionError::NoPath);
        let reason = "wwan0: cap of 5 GB reached".to_owned();
        peer.cap_reached = Some(reason.clone());
        let reached = ConnectionError::Closed { by: ClosedBy::Us, code: CAP_REACHED, reason };
        for error in [ConnectionError::NoPath, ConnectionError::IdleTimeout, ConnectionError::ConnectTimeout]
        {
            assert_eq!(peer.explain(error), reached);
        }
        let told = ConnectionError::Closed { by: ClosedBy::Peer, code: 0, reason: "done".to_owned() };
        assert_eq!(peer.explain(told.clone()), told);
    }
}
