//! Time limits of a connection: an unanswered handshake, an idle connection, or no working path.

use crate::{ConnectionError, Instant};

use super::Engine;

impl Engine {
    fn connect_deadline(&self) -> Option<Instant> {
        self.phase.is_handshaking().then(|| self.clock.set_up_since + self.config.connect_timeout)
    }

    /// While no path works, the longer limit for that counts.
    pub(crate) fn idle_deadline(&self) -> Option<Instant> {
        if self.phase.is_handshaking() || self.clock.pathless_since.is_some() {
            return None;
        }
        let least = self.paths.longest_pto() * 3;
        Some(self.clock.last_activity + self.limits.idle_timeout.max(least))
    }

    fn pathless_deadline(&self) -> Option<Instant> {
        self.clock.pathless_since.map(|since| since + self.config.no_path_timeout)
    }

    /// When the connection ends if nothing happens before.
    pub(crate) fn expires_at(&self) -> Option<Instant> {
        let deadlines = [self.connect_deadline(), self.idle_deadline(), self.pathless_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Why the connection has to end now, if it has to.
    pub(crate) fn expired(&self, now: Instant) -> Option<ConnectionError> {
        let due = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        if due(self.connect_deadline()) {
            Some(ConnectionError::ConnectTimeout)
        } else if due(self.idle_deadline()) {
            Some(ConnectionError::IdleTimeout)
        } else if due(self.pathless_deadline()) {
            Some(ConnectionError::NoPath)
        } else {
            None
        }
    }
}
