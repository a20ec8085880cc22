//! Memory goes back when a connection rests: most connections of a busy server do nothing most of the time.

use std::time::Duration;

use super::Connection;
use crate::Instant;
use crate::recovery::Outcome;

/// After so long without a packet a connection rests.
const REST: Duration = Duration::from_secs(1);

impl Connection {
    /// A packet came or went: there may be something to give back once it is quiet.
    pub(super) fn note_stir(&mut self, now: Instant) {
        self.clock.stirred_at = now;
        if self.clock.tidy_at.is_none() {
            self.clock.tidy_at = Some(now + REST);
        }
    }

    /// Gives back what is reserved for packets and blocks on their way, if there were none for a while.
    pub(super) fn tidy(&mut self, now: Instant) {
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
        self.ids.local.shrink_to_fit();
        self.ids.remote.shrink_to_fit();
        self.control.shrink_to_fit();
        self.sending.tidy();
        self.streams.shrink_to_fit();
        self.events.shrink_to_fit();
        self.shared.outcome = Outcome::default();
    }
}
