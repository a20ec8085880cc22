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
    pub(crate) fn note_stir(&mut self, now: Instant) {
        self.clock.stirred_at = now;
        if self.clock.tidy_at.is_none() {
            self.clock.tidy_at = Some(now + REST);
        }
    }

    /// Gives back what is reserved for packets and blocks on their way, if there were none for a while.
    pub(crate) fn tidy(&mut self, wire: &mut Wire, now: Instant) {
        if self.clock.tidy_at.is_none_or(|at| at > now) {
            return;
        }
        let rests_at = self.clock.stirred_at + REST;
        self.clock.tidy_at = (rests_at > now).then_some(rests_at);
        if self.clock.tidy_at.is_some() {
            return;
        }
        for path in self.paths.iter_mut() {
            path.tidy();
        }
        self.paths.shrink_to_fit();
        self.sending.tidy();
        self.events.shrink_to_fit();
        self.notices.shrink_to_fit();
        wire.shrink_to_fit();
        self.shared.outcome = Outcome::default();
    }
}
