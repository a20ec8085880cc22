//! Memory for what the application has written and the peer does not have, shared among the streams (spec 8.25).

use manyway_wire::StreamId;

use super::StreamSet;
use crate::stream::event::StreamEvent;

impl StreamSet {
    /// Tells a stream how much the others leave to it.
    pub(super) fn grant_memory(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let others = self.agenda.totals.held - stream.entry.counted.held;
        let left = self.config.send_memory.saturating_sub(others);
        stream.send.set_share(left.max(self.config.least_send_buffer()));
    }

    /// Streams hold less than before: tells the writers that waited for it. Costs O(such writers).
    pub(super) fn share_memory(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting_writers);
        waiting.retain(|id| {
            self.grant_memory(*id);
            let Some(stream) = self.streams.get_mut(id) else { return false };
            if stream.send.take_writable() {
                self.events.push_back(StreamEvent::Writable(*id));
            }
            stream.send.waits_for_others()
        });
        self.waiting_writers = waiting;
    }
}
