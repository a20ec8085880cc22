//! Observers of the connections of an endpoint.

use std::fmt;
use std::sync::Arc;

use super::Observer;
use super::packet::Beginning;

/// Creates an observer, or none, for each connection that starts. See
/// [`ConnectionConfig::set_observers`](crate::ConnectionConfig::set_observers).
///
/// A server calls it for every handshake with a decrypted first packet, before the client is authenticated: the state
/// of an observer must be bounded.
#[derive(Clone)]
pub struct Observers(Arc<MakeObserver>);

type MakeObserver = dyn Fn(&Beginning) -> Option<Box<dyn Observer>> + Send + Sync;

impl Observers {
    /// Calls `make` for each connection; it must not block.
    pub fn new(make: impl Fn(&Beginning) -> Option<Box<dyn Observer>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    pub(crate) fn observer(&self, beginning: &Beginning) -> Option<Box<dyn Observer>> {
        (self.0)(beginning)
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers").finish_non_exhaustive()
    }
}
