//! One stream of a connection.

use manyway_wire::StreamId;

use super::entry::Entry;
use crate::mmsp2::stream::receive::ReceiveHalf;
use crate::mmsp2::stream::send::SendHalf;
use crate::stream::priority::Urgency;

/// A stream and its entry in the queue.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: StreamId,
    pub(super) urgency: Urgency,
    pub(super) send: SendHalf,
    pub(super) receive: ReceiveHalf,
    pub(super) entry: Entry,
}
