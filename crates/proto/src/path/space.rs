//! A number space: what was sent in it, what arrived in it, and which acknowledgements are due.

use crate::packet::ack_policy::AckPolicy;
use crate::packet::received::ReceivedPackets;
use crate::protection::ReplayWindow;
use crate::recovery::PathRecovery;

/// Packet numbers of one path, or of one level of the set-up.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) recovery: PathRecovery,
    pub(crate) received: ReceivedPackets,
    pub(crate) acks: AckPolicy,
    pub(crate) replay: ReplayWindow,
}

impl Space {
    pub(crate) fn new(recovery: PathRecovery) -> Self {
        Self {
            recovery,
            received: ReceivedPackets::default(),
            acks: AckPolicy::default(),
            replay: ReplayWindow::new(),
        }
    }

    /// Gives back what packets on their way need.
    pub(crate) fn tidy(&mut self) {
        self.recovery.shrink_to_fit();
        self.received.shrink_to_fit();
        self.replay.shrink();
    }
}
