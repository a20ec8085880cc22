//! Calls of the application for streams.

use bytes::Bytes;
use manyway_wire::StreamId;

use super::StreamSet;
use super::entry::ControlBlocks;
use crate::stream::event::{ReadOutcome, StreamEvent, WriteError};
use crate::stream::priority::Urgency;
use crate::stream::receive_credit::Epoch;
use crate::{Class, Misuse};

impl StreamSet {
    /// Opens a stream; the peer sees it with its first bytes.
    ///
    /// # Errors
    /// `NoStreamCredit` if the peer allows no more; [`StreamEvent::Available`] follows when it does.
    pub(crate) fn open(&mut self) -> Result<StreamId, Misuse> {
        if self.ours.opened >= self.ours.limit {
            self.ours.refused_at = Some(self.ours.limit);
            return Err(Misuse::NoStreamCredit { allowed: self.ours.limit });
        }
        let id = StreamId::new(self.side, self.ours.opened);
        self.ours.opened += 1;
        self.add_stream(id);
        Ok(id)
    }

    /// Takes the next stream that the peer opened. Its earlier events are delivered now.
    pub(crate) fn accept(&mut self) -> Option<StreamId> {
        if self.theirs.accepted >= self.theirs.opened {
            return None;
        }
        let id = StreamId::new(self.theirs_side(), self.theirs.accepted);
        self.theirs.accepted += 1;
        if let Some(stream) = self.streams.get_mut(&id) {
            if let Some(code) = stream.send.stopped() {
                self.events.push_back(StreamEvent::Stopped(id, code));
            }
            if let Some(code) = stream.receive.reset_code() {
                self.events.push_back(StreamEvent::Reset(id, code));
            }
            if stream.receive.take_readable() {
                self.events.push_back(StreamEvent::Readable(id));
            }
        }
        Some(id)
    }

    /// Takes as many of the bytes as there is space for, and returns how many; if not all, [`StreamEvent::Writable`]
    /// follows.
    ///
    /// # Errors
    /// The peer stopped the stream, the sending half has ended, or there is no such stream.
    pub(crate) fn write(&mut self, id: StreamId, data: Bytes) -> Result<usize, WriteError> {
        self.grant_memory(id);
        let accepted = self.stream_mut(id)?.send.write(data)?;
        self.after_change(id);
        Ok(accepted)
    }

    /// Marks the end of the data; [`StreamEvent::Finished`] follows when all has arrived.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub(crate) fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
        self.stream_mut(id)?.send.finish()?;
        self.after_change(id);
        Ok(())
    }

    /// Abandons the sending half: unsent data is dropped, lost data is not retransmitted.
    ///
    /// # Errors
    /// The sending half has ended, or there is no such stream.
    pub(crate) fn reset(&mut self, id: StreamId, code: u64) -> Result<(), Misuse> {
        let stream = self.stream_mut(id)?;
        stream.send.reset(code)?;
        stream.entry.control.insert(ControlBlocks::RESET_STREAM);
        self.after_change(id);
        Ok(())
    }

    /// Stops the receiving half: received and future data is dropped, and the peer is asked to end it.
    ///
    /// # Errors
    /// The receiving half was read to its end or stopped before, or there is no such stream.
    pub(crate) fn stop(&mut self, id: StreamId, code: u64) -> Result<(), Misuse> {
        let stream = self.stream_mut(id)?;
        let gaps = stream.gaps();
        let counted = stream.receive.stop(code)?;
        let gaps = (gaps, stream.gaps());
        if stream.receive.stopping().is_some() {
            stream.entry.control.insert(ControlBlocks::STOP_SENDING);
        }
        self.count_gaps(gaps.0, gaps.1);
        self.count(counted);
        self.after_change(id);
        Ok(())
    }

    /// Sets the priority of a stream: a higher number goes first, 0 is the default. For messages it applies to future
    /// ones.
    ///
    /// # Errors
    /// There is no such stream.
    pub(crate) fn set_priority(&mut self, id: StreamId, priority: i8) -> Result<(), Misuse> {
        let urgency = self.stream_mut(id)?.urgency;
        self.set_urgency(id, Urgency { priority, ..urgency });
        Ok(())
    }

    /// Sets the class of a stream: among equal priorities the more urgent class goes first, bulk is the default. For
    /// messages it applies to future ones.
    ///
    /// # Errors
    /// There is no such stream.
    pub(crate) fn set_class(&mut self, id: StreamId, class: Class) -> Result<(), Misuse> {
        let urgency = self.stream_mut(id)?.urgency;
        self.set_urgency(id, Urgency { class, ..urgency });
        Ok(())
    }

    fn set_urgency(&mut self, id: StreamId, urgency: Urgency) {
        if let Some(stream) = self.streams.get_mut(&id) {
            self.queue.set_urgency(stream, urgency);
        }
    }

    /// Reads the next bytes in order, at most `max`, without a copy. Reading gives the peer new credit.
    ///
    /// # Errors
    /// The end or the reset was read before, the half was stopped, or there is no such stream.
    pub(crate) fn read(&mut self, id: StreamId, max: usize) -> Result<ReadOutcome, Misuse> {
        let epoch = self.epochs.now();
        let stream = self.stream_mut(id)?;
        let outcome = stream.receive.read(max)?;
        match &outcome {
            ReadOutcome::Data(bytes) => self.consume(id, bytes.len() as u64, epoch),
            ReadOutcome::Blocked => return Ok(outcome),
            ReadOutcome::End | ReadOutcome::Reset(_) => {}
        }
        self.after_change(id);
        Ok(outcome)
    }

    /// The application took data that cost this much credit.
    pub(super) fn consume(&mut self, id: StreamId, count: u64, epoch: Option<Epoch>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let grew = stream.receive.consume(count, epoch);
        let window = stream.receive.window();
        stream.note_window();
        if grew {
            self.receive_credit.window_at_least(window.saturating_add(window / 2));
        }
        self.receive_credit.consume(count, epoch);
        self.pending.max_data |= self.receive_credit.should_update();
    }

    /// The next event for the application.
    pub(crate) fn poll_event(&mut self) -> Option<StreamEvent> {
        if std::mem::take(&mut self.memory_freed) {
            self.share_memory();
        }
        self.events.pop_front()
    }
}
