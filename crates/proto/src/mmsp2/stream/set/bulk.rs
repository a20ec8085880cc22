//! Bulk data: while one stream alone has new bytes, no packet needs a look at the queue.

use std::ops::Range;

use super::StreamSet;
use crate::mmsp2::stream::send::Bulk;
use crate::scheduler::Source;
use crate::stream::event::StreamEvent;
use crate::stream::priority::{ClassFilter, LoneTurn};

impl StreamSet {
    /// The bytes that [`Self::write_data`] would write to each of the next packets, if all of them come from one stream
    /// and nothing else is to be sent. [`Self::on_bulk_sent`] records the packets.
    pub(crate) fn bulk(&self, source: Source, filter: ClassFilter) -> Option<(LoneTurn, Bulk<'_>)> {
        let skip = match source {
            Source::Next => 0,
            Source::Skip(bytes) => bytes.get(),
            Source::Retransmission | Source::Reinject | Source::Stream(_) => return None,
        };
        if self.queue.retransmissions.first(ClassFilter::All).is_some() {
            return None;
        }
        let turn = self.queue.new.lone_turn().filter(|turn| filter.takes(turn.urgency))?;
        let stream = self.streams.get(&turn.stream)?;
        Some((turn, stream.send.bulk(skip, self.send_credit.left_for(turn.urgency))?))
    }

    /// Packets with these bytes left.
    pub(crate) fn on_bulk_sent(&mut self, turn: LoneTurn, written: Range<u64>) {
        let Some(stream) = self.streams.get_mut(&turn.stream) else { return };
        self.send_credit.spend(stream.send.on_bulk_sent(written));
        if stream.send.take_writable() {
            self.events.push_back(StreamEvent::Writable(turn.stream));
        }
        self.queue.new.keep_turn(turn);
        self.queue.update(stream);
    }
}
