//! When a connection is given up because of time: the handshake takes too long, the peer is silent, or no path works.

use super::Engine;
use crate::event::Event;
use crate::{ConnectionError, Instant};

/// When a connection is given up for each reason, if nothing happens until then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expiry {
    connect: Option<Instant>,
    idle: Option<Instant>,
    no_path: Option<Instant>,
}

impl Engine {
    /// When the connection is given up, as things stand now.
    pub(crate) fn expiry(&self) -> Expiry {
        let (config, clock, is_handshaking) = (&self.config, &self.clock, self.phase.is_handshaking());
        let idle_timeout = self.paths.at_least_drain_time(self.limits.idle_timeout);
        Expiry {
            connect: is_handshaking.then(|| clock.handshake_started + config.connect_timeout),
            // While no path works at all, the longer time for that counts.
            idle: (!is_handshaking && clock.pathless_since.is_none())
                .then(|| clock.last_activity + idle_timeout),
            no_path: clock.pathless_since.map(|since| since + config.no_path_timeout),
        }
    }
}

impl Expiry {
    /// When the connection is given up for whatever reason.
    pub(crate) fn at(&self) -> Option<Instant> {
        [self.connect, self.idle, self.no_path].into_iter().flatten().min()
    }

    /// When the connection is given up because the peer is silent.
    pub(crate) fn idle(&self) -> Option<Instant> {
        self.idle
    }

    /// Why the connection has to be given up now, if it has to.
    pub(crate) fn reason(&self, now: Instant) -> Option<ConnectionError> {
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        if is_due(self.connect) {
            Some(ConnectionError::ConnectTimeout)
        } else if is_due(self.idle) {
            Some(ConnectionError::IdleTimeout)
        } else if is_due(self.no_path) {
            Some(ConnectionError::NoPath)
        } else {
            None
        }
    }
}

/// Reports the end of the connection to the observer and the application.
pub(crate) fn report_closed(engine: &mut Engine, now: Instant, error: ConnectionError) {
    if let Some(observer) = &mut engine.shared.observer {
        observer.on_closed(now, &error);
    }
    engine.events.push(Event::Closed(error));
}
