//! The close (spec 3.60 to 3.68; figure 3.17 of the thesis), as a machine that runs by a table.

use std::fmt;
use std::time::Duration;

use manyway_wire::mmsp1::ErrorCode;

use super::errors::OwnedCause;
use super::table::{Transition, find};
use crate::Instant;
use crate::repeat::Repeat;

/// Longest time for both ends to send what waited.
pub(crate) const FLUSH_TIME: Duration = Duration::from_secs(30);

/// The states of figure 3.17.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseState {
    Established,
    /// The application closed; its data are on their way.
    FinPending,
    FinSent,
    /// FIN came; data of this end are on their way.
    FinReceived,
    FinAckSent,
    Closed,
}

/// What happens during a close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseEvent {
    /// The application closes.
    Close,
    /// All DATA of this end are acknowledged, and none wait.
    Flushed,
    Fin,
    FinAck,
    FinDone,
    /// Any other packet of the peer.
    Heard,
    /// An answer is overdue, and another packet may go.
    Timer,
    /// An answer to the last packet is overdue.
    LastTimer,
    /// [`FLUSH_TIME`] is over.
    FlushTimeout,
    Rst,
    /// The application, or a violation of the peer, ends the connection at once.
    Abort,
}

/// What the endpoint does about an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseAction {
    StopWrites,
    PeerCloses,
    SendFin,
    RepeatFin,
    RestartCount,
    SendFinAck,
    RepeatFinAck,
    AnswerFin,
    SendFinDone,
    AnswerFinAck,
    Complete,
    Assume,
    GiveUp,
    SendRst,
    Abort,
    Report,
}

type Row = Transition<CloseState, CloseEvent, CloseAction>;

/// All transitions; whatever has no row is ignored. The row from CLOSED is that of the tombstone, which the endpoint keeps.
pub(crate) static TABLE: [Row; 18] = {
    use CloseAction as Action;
    use CloseEvent as Event;
    use CloseState::{Closed, Established, FinAckSent, FinPending, FinReceived, FinSent};
    const FIN_SENT: &[CloseState] = &[FinSent];
    const FIN_ACK_SENT: &[CloseState] = &[FinAckSent];
    const LIVE: &[CloseState] = &[Established, FinPending, FinSent, FinReceived, FinAckSent];
    [
        row(&[Established], Event::Close, Action::StopWrites, FinPending),
        row(&[FinPending], Event::Flushed, Action::SendFin, FinSent),
        row(&[Established, FinPending], Event::Fin, Action::PeerCloses, FinReceived),
        row(&[FinReceived], Event::Flushed, Action::SendFinAck, FinAckSent),
        row(FIN_SENT, Event::Heard, Action::RestartCount, FinSent),
        row(FIN_SENT, Event::Timer, Action::RepeatFin, FinSent),
        row(FIN_SENT, Event::Fin, Action::SendFinAck, FinAckSent),
        row(&[FinSent, FinAckSent], Event::FinAck, Action::SendFinDone, Closed),
        row(FIN_ACK_SENT, Event::Timer, Action::RepeatFinAck, FinAckSent),
        row(FIN_ACK_SENT, Event::Fin, Action::AnswerFin, FinAckSent),
        row(FIN_ACK_SENT, Event::FinDone, Action::Complete, Closed),
        row(FIN_SENT, Event::LastTimer, Action::GiveUp, Closed),
        row(FIN_ACK_SENT, Event::LastTimer, Action::Assume, Closed),
        row(&[FinPending, FinReceived, FinSent], Event::FlushTimeout, Action::SendRst, Closed),
        row(LIVE, Event::Abort, Action::Abort, Closed),
        row(&[Established, FinPending, FinSent, FinReceived], Event::Rst, Action::Report, Closed),
        row(FIN_ACK_SENT, Event::Rst, Action::Assume, Closed),
        row(&[Closed], Event::FinAck, Action::AnswerFinAck, Closed),
    ]
};

const fn row(from: &'static [CloseState], event: CloseEvent, action: CloseAction, to: CloseState) -> Row {
    Transition { from, event, action, to }
}

/// What an event did to the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// It goes on, or had ended before.
    No,
    /// The application writes nothing more; what waits is sent.
    Flushing,
    /// The same, because the peer closes: the application is told.
    ByPeer,
    /// It has ended.
    Ended(CloseEnd),
}

