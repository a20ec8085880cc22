//! What it costs to use an interface, by the wish of the user.

use manyway_proto::scheduler::PathTerms;
use manyway_proto::{ConnectionHandle, LocalCandidate};

use super::Driver;
use crate::endpoint::Locals;

impl Driver {
    /// Tells a client connection what its interfaces cost.
    pub(super) fn tell_terms(&mut self, handle: ConnectionHandle, locals: &[LocalCandidate]) {
        let Locals::Interfaces(policy) = &self.locals else { return };
        let Some(connection) = self.endpoint.connection(handle) else { return };
        let snapshot = self.watcher.snapshot();
        for local in locals.iter().map(|candidate| candidate.address) {
            let Some(interface) = snapshot.interface(local.interface) else { continue };
            let mut terms = PathTerms::default();
            terms.cost = policy.cost(&interface.name);
            connection.set_terms(local, terms);
        }
    }
}
