//! Frees memory of idle connections: most connections of a busy server are idle most of the time.

use std::time::Duration;

use super::Engine;
use crate::Instant;
use crate::recovery::Outcome;
use crate::wire::Wire;

/// A connection is idle after this long without a packet.
const REST: Duration = Duration::from_secs(1);

impl Engine {
    /// A packet came or went: memory may be freed once the connection is idle.
    pub(crate) fn note_packet(&mut self, now: Instant) {
        self.clock.last_packet_at = now;
        if self.clock.shrink_at.is_none() {
            self.clock.shrink_at = Some(now + REST);
        }
    }

    /// Frees the memory reserved for packets and blocks in flight, if there were none for a while.
    pub(crate) fn shrink_when_idle(&mut self, wire: &mut Wire, now: Instant) {
        if self.clock.shrink_at.is_none_or(|at| at > now) {
            return;
        }
        let idle_at = self.clock.last_packet_at + REST;
        self.clock.shrink_at = (idle_at > now).then_some(idle_at);
        if self.clock.shrink_at.is_some() {
            return;
        }
        for path in self.paths.iter_mut() {
            path.shrink_to_fit();
        }
        self.paths.shrink_to_fit();
        self.sending.shrink_when_idle();
        self.events.shrink_to_fit();
        self.notices.shrink_to_fit();
        wire.shrink_to_fit();
        self.shared.outcome = Outcome::default();
        self.shared.rng.rest();
    }
}
