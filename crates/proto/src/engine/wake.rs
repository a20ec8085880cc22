//! Wake-up of a host that slept, or of a program that was stopped (spec 6.40).

use super::Engine;
use crate::Instant;

impl Engine {
    /// This host slept until now: challenges all paths at once, and restarts the timers of idleness and silence.
    pub(crate) fn on_wake(&mut self, now: Instant) {
        self.clock.handshake_started = now;
        self.clock.last_activity = now;
        self.clock.pathless_since = self.clock.pathless_since.map(|_| now);
        self.persist.on_wake(now);
        for path in self.paths.iter_mut() {
            path.on_heard(now);
            path.silence.on_pause();
            path.recovery.on_wake(now);
            path.challenger.expedite(now);
            if path.is_live() {
                path.schedule_pto_probes(1);
            }
        }
    }
}
