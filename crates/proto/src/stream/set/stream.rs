//! One stream of a connection.

use manyway_wire::StreamId;

use super::entry::Entry;
use crate::stream::priority::Urgency;
use crate::stream::receive::ReceiveHalf;
use crate::stream::send::SendHalf;

/// A stream and its entry in the queue.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: StreamId,
    pub(super) urgency: Urgency,
    pub(super) send: SendHalf,
    pub(super) receive: ReceiveHalf,
    pub(super) entry: Entry,
}
