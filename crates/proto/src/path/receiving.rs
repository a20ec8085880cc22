//! What arrives: the packet numbers seen, which acknowledgements are due, and what would be a replay.
//!
//! What is sent is the other direction ([`PathRecovery`](crate::recovery::PathRecovery)); a wire that numbers what it
//! receives over the whole connection leaves this one alone.

use crate::packet::ack_policy::AckPolicy;
use crate::packet::received::ReceivedPackets;
use crate::protection::ReplayWindow;

/// The receiving direction of one path, or of one level of the handshake.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) numbers: ReceivedPackets,
    pub(crate) acks: AckPolicy,
    pub(crate) replay: ReplayWindow,
}

impl Receiving {
    pub(crate) fn new() -> Self {
        Self { numbers: ReceivedPackets::default(), acks: AckPolicy::default(), replay: ReplayWindow::new() }
    }

    /// Gives back memory that is not used.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.numbers.shrink_to_fit();
        self.replay.shrink();
    }
}
