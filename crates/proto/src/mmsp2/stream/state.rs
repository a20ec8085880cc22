//! States of the two halves of a stream, as transition tables (RFC 9000, section 3).
//!
//! ```text
//! sending:    Open --Finish--> Finishing --AllAcked--> Finished
//!               \________________/ Reset --> Resetting --ResetAcked--> ResetDone
//!
//! receiving:  Receiving --SizeKnown--> Ending --AllArrived--> Complete --ReadToEnd--> Read
//!               \___________________________/ Reset --> Reset --Told--> ResetTold
//!             Stop leads from Receiving to Stopped until the final size is known, then to Discarded, and from all
//!             others to Discarded.
//! ```

/// State of a sending half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendState {
    /// The application may write.
    Open,
    /// All is written, not all is acknowledged.
    Finishing,
    /// The peer has everything.
    Finished,
    /// Abandoned; the peer may not know yet.
    Resetting {
        /// The application's code.
        code: u64,
    },
    /// Abandoned, and the peer knows.
    ResetDone,
}

/// Events of a sending half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendEvent {
    /// The application has written all its data.
    Finish,
    /// All bytes and the FIN are acknowledged.
    AllAcked,
    /// One of the ends abandons it.
    Reset {
        /// The code.
        code: u64,
    },
    /// RESET-STREAM was acknowledged.
    ResetAcked,
}

impl SendState {
    /// The state after `event`; `None` if the event is impossible here.
    pub(crate) fn after(self, event: SendEvent) -> Option<Self> {
        match (self, event) {
            (Self::Open, SendEvent::Finish) => Some(Self::Finishing),
            (Self::Finishing, SendEvent::AllAcked) => Some(Self::Finished),
            (Self::Open | Self::Finishing, SendEvent::Reset { code }) => Some(Self::Resetting { code }),
            (Self::Resetting { .. }, SendEvent::ResetAcked) => Some(Self::ResetDone),
            (Self::Open | Self::Resetting { .. } | Self::Finished | Self::ResetDone, _)
            | (Self::Finishing, SendEvent::Finish | SendEvent::ResetAcked) => None,
        }
    }

    /// Whether the state is final.
    pub(crate) fn is_over(self) -> bool {
        match self {
            Self::Finished | Self::ResetDone => true,
            Self::Open | Self::Finishing | Self::Resetting { .. } => false,
        }
    }
}

/// State of a receiving half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReceiveState {
    /// Bytes arrive, the end is not known.
    Receiving,
    /// The end is known, bytes before it are missing.
    Ending,
    /// All bytes have arrived, not all are read.
    Complete,
    /// The application has read the end.
    Read,
    /// The peer abandoned it, the application does not know yet.
    Reset {
        /// The peer's code.
        code: u64,
    },
    /// The application has read the code.
    ResetTold,
    /// The application stopped it; further bytes are counted and dropped until the final size is known.
    Stopped {
        /// The application's code.
        code: u64,
    },
    /// The application stopped it, and the final size is known.
    Discarded,
}

/// Events of a receiving half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReceiveEvent {
    /// The end is known.
    SizeKnown,
    /// The last missing byte before the end arrived.
    AllArrived,
    /// The application has read the end.
    ReadToEnd,
    /// RESET-STREAM arrived.
    Reset {
        /// The peer's code.
        code: u64,
    },
    /// The application has read the code of the reset.
    Told,
    /// The application stops it.
    Stop {
        /// Its code.
        code: u64,
    },
}

impl ReceiveState {
    /// The state after `event`; `None` if the event is impossible here.
    pub(crate) fn after(self, event: ReceiveEvent) -> Option<Self> {
        match (self, event) {
            (Self::Receiving, ReceiveEvent::SizeKnown) => Some(Self::Ending),
            (Self::Receiving | Self::Ending, ReceiveEvent::AllArrived) => Some(Self::Complete),
            (Self::Complete, ReceiveEvent::ReadToEnd) => Some(Self::Read),
            (Self::Receiving | Self::Ending, ReceiveEvent::Reset { code }) => Some(Self::Reset { code }),
            (Self::Reset { .. }, ReceiveEvent::Told) => Some(Self::ResetTold),
            (Self::Receiving, ReceiveEvent::Stop { code }) => Some(Self::Stopped { code }),
            (Self::Ending | Self::Complete | Self::Reset { .. }, ReceiveEvent::Stop { .. })
            | (Self::Stopped { .. }, ReceiveEvent::SizeKnown | ReceiveEvent::Reset { .. }) => {
                Some(Self::Discarded)
            }
            (Self::Receiving, ReceiveEvent::ReadToEnd | ReceiveEvent::Told)
            | (Self::Ending, ReceiveEvent::SizeKnown | ReceiveEvent::ReadToEnd | ReceiveEvent::Told)
            | (Self::Complete | Self::Reset { .. } | Self::Stopped { .. }, _)
            | (Self::Read | Self::ResetTold | Self::Discarded, _) => None,
        }
    }

