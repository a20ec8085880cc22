//! Receiving direction: packet numbers seen, acknowledgements due, and replay detection.
//!
//! [`PathRecovery`](crate::recovery::PathRecovery) is the sending direction. A wire that numbers received
//! packets over the whole connection does not use this module.

use crate::packet::ack_policy::AckPolicy;
use crate::packet::received::ReceivedPackets;
use crate::packet::replay::ReplayWindow;

/// The receiving direction of one path, or of one encryption level of the handshake.
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

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.numbers.shrink_to_fit();
        self.replay.shrink();
    }
}