/// How a connection ended. The caller sends what [`Closing::take_due`] still has, and leaves a tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseEnd {
    /// FIN-ACK came: FIN-DONE answers it, to where it came from.
    Answered,
    /// FIN-DONE came; or it did not, and all data of both directions are acknowledged.
    Complete,
    /// Nothing answered FIN.
    NoAnswer,
    /// What waited was not acknowledged in time.
    NotFlushed,
    /// RST came.
    Reset,
    /// This end sends RST.
    Aborted,
}

/// A packet of the close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClosePacket {
    /// FIN with the last TSEQ in sequence of this moment.
    Fin,
    FinAck,
    Rst(OwnedCause),
}

/// The end of one connection.
#[derive(Debug)]
pub(crate) struct Closing {
    state: CloseState,
    repeat: Option<Repeat>,
    until: Option<Instant>,
    /// Packets of the close so far: each goes on the next path, because any of them may be dead.
    turn: u32,
    /// Whether FIN was sent: otherwise FIN-ACK answers nothing (spec 3.66).
    sent_fin: bool,
    /// Whether a repeated FIN waits for its FIN-ACK.
    answer: bool,
    reset: Option<OwnedCause>,
}

impl Default for Closing {
    fn default() -> Self {
        Self {
            state: CloseState::Established,
            repeat: None,
            until: None,
            turn: 0,
            sent_fin: false,
            answer: false,
            reset: None,
        }
    }
}

impl Closing {
    pub(crate) fn state(&self) -> CloseState {
        self.state
    }

    /// Any event but those of timers and [`CloseEvent::Abort`]; `wait` is how long an answer may take.
    pub(crate) fn on(&mut self, now: Instant, wait: Duration, event: CloseEvent) -> Closed {
        if event == CloseEvent::FinAck && !self.sent_fin {
            return Closed::No;
        }
        self.step(now, wait, event)
    }

    /// Ends the connection at once by RST with this cause.
    pub(crate) fn abort(&mut self, now: Instant, cause: OwnedCause) -> Closed {
        let closed = self.step(now, Duration::ZERO, CloseEvent::Abort);
        if closed != Closed::No {
            self.reset = Some(cause);
        }
        closed
    }

    /// The connection ends without a further packet, for a reason that is not one of the close.
    pub(crate) fn give_up(&mut self) {
        *self = Self { state: CloseState::Closed, turn: self.turn, ..Self::default() };
    }

    /// The deadline has come.
    pub(crate) fn on_timeout(&mut self, now: Instant) -> Closed {
        if self.repeat.is_some_and(|repeat| repeat.is_exhausted(now)) {
            return self.step(now, Duration::ZERO, CloseEvent::LastTimer);
        }
        if self.until.is_some_and(|until| until <= now) {
            return self.step(now, Duration::ZERO, CloseEvent::FlushTimeout);
        }
        Closed::No
    }

    /// The host slept until now: timers start again.
    pub(crate) fn on_wake(&mut self, now: Instant, wait: Duration) {
        self.until = self.until.map(|_| now + FLUSH_TIME);
        self.repeat = self.repeat.map(|_| Repeat::new(now, wait));
    }

    fn step(&mut self, now: Instant, wait: Duration, event: CloseEvent) -> Closed {
        let Some(row) = find(&TABLE, self.state, event) else { return Closed::No };
        self.state = row.to;
        match row.action {
            CloseAction::StopWrites | CloseAction::PeerCloses => self.until = Some(now + FLUSH_TIME),
            CloseAction::SendFin => {
                self.sent_fin = true;
                // The peer may flush for as long, and keeps the count of repetitions from ending.
                self.until = Some(now + FLUSH_TIME);
                self.repeat = Some(Repeat::new(now, wait));
            }
            CloseAction::SendFinAck => {
                self.until = None;
                self.repeat = Some(Repeat::new(now, wait));
            }
            CloseAction::RestartCount => {
                if let Some(repeat) = &mut self.repeat {
                    repeat.on_heard(now);
                }
            }
            CloseAction::AnswerFin => self.answer = true,
            CloseAction::SendRst => {
                self.reset =
                    Some(OwnedCause::new(ErrorCode::UNRECOGNISED_ERROR, b"closed, data not acknowledged"));
            }
            // The caller's, and `take_due` repeats.
            CloseAction::RepeatFin
            | CloseAction::RepeatFinAck
            | CloseAction::SendFinDone
            | CloseAction::AnswerFinAck
            | CloseAction::Complete
            | CloseAction::Assume
            | CloseAction::GiveUp
            | CloseAction::Abort
            | CloseAction::Report => {}
        }
        if self.state == CloseState::Closed {
            (self.until, self.repeat, self.answer) = (None, None, false);
        }
        row.action.closed()
    }

