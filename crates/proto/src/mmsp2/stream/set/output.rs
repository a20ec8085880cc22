//! Control blocks for the peer, and their fate.

use manyway_wire::mmsp2::{
    Block, Blocked, BlockedBy, MaxData, MaxStreamData, MaxStreams, ResetStream, StopSending,
};
use manyway_wire::{StreamId, Writer};

use super::entry::ControlBlocks;
use super::{Stream, StreamSet};
use crate::mmsp2::stream::send::Progress;
use crate::packet::content::{Contents, Limit, SentContent};
use crate::stream::event::StreamEvent;
use crate::stream::priority::ClassFilter;

/// Most streams whose BLOCKED is repeated at a time, so that all fit into one packet.
const MOST_REPEATED: usize = 16;

/// The block did not fit.
struct NoRoom;

impl StreamSet {
    /// Whether control blocks wait.
    pub(crate) fn wants_control(&self) -> bool {
        self.pending.max_data
            || self.pending.max_streams
            || !self.queue.control.is_empty()
            || self.is_connection_blocked()
            || self.are_streams_blocked()
    }

    /// Writes control blocks as far as they fit: credit, reset and stop of streams, and BLOCKED.
    pub(crate) fn write_control(&mut self, w: &mut Writer<'_>, contents: &mut Contents) {
        let _full =
            self.write_connection_control(w, contents).and_then(|()| self.write_streams_control(w, contents));
    }

    fn write_connection_control(
        &mut self,
        w: &mut Writer<'_>,
        contents: &mut Contents,
    ) -> Result<(), NoRoom> {
        if self.pending.max_data {
            let credit = self.receive_credit.limit() + self.receive_credit.due();
            put(w, &Block::MaxData(MaxData { credit }))?;
            self.receive_credit.update();
            self.pending.max_data = false;
            contents.push(SentContent::MaxData);
        }
        if self.pending.max_streams {
            let count = self.theirs.advertised.max(self.theirs.retired + self.config.peer_streams);
            put(w, &Block::MaxStreams(MaxStreams { count }))?;
            self.theirs.advertised = count;
            self.pending.max_streams = false;
            contents.push(SentContent::MaxStreams);
        }
        if self.is_connection_blocked() {
            put(
                w,
                &Block::Blocked(Blocked { by: BlockedBy::Connection { limit: self.send_credit.limit() } }),
            )?;
            self.send_credit.on_reported();
            contents.push(SentContent::Blocked { by: Limit::Connection });
        }
        if self.are_streams_blocked() {
            put(w, &Block::Blocked(Blocked { by: BlockedBy::Streams { limit: self.ours.limit } }))?;
            self.ours.reported_at = Some(self.ours.limit);
            contents.push(SentContent::Blocked { by: Limit::Streams });
        }
        Ok(())
    }

    fn write_streams_control(&mut self, w: &mut Writer<'_>, contents: &mut Contents) -> Result<(), NoRoom> {
        while let Some(id) = self.queue.control.front().copied() {
            let Some(stream) = self.streams.get_mut(&id) else {
                self.queue.control.pop_front();
                continue;
            };
            stream.write_control(w, contents)?;
            self.queue.pop_control(stream);
        }
        Ok(())
    }

    /// Whether new bytes wait for connection credit, and BLOCKED was not sent.
    fn is_connection_blocked(&self) -> bool {
        self.lacks_credit() && self.send_credit.is_unreported()
    }

    /// Whether bytes wait for credit, of their stream or of the connection.
    pub(crate) fn is_blocked(&self) -> bool {
        self.queue.totals.blocked > 0 || self.lacks_credit()
    }

    /// Whether the connection's credit does not suffice for the first new bytes: for one byte, or for a whole
    /// message.
    fn lacks_credit(&self) -> bool {
        let first = self.queue.new.first(ClassFilter::All).and_then(|(_, id)| self.streams.get(&id));
        let need = first.and_then(|stream| Some((stream.send.need()?, stream.urgency_of_new())));
        need.is_some_and(|(need, urgency)| self.send_credit.left_for(urgency) < need)
    }

