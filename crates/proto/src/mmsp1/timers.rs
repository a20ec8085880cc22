//! Timers of MMSP/1 itself: its handshake, its close, SACK, and PROBE.

use super::Mmsp1;
use super::closing::Closed;
use super::handshake::Moved;
use crate::Instant;
use crate::engine::Engine;
use crate::time::Earliest;

impl Mmsp1 {
    /// When [`Self::on_timeout`] has to be called next.
    pub(crate) fn deadline(&self, engine: &Engine) -> Option<Instant> {
        if !engine.phase.is_open() {
            return None;
        }
        let mut earliest = Earliest::default();
        earliest.take(self.closing.deadline());
        if engine.phase.is_handshaking() {
            earliest.take(self.handshake.deadline());
            return earliest.get();
        }
        earliest.take(self.sacks.deadline().filter(|_| self.sack_carrier(engine).is_some()));
        earliest.take(self.monitor.deadline());
        earliest.get()
    }

    /// Does the work that is due at `now`; a call before the deadline does no harm.
    pub(crate) fn on_timeout(&mut self, engine: &mut Engine, now: Instant) {
        self.drive_close(engine, now);
        if !engine.phase.is_open() {
            return;
        }
        if let Some(error) = engine.expiry().reason(now) {
            return self.give_up(engine, now, error);
        }
        let moved = self.handshake.on_timeout(now);
        if moved != Moved::No {
            return self.on_handshake_moved(engine, now, moved);
        }
        let closed = self.closing.on_timeout(now);
        if closed != Closed::No {
            self.on_closed(engine, now, closed);
        }
    }

    /// This host slept until now: repeats the packets of a handshake or close in progress, and probes all paths.
    pub(crate) fn on_wake(&mut self, engine: &Engine, now: Instant) {
        self.handshake.on_wake(now);
        self.closing.on_wake(now, engine.paths.longest_pto());
        self.monitor.on_wake(now);
    }
}