    /// The packet that is due, and how many packets of the close went before it.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<(ClosePacket, u32)> {
        let packet = self.next_due(now)?;
        let turn = self.turn;
        self.turn = self.turn.wrapping_add(1);
        Some((packet, turn))
    }

    fn next_due(&mut self, now: Instant) -> Option<ClosePacket> {
        if let Some(cause) = self.reset.take() {
            return Some(ClosePacket::Rst(cause));
        }
        if std::mem::take(&mut self.answer) {
            return Some(ClosePacket::FinAck);
        }
        let before = self.repeat.as_mut()?.take_due(now)?;
        if before > 0 {
            self.step(now, Duration::ZERO, CloseEvent::Timer);
        }
        match self.state {
            CloseState::FinSent => Some(ClosePacket::Fin),
            CloseState::FinAckSent => Some(ClosePacket::FinAck),
            CloseState::Established
            | CloseState::FinPending
            | CloseState::FinReceived
            | CloseState::Closed => None,
        }
    }

    /// When [`Self::take_due`] or [`Self::on_timeout`] has something to do, beside what was due before.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.repeat.map(|repeat| repeat.deadline()).into_iter().chain(self.until).min()
    }
}

impl CloseAction {
    fn closed(self) -> Closed {
        match self {
            Self::StopWrites => Closed::Flushing,
            Self::PeerCloses => Closed::ByPeer,
            Self::SendFinDone => Closed::Ended(CloseEnd::Answered),
            Self::Complete | Self::Assume => Closed::Ended(CloseEnd::Complete),
            Self::GiveUp => Closed::Ended(CloseEnd::NoAnswer),
            Self::SendRst => Closed::Ended(CloseEnd::NotFlushed),
            Self::Report => Closed::Ended(CloseEnd::Reset),
            Self::Abort => Closed::Ended(CloseEnd::Aborted),
            Self::SendFin
            | Self::RepeatFin
            | Self::RestartCount
            | Self::SendFinAck
            | Self::RepeatFinAck
            | Self::AnswerFin
            | Self::AnswerFinAck => Closed::No,
        }
    }
}

impl fmt::Display for CloseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Established => "ESTABLISHED",
            Self::FinPending => "FIN-PENDING",
            Self::FinSent => "FIN-SENT",
            Self::FinReceived => "FIN-RECEIVED",
            Self::FinAckSent => "FIN-ACK-SENT",
            Self::Closed => "CLOSED",
        })
    }
}

impl fmt::Display for CloseEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Close => "application closes",
            Self::Flushed => "all DATA acknowledged",
            Self::Fin => "FIN",
            Self::FinAck => "FIN-ACK",
            Self::FinDone => "FIN-DONE",
            Self::Heard => "another packet",
            Self::Timer => "timer",
            Self::LastTimer => "sixth timer",
            Self::FlushTimeout => "30 s over",
            Self::Rst => "RST",
            Self::Abort => "abort",
        })
    }
}

impl fmt::Display for CloseAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StopWrites => "take no more messages",
            Self::PeerCloses => "take no more messages, tell the application",
            Self::SendFin => "send FIN, start Close timer",
            Self::RepeatFin => "send FIN on the next path",
            Self::RestartCount => "restart the count of timers",
            Self::SendFinAck => "send FIN-ACK, start Close timer",
            Self::RepeatFinAck => "send FIN-ACK on the next path",
            Self::AnswerFin => "send FIN-ACK",
            Self::SendFinDone => "stop Close timer, send FIN-DONE, keep tombstone",
            Self::AnswerFinAck => "send FIN-DONE while the tombstone lasts",
            Self::Complete => "stop Close timer",
            Self::Assume => "end as complete",
            Self::GiveUp => "give up",
            Self::SendRst => "send RST 0x000A",
            Self::Abort => "send RST",
            Self::Report => "tell the application",
        })
    }
}

#[cfg(test)]
#[path = "closing/tests.rs"]
mod tests;
