//! Receiver keep-alive: a receiver that gets nothing in the middle of a stream tests whether its peer is alive (spec
//! 7.43, 7.54).
//!
//! A receiver has nothing in flight, so it does not notice that no path works any more. Its peer notices, and waits
//! for a path beyond the idle timeout (spec 7.35), so the receiver must not time out either (RFC 9000, section
//! 10.1.2). Behind a NAT that rebound its port, only the receiver's own packets show the peer the new one.

use std::time::Duration;

use crate::Instant;

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

impl KeepAlives {
    /// When the next keep-alive is due: soon after the peer fell silent, and after half of the idle timeout; once each
    /// until further stream data arrives. `received` counts the stream bytes so far; the last packet arrived at
    /// `heard_at`, and `pto` is the longest probe timeout of a live path.
    pub(super) fn deadline(
        &self,
        received: u64,
        (heard_at, idle_at): (Instant, Instant),
        pto: impl FnOnce() -> Duration,
    ) -> Option<Instant> {
        let half = (idle_at - heard_at) / 2;
        match self.sent_since(received) {
            0 if received > 0 => Some(heard_at + (pto() * FIRST_TIMEOUTS).max(FIRST_WAIT).min(half)),
            1 => Some(heard_at + half),
            _ => None,
        }
    }

    /// A keep-alive is sent after so many bytes.
    pub(super) fn on_sent(&mut self, received: u64) {
        *self = Self { after: received, times: self.sent_since(received) + 1 };
    }

    fn sent_since(&self, received: u64) -> u8 {
        if received > self.after { 0 } else { self.times }
    }
}
