//! Moderation of wake-ups: while packets come at a steady rate, the driver waits a moment for more of them.
//!
//! A turn for each packet costs a multiple of what the packet itself costs: system calls, a switch of threads, another
//! one to the application. As network cards moderate their interrupts, turns that follow each other closely are kept
//! apart. What waits meanwhile waits for a small part of a round trip.

use std::time::Duration;

use manyway_proto::{ConnectionHandle, Endpoint};
use tokio::time::Instant;

/// Turns begin at most this close to each other.
const LONGEST: Duration = Duration::from_millis(1);
/// A shorter wait costs more than it spares.
const SHORTEST: Duration = Duration::from_micros(150);
/// Part of the shortest round trip that packets may wait.
const PART: u32 = 16;
/// A turn that moved more bytes handled several packets at once, so a wait would save little. It would cost more: the
/// times of sending and arrival would all be those of turns, and the delivery rate would be measured too low.
const MOST_BYTES: usize = 8 * 1024;
/// Time between two looks at the round trips.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// When the next turn may begin.
#[derive(Debug, Default)]
pub(super) struct Moderation {
    began: Option<Instant>,
    /// Bytes of datagrams received and sent in this turn.
    moved: usize,
    spacing: Duration,
    looked_at: Option<Instant>,
}

impl Moderation {
    /// How long to wait before a turn that could begin now.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        let began = self.began.filter(|_| self.moved <= MOST_BYTES && self.spacing >= SHORTEST)?;
        let wait = (began + self.spacing).saturating_duration_since(now);
        // One packet after a pause is answered at once: only what follows closely waits.
        (wait >= SHORTEST).then_some(wait)
    }

    /// A turn begins.
    pub(super) fn begin(&mut self, now: Instant) {
        self.began = Some(now);
        self.moved = 0;
    }

    /// Bytes of datagrams were received or sent.
    pub(super) fn on_moved(&mut self, bytes: usize) {
        self.moved = self.moved.saturating_add(bytes);
    }

    /// Looks, now and then, at the round trips of the connections.
    pub(super) fn look_at(
        &mut self,
        now: Instant,
        endpoint: &Endpoint,
        connections: impl Iterator<Item = ConnectionHandle>,
    ) {
        if self.looked_at.is_some_and(|at| now < at + LOOK_AGAIN) {
            return;
        }
        self.looked_at = Some(now);
        // A connection that has not measured one may be a near one.
        let shortest = connections.map(|handle| endpoint.peek(handle)?.shortest_rtt()).min().flatten();
        self.spacing = shortest.map_or(Duration::ZERO, |shortest| (shortest / PART).min(LONGEST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spaced(spacing: Duration) -> Moderation {
        Moderation { spacing, ..Moderation::default() }
    }

    #[test]
    fn turns_that_follow_closely_are_kept_apart_and_one_after_a_pause_begins_at_once() {
        let (start, mut moderation) = (Instant::now(), spaced(LONGEST));
        assert_eq!(moderation.wait(start), None);
        moderation.begin(start);
        moderation.on_moved(1500);
        assert_eq!(moderation.wait(start + LONGEST / 4), Some(LONGEST * 3 / 4));
        assert_eq!(moderation.wait(start + LONGEST), None);
        assert_eq!(moderation.wait(start + LONGEST - SHORTEST / 2), None);
    }

    #[test]
    fn nothing_waits_where_the_round_trip_is_short_or_much_is_moved() {
        let start = Instant::now();
        let mut short = spaced(SHORTEST / 2);
        short.begin(start);
        assert_eq!(short.wait(start), None);
        let mut busy = spaced(LONGEST);
        busy.begin(start);
        busy.on_moved(MOST_BYTES + 1);
        assert_eq!(busy.wait(start), None);
        busy.begin(start);
        assert_eq!(busy.wait(start), Some(LONGEST));
    }
}
