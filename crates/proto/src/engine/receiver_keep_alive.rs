//! Receiver keep-alive: a receiver that gets nothing in the middle of a stream tests whether its peer is alive (spec
//! 7.43).
//!
//! A receiver has nothing in flight, so it does not notice that no path works any more. Its peer notices, and waits
//! for a path beyond the idle timeout (spec 7.35), so the receiver must not time out either (RFC 9000, section
//! 10.1.2). Behind a NAT that rebound its port, only the receiver's own packets show the peer the new one.

use std::time::Duration;

use super::Engine;
use super::deadline::Deadlines;
use crate::Instant;
use crate::wire::Wire;

/// The first keep-alive waits for this many probe timeouts, and at least this time: senders pause, too.
const FIRST_TIMEOUTS: u32 = 4;
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// Keep-alives sent so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KeepAlives {
    /// Stream bytes received when the last one was sent.
    after: u64,
    /// Number of keep-alives since these bytes arrived.
    times: u8,
}

impl Engine {
    /// Schedules a keep-alive on all paths if it is due.
    pub(crate) fn receiver_keep_alive_timeout(&mut self, wire: &Wire, now: Instant) {
        let deadlines = Deadlines { engine: self, wire };
        if deadlines.receiver_keep_alive().is_none_or(|at| at > now) {
            return;
        }
        self.clock.keep_alives =
            KeepAlives { after: wire.bytes_received(), times: deadlines.keep_alives_sent() + 1 };
        if !wire.expects_more() {
            return;
        }
        for path in self.paths.iter_mut().filter(|path| path.is_live()) {
            path.schedule_probes(1);
        }
    }
}

impl Deadlines<'_> {
    /// When the next keep-alive is due: soon after the peer fell silent, and after half of the idle timeout; once
    /// each until further stream data arrives.
    pub(super) fn receiver_keep_alive(&self) -> Option<Instant> {
        let idle_at = self.engine.expiry().idle().filter(|_| !self.engine.clock.ack_eliciting_since_heard)?;
        let heard_at = self.engine.clock.last_activity;
        let half = (idle_at - heard_at) / 2;
        match self.keep_alives_sent() {
            0 if self.wire.bytes_received() > 0 => Some(heard_at + self.first_wait().min(half)),
            1 => Some(heard_at + half),
            _ => None,
        }
    }

    fn keep_alives_sent(&self) -> u8 {
        let KeepAlives { after, times } = self.engine.clock.keep_alives;
        if self.wire.bytes_received() > after { 0 } else { times }
    }

    fn first_wait(&self) -> Duration {
        let live = self.engine.paths.iter().filter(|path| path.is_live());
        let timeout = live.map(|path| path.recovery.pto()).max().unwrap_or_default();
        (timeout * FIRST_TIMEOUTS).max(FIRST_WAIT)
    }
}