    /// Sends BLOCKED again: for the connection's credit, and for the first streams that wait for theirs. Costs one
    /// step for each stream.
    pub(crate) fn repeat_blocked(&mut self) {
        self.send_credit.on_report_lost();
        let blocked = self.streams.values_mut().filter(|stream| stream.entry.blocked);
        for stream in blocked.take(MOST_REPEATED) {
            stream.send.on_blocked_lost();
            self.queue.update(stream);
        }
    }

    /// Whether the application waits for a higher limit of streams, and BLOCKED was not sent.
    fn are_streams_blocked(&self) -> bool {
        self.ours.refused_at == Some(self.ours.limit) && self.ours.reported_at != Some(self.ours.limit)
    }

    /// A packet with this content arrived. Content of other modules is ignored.
    pub(crate) fn on_delivered(&mut self, content: &SentContent) {
        match *content {
            SentContent::Stream { stream: id, offset, length, end } => {
                let (range, epoch) = (offset..offset + u64::from(length), self.epochs.now());
                let Some(stream) = self.streams.get_mut(&id) else {
                    // All of it had arrived, or is no longer wanted.
                    self.tally.duplicate_bytes_sent += u64::from(length);
                    return;
                };
                self.tally.duplicate_bytes_sent += stream.send.arrived(&range);
                let before = stream.send.arrived_in_order();
                let progress = stream.send.on_delivered(range, end, epoch);
                self.tally.arrived_in_order += stream.send.arrived_in_order() - before;
                if stream.is_over() {
                    self.after_change(id);
                } else {
                    let held = self.queue.totals.held;
                    self.queue.update(stream);
                    self.memory_freed |= self.queue.totals.held < held;
                }
                self.tell_progress(id, progress);
            }
            SentContent::ResetStream { stream: id } => {
                let Some(stream) = self.streams.get_mut(&id) else { return };
                stream.send.on_reset_delivered();
                self.after_change(id);
            }
            SentContent::Message { stream, key, .. } | SentContent::Skip { stream, key } => {
                self.on_message_delivered(stream, key.into(), content);
            }
            SentContent::MaxData
            | SentContent::MaxStreamData { .. }
            | SentContent::MaxStreams
            | SentContent::StopSending { .. }
            | SentContent::Blocked { .. }
            | SentContent::Handshake { .. }
            | SentContent::PathAck { .. }
            | SentContent::NewCid { .. }
            | SentContent::RetireCid { .. }
            | SentContent::AddAddress { .. }
            | SentContent::RemoveAddress { .. }
            | SentContent::PathStatus { .. }
            | SentContent::PathClose { .. }
            | SentContent::PathLimit
            | SentContent::ReceiveLimit { .. }
            | SentContent::TcpConnections { .. }
            | SentContent::Pong
            | SentContent::MtuProbe { .. }
            | SentContent::Data { .. } => {}
        }
    }

    /// A packet with this content was lost: it is sent again, as far as it is still needed and no other copy arrived.
    /// Content of other modules is ignored.
    pub(crate) fn on_lost(&mut self, content: &SentContent) {
        match *content {
            SentContent::Stream { stream, offset, length, end } => {
                let Some(stream) = self.streams.get_mut(&stream) else { return };
                stream.send.on_lost(offset..offset + u64::from(length), end);
                self.queue.update(stream);
            }
            SentContent::MaxData => self.pending.max_data = true,
            SentContent::MaxStreams => self.pending.max_streams = true,
            SentContent::MaxStreamData { stream } => self.write_again(stream, ControlBlocks::MAX_STREAM_DATA),
            SentContent::ResetStream { stream } => self.write_again(stream, ControlBlocks::RESET_STREAM),
            SentContent::StopSending { stream } => self.write_again(stream, ControlBlocks::STOP_SENDING),
            SentContent::Blocked { by } => self.on_blocked_lost(by),
            SentContent::Message { stream, key, .. } | SentContent::Skip { stream, key } => {
                self.on_message_lost(stream, key.into(), content);
            }
            SentContent::Handshake { .. }
            | SentContent::PathAck { .. }
            | SentContent::NewCid { .. }
            | SentContent::RetireCid { .. }
            | SentContent::AddAddress { .. }
            | SentContent::RemoveAddress { .. }
            | SentContent::PathStatus { .. }
            | SentContent::PathClose { .. }
            | SentContent::PathLimit
            | SentContent::ReceiveLimit { .. }
            | SentContent::TcpConnections { .. }
            | SentContent::Pong
            | SentContent::MtuProbe { .. }
            | SentContent::Data { .. } => {}
        }
    }

