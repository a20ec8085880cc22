//! Memory goes back when a connection rests: most connections of a busy server do nothing most of the time.

use std::time::Duration;

use super::Engine;
use crate::Instant;
use crate::recovery::Outcome;
use crate::wire::Wire;

/// After so long without a packet a connection rests.
const REST: Duration = Duration::from_secs(1);

impl Engine {
    /// A packet came or went: there may be something to give back once it is quiet.
    pub(crate) fn note_packet(&mut self, now: Instant) {
        self.clock.last_packet_at = now;
        if self.clock.shrink_at.is_none() {
            self.clock.shrink_at = Some(now + REST);
        }
    }

    /// Gives back what is reserved for packets and blocks on their way, if there were none for a while.
    pub(crate) fn shrink_when_idle(&mut self, wire: &mut Wire, now: Instant) {
        if self.clock.shrink_at.is_none_or(|at| at > now) {
            return;
        }
        let rests_at = self.clock.last_packet_at + REST;
        self.clock.shrink_at = (rests_at > now).then_some(rests_at);
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
    }
}
