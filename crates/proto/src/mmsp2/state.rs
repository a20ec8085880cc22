//! Life cycle of a connection, which changes only here.

use std::time::Duration;

use manyway_wire::mmsp2::CloseStep;

use crate::engine::Phase;
use crate::{ClosedBy, ConnectionError, Instant};

/// Longest time for both sides to flush data written before the close (spec 7.28).
pub(crate) const FLUSH_TIME: Duration = Duration::from_secs(30);
/// How often a step of the close is repeated.
const MAX_TRIES: u32 = 6;
/// Longest wait between two repetitions while packets of the peer arrive.
const LONGEST_REPEAT: Duration = Duration::from_secs(1);

/// The state of a connection.
#[derive(Debug, Clone)]
pub(crate) enum Life {
    /// TLS is not complete.
    Handshaking,
    /// Streams carry data.
    Established,
    /// The application closed; its data is still being delivered.
    Flushing { until: Instant, given: CloseReason },
    /// FIN was sent, FIN-ACK is awaited.
    FinSent { until: Instant, repeat: Repeat, given: CloseReason },
    /// FIN arrived; data of this end is still being delivered.
    PeerClosing { until: Instant, given: CloseReason },
    /// FIN-ACK was sent, FIN-DONE is awaited.
    FinAckSent { until: Instant, repeat: Repeat, given: CloseReason },
    /// The outcome is known and reported; the final CLOSE, if there is one, answers late packets.
    Draining { until: Instant, final_close: Option<FinalClose> },
    /// The connection has ended.
    Closed,
}

/// Why an application closed.
#[derive(Debug, Clone)]
pub(crate) struct CloseReason {
    pub(crate) code: u64,
    pub(crate) reason: String,
}

/// The repetition timer of a CLOSE.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repeat {
    next_at: Instant,
    wait: Duration,
    tries: u32,
}

impl Repeat {
    pub(crate) fn new(now: Instant, wait: Duration) -> Self {
        Self { next_at: now, wait, tries: 0 }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.next_at
    }

    /// How often the CLOSE was sent before, if it is due now; the wait then doubles.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<u32> {
        if self.next_at > now || self.tries >= MAX_TRIES {
            return None;
        }
        self.tries += 1;
        self.next_at = now + self.wait;
        self.wait *= 2;
        Some(self.tries - 1)
    }

    /// The peer is alive but has not answered yet: continues to repeat the CLOSE, with a bounded wait.
    pub(crate) fn on_heard(&mut self) {
        self.tries = 0;
        self.wait = self.wait.min(LONGEST_REPEAT);
    }

    pub(crate) fn is_exhausted(&self, now: Instant) -> bool {
        self.tries >= MAX_TRIES && self.next_at <= now
    }
}

/// A CLOSE to send now.
#[derive(Debug, Clone)]
pub(crate) struct DueClose {
    pub(crate) step: CloseStep,
    pub(crate) code: u64,
    pub(crate) reason: String,
    /// How often it was sent before: each repetition uses another path, because any of them may be dead.
    pub(crate) turn: u32,
}

/// The CLOSE that answers late packets.
#[derive(Debug, Clone)]
pub(crate) struct FinalClose {
    word: DueClose,
    /// Whether it is due now.
    due: bool,
    /// Packets that arrived since; the CLOSE is repeated at 1, 2, 4, 8, …
    heard: u32,
}

impl FinalClose {
    pub(crate) fn new(step: CloseStep, code: u64, reason: String) -> Self {
        Self { word: DueClose { step, code, reason, turn: 0 }, due: true, heard: 0 }
    }

    pub(crate) fn take_due(&mut self) -> Option<DueClose> {
        if !std::mem::take(&mut self.due) {
            return None;
        }
        let word = self.word.clone();
        self.word.turn += 1;
        Some(word)
    }

    pub(crate) fn on_packet(&mut self) {
        self.heard = self.heard.saturating_add(1);
        self.due |= self.heard.is_power_of_two();
    }
}

impl Life {
    /// The phase of the connection, for parts that need no more.
    pub(crate) fn phase(&self) -> Phase {
        match self {
            Self::Handshaking => Phase::Handshaking,
            Self::Established => Phase::Established,
            Self::Flushing { .. }
            | Self::FinSent { .. }
            | Self::PeerClosing { .. }
            | Self::FinAckSent { .. } => Phase::Closing,
            Self::Draining { .. } => Phase::Draining,
            Self::Closed => Phase::Closed,
        }
    }

    /// This host slept until now: a close in progress restarts its timers and is repeated at once. `wait` is the time
    /// for an answer, `drain` that for packets in flight.
    pub(crate) fn on_wake(&mut self, now: Instant, wait: Duration, drain: Duration) {
        match self {
            Self::Handshaking | Self::Established | Self::Closed => {}
            Self::Flushing { until, .. } | Self::PeerClosing { until, .. } => *until = now + FLUSH_TIME,
            Self::FinSent { until, repeat, .. } | Self::FinAckSent { until, repeat, .. } => {
                (*until, *repeat) = (now + FLUSH_TIME, Repeat::new(now, wait));
            }
            Self::Draining { until, .. } => *until = now + drain,
        }
    }

    /// When the close advances by itself.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Handshaking | Self::Established | Self::Closed => None,
            Self::Flushing { until, .. } | Self::PeerClosing { until, .. } | Self::Draining { until, .. } => {
                Some(*until)
            }
            Self::FinSent { until, repeat, .. } | Self::FinAckSent { until, repeat, .. } => {
                Some(repeat.deadline().min(*until))
            }
        }
    }
}

impl CloseReason {
    pub(crate) fn into_error(self, by: ClosedBy) -> ConnectionError {
        ConnectionError::Closed { by, code: self.code, reason: self.reason }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{FinalClose, MAX_TRIES, Repeat};
    use crate::Instant;

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
    fn the_final_close_is_repeated_ever_more_rarely() {
        let step = manyway_wire::mmsp2::CloseStep::FinDone;
        let mut word = FinalClose::new(step, 0, String::new());
        assert_eq!(word.take_due().map(|due| due.turn), Some(0));
        let mut said = Vec::new();
        for packet in 1..=1000 {
            word.on_packet();
            if word.take_due().is_some() {
                said.push(packet);
            }
        }
        assert_eq!(said, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
    }
}
