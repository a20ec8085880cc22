//! Messages over MMSP/2.
//!
//! Each direction of a stream carries bytes or messages (spec 8.28); this module handles a direction with messages.
//! [`outbox`] has the messages to send, each an [`outgoing`] one from its first piece on; [`inbox`] has received
//! ones, each put together by an [`assembly`]. The credit is that of streams: a message costs [`cost`] of it, at both
//! ends.

mod assembly;
pub(crate) mod inbox;
mod key;
pub(crate) mod outbox;
mod outgoing;

use manyway_wire::mmsp2::MessageId;

use crate::Order;
use crate::message::OVERHEAD;

/// Credit that a message costs that is sent up to `reach`.
pub(crate) fn cost(reach: u32) -> u64 {
    OVERHEAD + u64::from(reach)
}

impl From<MessageId> for Order {
    fn from(id: MessageId) -> Self {
        if id.unordered { Self::Unordered } else { Self::Ordered }
    }
}
