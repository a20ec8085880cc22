//! A host that slept, or a program that was stopped, goes on (spec 6.40).

use super::{Connection, Initiator};
use crate::Instant;
use crate::protection::Level;

impl Connection {
    /// This host slept, or the program stood still, until now: asks all paths at once, says again what belongs to a
    /// set-up or an end under way, and counts the times for all of these, for idleness and for the silence of paths from
    /// now on. To be called before anything else that has to do with time (spec 6.40).
    pub fn on_wake(&mut self, now: Instant) {
        let (wait, drain) = (self.longest_pto(), self.drain_time());
        self.life.on_wake(now, wait, drain);
        self.clock.last_activity = now;
        self.clock.pathless_since = self.clock.pathless_since.map(|_| now);
        self.persist.on_wake(now);
        self.wake_setup(now);
        for path in self.paths.iter_mut() {
            path.on_heard(now);
            path.silence.on_pause();
            path.space.recovery.on_wake(now);
            path.prober.hurry(now);
            if path.is_live() {
                path.schedule_probes(1);
            }
        }
    }

    /// A client says again what was not answered: what came meanwhile to a host that slept is lost. The server waits for
    /// that.
    fn wake_setup(&mut self, now: Instant) {
        self.clock.set_up_since = now;
        let Some(setup) = &mut self.setup else { return };
        for level in [Level::Open, Level::SetUp] {
            let space = if level == Level::Open { &mut setup.open } else { &mut setup.set_up };
            space.recovery.on_wake(now);
            let waits = space.recovery.packets_in_flight() > 0 && self.protector.has(level);
            if self.side == Initiator::Client && waits {
                setup.say_again(level);
            }
        }
    }
}