    /// The path of a packet with this content is suspect: unacknowledged content is sent again elsewhere. If the
    /// original arrives after all, the unsent part of the copy is cancelled.
    pub(crate) fn reinject(&mut self, content: &SentContent) {
        self.on_lost(content);
    }

    pub(super) fn tell_progress(&mut self, id: StreamId, progress: Progress) {
        match progress {
            Progress::None => {}
            Progress::Writable => self.events.push_back(StreamEvent::Writable(id)),
            Progress::Finished => self.events.push_back(StreamEvent::Finished(id)),
        }
    }

    /// A lost BLOCKED is sent again if it still holds: otherwise the peer might keep back credit that is too small to
    /// advertise by itself.
    fn on_blocked_lost(&mut self, by: Limit) {
        match by {
            Limit::Connection => self.send_credit.on_report_lost(),
            Limit::Streams => self.ours.reported_at = None,
            Limit::Stream(stream) => {
                if let Some(stream) = self.streams.get_mut(&stream) {
                    stream.send.on_blocked_lost();
                    self.queue.update(stream);
                }
            }
        }
    }

    fn write_again(&mut self, stream: StreamId, block: ControlBlocks) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.entry.control.insert(block);
            self.queue.update(stream);
        }
    }
}

impl Stream {
    /// Writes the control blocks that are still needed.
    fn write_control(&mut self, w: &mut Writer<'_>, contents: &mut Contents) -> Result<(), NoRoom> {
        let wanted = self.entry.control;
        let stream = self.id;
        if wanted.contains(ControlBlocks::SKIP)
            && self.send.wants_skip()
            && !self.send.write_skips(w, contents)
        {
            return Err(NoRoom);
        }
        self.entry.control.remove(ControlBlocks::SKIP);
        if wanted.contains(ControlBlocks::RESET_STREAM)
            && let Some((code, final_size)) = self.send.resetting()
        {
            put(w, &Block::ResetStream(ResetStream { stream, code, final_size }))?;
            contents.push(SentContent::ResetStream { stream });
        }
        self.entry.control.remove(ControlBlocks::RESET_STREAM);
        if wanted.contains(ControlBlocks::STOP_SENDING)
            && let Some(code) = self.receive.stopping()
        {
            put(w, &Block::StopSending(StopSending { stream, code }))?;
            contents.push(SentContent::StopSending { stream });
        }
        self.entry.control.remove(ControlBlocks::STOP_SENDING);
        if wanted.contains(ControlBlocks::MAX_STREAM_DATA)
            && let Some(credit) = self.receive.open_credit()
        {
            put(w, &Block::MaxStreamData(MaxStreamData { stream, credit: credit.limit() + credit.due() }))?;
            credit.update();
            contents.push(SentContent::MaxStreamData { stream });
        }
        self.entry.control.remove(ControlBlocks::MAX_STREAM_DATA);
        if wanted.contains(ControlBlocks::BLOCKED)
            && let Some(limit) = self.send.blocked()
        {
            put(w, &Block::Blocked(Blocked { by: BlockedBy::Stream { stream, limit } }))?;
            self.send.on_blocked_reported();
            contents.push(SentContent::Blocked { by: Limit::Stream(stream) });
        }
        self.entry.control.remove(ControlBlocks::BLOCKED);
        Ok(())
    }
}

/// Writes a block if it fits.
fn put(w: &mut Writer<'_>, block: &Block<'_>) -> Result<(), NoRoom> {
    if block.encoded_len() > w.remaining() {
        return Err(NoRoom);
    }
    block.encode(w);
    Ok(())
}
