//! A receiver that hears nothing in the middle of a stream asks whether its peer is still there (spec 7.43).
//!
//! It has nothing in flight, so it does not notice that no path works; its peer, which does, waits for one beyond the idle
//! time (spec 7.35), and has to be waited for as well (RFC 9000, section 10.1.2).

use super::Connection;
use crate::Instant;

impl Connection {
    /// Half of the idle time after the peer was heard last, once for all bytes of streams that came before.
    pub(super) fn still_there_deadline(&self) -> Option<Instant> {
        let is_news = self.streams.received() > self.clock.asked_after;
        let waits = is_news && !self.clock.asked_since_heard;
        let idle_at = self.idle_deadline().filter(|_| waits)?;
        Some(self.clock.last_activity + (idle_at - self.clock.last_activity) / 2)
    }

    /// Asks on all paths if it is time.
    pub(super) fn ask_still_there(&mut self, now: Instant) {
        if self.still_there_deadline().is_none_or(|at| at > now) {
            return;
        }
        self.clock.asked_after = self.streams.received();
        if !self.streams.expects_more() {
            return;
        }
        for path in self.paths.iter_mut().filter(|path| path.is_live()) {
            path.probes_due = path.probes_due.max(1);
        }
    }
}
