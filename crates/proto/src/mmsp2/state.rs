//! Life cycle of a connection, which changes only here.

use std::time::Duration;

use manyway_wire::mmsp2::CloseStep;

use crate::engine::Phase;
use crate::repeat::Repeat;
use crate::{ClosedBy, ConnectionError, Instant};

/// Longest time for both sides to flush data written before the close (spec 7.28).
pub(crate) const FLUSH_TIME: Duration = Duration::from_secs(30);

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
    Draining { until: Instant, final_close: Option<Box<FinalClose>> },
    /// The connection has ended.
    Closed,
}

/// Why an application closed.
#[derive(Debug, Clone)]
pub(crate) struct CloseReason {
    pub(crate) code: u64,
    pub(crate) reason: String,
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
    close: DueClose,
    /// Whether it is due now.
    due: bool,
    /// Packets that arrived since; the CLOSE is repeated at 1, 2, 4, 8, …
    heard: u32,
}

impl FinalClose {
    pub(crate) fn new(step: CloseStep, code: u64, reason: String) -> Self {
        Self { close: DueClose { step, code, reason, turn: 0 }, due: true, heard: 0 }
    }

    pub(crate) fn take_due(&mut self) -> Option<DueClose> {
        if !std::mem::take(&mut self.due) {
            return None;
        }
        let close = self.close.clone();
        self.close.turn += 1;
        Some(close)
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
    use super::FinalClose;

    #[test]
    fn the_final_close_is_repeated_ever_more_rarely() {
        let step = manyway_wire::mmsp2::CloseStep::FinDone;
        let mut close = FinalClose::new(step, 0, String::new());
        assert_eq!(close.take_due().map(|due| due.turn), Some(0));
        let mut said = Vec::new();
        for packet in 1..=1000 {
            close.on_packet();
            if close.take_due().is_some() {
                said.push(packet);
            }
        }
        assert_eq!(said, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
    }
}