    /// Whether the state is final.
    pub(crate) fn is_over(self) -> bool {
        match self {
            Self::Read | Self::ResetTold | Self::Discarded => true,
            Self::Receiving | Self::Ending | Self::Complete | Self::Reset { .. } | Self::Stopped { .. } => {
                false
            }
        }
    }

    /// Whether the application waits for bytes that have not arrived.
    pub(crate) fn expects_more(self) -> bool {
        match self {
            Self::Receiving | Self::Ending => true,
            Self::Complete
            | Self::Read
            | Self::Reset { .. }
            | Self::ResetTold
            | Self::Stopped { .. }
            | Self::Discarded => false,
        }
    }

    /// Whether the application may still read.
    pub(crate) fn accepts_reads(self) -> bool {
        match self {
            Self::Receiving | Self::Ending | Self::Complete | Self::Reset { .. } => true,
            Self::Read | Self::ResetTold | Self::Stopped { .. } | Self::Discarded => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transition_of_a_sending_half_is_known() {
        use SendEvent as E;
        use SendState as S;
        let states = [S::Open, S::Finishing, S::Finished, S::Resetting { code: 1 }, S::ResetDone];
        let events = [E::Finish, E::AllAcked, E::Reset { code: 7 }, E::ResetAcked];
        let mut table = String::new();
        for state in states {
            for event in events {
                if let Some(next) = state.after(event) {
                    table += &format!("{state:?} --{event:?}--> {next:?}\n");
                }
            }
        }
        insta::assert_snapshot!(table, @r"
        Open --Finish--> Finishing
        Open --Reset { code: 7 }--> Resetting { code: 7 }
        Finishing --AllAcked--> Finished
        Finishing --Reset { code: 7 }--> Resetting { code: 7 }
        Resetting { code: 1 } --ResetAcked--> ResetDone
        ");
    }

    #[test]
    fn every_transition_of_a_receiving_half_is_known() {
        use ReceiveEvent as E;
        use ReceiveState as S;
        let states = [
            S::Receiving,
            S::Ending,
            S::Complete,
            S::Read,
            S::Reset { code: 1 },
            S::ResetTold,
            S::Stopped { code: 2 },
            S::Discarded,
        ];
        let events =
            [E::SizeKnown, E::AllArrived, E::ReadToEnd, E::Reset { code: 7 }, E::Told, E::Stop { code: 8 }];
        let mut table = String::new();
        for state in states {
            for event in events {
                if let Some(next) = state.after(event) {
                    table += &format!("{state:?} --{event:?}--> {next:?}\n");
                }
            }
            assert!(!state.is_over() || events.iter().all(|event| state.after(*event).is_none()));
        }
        insta::assert_snapshot!(table, @r"
        Receiving --SizeKnown--> Ending
        Receiving --AllArrived--> Complete
        Receiving --Reset { code: 7 }--> Reset { code: 7 }
        Receiving --Stop { code: 8 }--> Stopped { code: 8 }
        Ending --AllArrived--> Complete
        Ending --Reset { code: 7 }--> Reset { code: 7 }
        Ending --Stop { code: 8 }--> Discarded
        Complete --ReadToEnd--> Read
        Complete --Stop { code: 8 }--> Discarded
        Reset { code: 1 } --Told--> ResetTold
        Reset { code: 1 } --Stop { code: 8 }--> Discarded
        Stopped { code: 2 } --SizeKnown--> Discarded
        Stopped { code: 2 } --Reset { code: 7 }--> Discarded
        ");
    }
}
