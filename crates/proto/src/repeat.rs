//! Timers of packets that are sent again until the peer answers: the steps of a set-up and of a close.

use std::time::Duration;

use crate::Instant;

/// How many packets are sent in all.
pub(crate) const MAX_TRIES: u32 = 6;
/// Longest wait between two repetitions while packets of the peer arrive.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The timer of a packet that is repeated with doubled waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repeat {
    next_at: Instant,
    wait: Duration,
    tries: u32,
}

impl Repeat {
    /// The first packet is due now, the second after `wait`.
    pub(crate) fn new(now: Instant, wait: Duration) -> Self {
        Self { next_at: now, wait, tries: 0 }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.next_at
    }

    /// How often the packet was sent before, if it is due now; the wait then doubles.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<u32> {
        if self.next_at > now || self.tries >= MAX_TRIES {
            return None;
        }
        self.tries += 1;
        self.next_at = now + self.wait;
        self.wait *= 2;
        Some(self.tries - 1)
    }

    /// The peer is alive but has not answered yet: continues to repeat, with a bounded wait from now on.
    pub(crate) fn on_heard(&mut self, now: Instant) {
        self.tries = 0;
        self.wait = self.wait.min(LONGEST_WAIT);
        self.next_at = self.next_at.min(now + self.wait);
    }

    /// Makes the next packet due now. Those that were sent count as before, so that a peer cannot cause more of them.
    pub(crate) fn expedite(&mut self, now: Instant) {
        self.next_at = self.next_at.min(now);
    }

    pub(crate) fn is_exhausted(&self, now: Instant) -> bool {
        self.tries >= MAX_TRIES && self.next_at <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_repeated_with_doubled_waits_until_it_is_given_up() {
        let mut now = Instant::from_nanos(5);
        let mut repeat = Repeat::new(now, Duration::from_millis(100));
        let mut waits = Vec::new();
        while !repeat.is_exhausted(now) {
            assert_eq!(repeat.take_due(now), u32::try_from(waits.len()).ok());
            assert_eq!(repeat.take_due(now), None);
            assert!(repeat.deadline() > now, "a deadline in the past would keep the driver busy");
            waits.push((repeat.deadline() - now).as_millis());
            now = repeat.deadline();
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200]);
        assert_eq!(waits.len(), MAX_TRIES as usize);
        assert_eq!(repeat.take_due(now), None);
    }

    #[test]
    fn a_hurried_packet_is_one_of_the_six() {
        let mut now = Instant::from_nanos(5);
        let mut repeat = Repeat::new(now, Duration::from_secs(1));
        let mut sent = 0;
        for _ in 0..100 {
            repeat.expedite(now);
            sent += u32::from(repeat.take_due(now).is_some());
            now += Duration::from_millis(1);
        }
        assert_eq!(sent, MAX_TRIES);
        assert!(repeat.is_exhausted(now));
    }
}
