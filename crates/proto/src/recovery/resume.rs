//! Restores a path with care from its saved figures (RFC 9959, Careful Resume).

use std::time::Duration;

use crate::{ByteCount, Instant};

/// After a longer outage the saved figures no longer count.
const OUTAGE_MAX: Duration = Duration::from_secs(10);

/// The figures of a path before it failed.
#[derive(Debug, Clone, Copy)]
struct Saved {
    at: Instant,
    window: ByteCount,
    minimum_rtt: Duration,
}

/// The saved figures of a failed path, and the first flight after its return.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Resume {
    saved: Option<Saved>,
    trial: Option<Trial>,
}

/// The flight that tests a resumed window.
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// The first packet of the flight.
    start: u64,
    /// The first packet after the flight; known with the first arrival.
    end: Option<u64>,
}

impl Resume {
    /// Saves the figures of a failing path. Older figures stay if nothing has arrived since.
    pub(crate) fn save(
        &mut self,
        now: Instant,
        last_progress: Option<Instant>,
        window: ByteCount,
        minimum_rtt: Duration,
    ) {
        if self.saved.is_none_or(|saved| last_progress.is_some_and(|progress| progress > saved.at)) {
            self.saved = Some(Saved { at: now, window, minimum_rtt });
        }
    }

    /// The window to restart with, if the outage was short and the round trip is unchanged (within a quarter).
    ///
    /// `rtt` is that of the path challenge which showed that the path works; `None` if it was answered on other
    /// addresses.
    pub(crate) fn take_window(&mut self, now: Instant, rtt: Option<Duration>) -> Option<ByteCount> {
        let (saved, rtt) = self.saved.take().zip(rtt)?;
        let is_similar = rtt.abs_diff(saved.minimum_rtt) <= saved.minimum_rtt / 4;
        (is_similar && now - saved.at < OUTAGE_MAX).then(|| saved.window / 2)
    }

    /// A resumed window is on trial from packet `start` on.
    pub(crate) fn begin_trial(&mut self, start: u64) {
        self.trial = Some(Trial { start, end: None });
    }

    /// Whether a resumed window is on trial: its flight is spread over a round trip.
    pub(crate) fn is_on_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// Packets up to `largest_acked` arrived.
    pub(crate) fn on_ack(&mut self, largest_acked: u64, next: u64) {
        let Some(trial) = &mut self.trial else { return };
        if largest_acked >= trial.start && largest_acked >= *trial.end.get_or_insert(next) {
            self.trial = None;
        }
    }

    /// A packet was lost. Returns whether that ends the trial: the resumed window was too large.
    pub(crate) fn on_lost(&mut self, packet_number: u64) -> bool {
        self.trial.take_if(|trial| packet_number >= trial.start).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    const RTT: Duration = Duration::from_millis(40);

    fn saved() -> Resume {
        let mut resume = Resume::default();
        resume.save(at(1000), Some(at(900)), ByteCount(80_000), RTT);
        // Saved again without an arrival in between: the first figures stay.
        resume.save(at(2000), Some(at(900)), ByteCount(10), RTT);
        resume
    }

    #[test]
    fn half_the_window_is_restored_after_a_short_outage_with_the_same_round_trip() {
        assert_eq!(saved().take_window(at(5000), Some(RTT * 5 / 4)), Some(ByteCount(40_000)));
        assert_eq!(saved().take_window(at(5000), Some(RTT * 3 / 2)), None);
        assert_eq!(saved().take_window(at(11_000), Some(RTT)), None);
        let mut elsewhere = saved();
        assert_eq!(elsewhere.take_window(at(5000), None), None);
        assert_eq!(elsewhere.take_window(at(5000), Some(RTT)), None);
    }

    #[test]
    fn the_trial_ends_with_its_first_loss_or_with_its_last_packet() {
        let mut resume = Resume::default();
        resume.begin_trial(10);
        resume.on_ack(9, 12);
        assert!(!resume.on_lost(9) && resume.is_on_trial());
        resume.on_ack(10, 30);
        resume.on_ack(29, 40);
        assert!(resume.is_on_trial());
        let mut other = resume;
        assert!(other.on_lost(12) && !other.is_on_trial());
        resume.on_ack(30, 40);
        assert!(!resume.is_on_trial());
    }
}
