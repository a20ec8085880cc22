//! Memory for written and unacknowledged data, shared among the streams (spec 8.25).

use manyway_wire::StreamId;

use super::StreamSet;
use crate::stream::event::StreamEvent;

impl StreamSet {
    /// The application writes to a stream: it may take the free memory, less equal parts for the writers that wait.
    pub(super) fn grant_memory(&mut self, id: StreamId) {
        self.waiting_writers.remove(&id);
        let waiting = self.waiting_writers.len() as u64;
        self.grant(id, self.free_memory() / (waiting + 1));
    }

    fn free_memory(&self) -> u64 {
        self.config.send_memory.saturating_sub(self.queue.totals.held)
    }

    /// Lets a stream hold `more` bytes than it does, and its guaranteed minimum in any case.
    fn grant(&mut self, id: StreamId, more: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let share = stream.entry.counted.held.saturating_add(more);
        stream.send.set_share(share.max(self.config.least_send_buffer()));
    }

    /// Memory was freed: notifies the writers that waited for it. Costs O(waiting writers), once for all data that
    /// was acknowledged together.
    pub(super) fn share_memory(&mut self) {
        let waiting = std::mem::take(&mut self.waiting_writers);
        let part = self.free_memory() / (waiting.len() as u64).max(1);
        for id in &waiting {
            self.grant(*id, part);
            if self.streams.get_mut(id).is_some_and(|stream| stream.send.take_writable()) {
                self.events.push_back(StreamEvent::Writable(*id));
            }
        }
        self.waiting_writers = waiting;
    }
}
