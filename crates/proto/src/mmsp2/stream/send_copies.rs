//! Copies of bytes and messages that are already in flight.

use std::ops::Range;

use manyway_wire::Writer;
use manyway_wire::mmsp2::MessageId;

use super::SendHalf;
use crate::mmsp2::stream::state::SendState;
use crate::packet::content::SentContent;

impl SendHalf {
    /// Writes again the part of `range` that has not arrived, from its start. Returns the offset reached, and `None`
    /// in place of a block if all of it has arrived. `None` if it does not fit. Pending retransmissions stay pending,
    /// because the loss of a copy is not reported.
    pub(crate) fn write_copy(
        &self,
        range: Range<u64>,
        w: &mut Writer<'_>,
    ) -> Option<(u64, Option<SentContent>)> {
        let range = range.start.max(self.buffer.base())..range.end;
        if range.is_empty() || !self.needs_copy(&range) {
            return Some((range.end, None));
        }
        let content = self.encode_block(range.clone(), w)?;
        let SentContent::Stream { length, .. } = content else { return Some((range.end, None)) };
        Some((range.start + u64::from(length), Some(content)))
    }

    /// Writes a piece of a message again, likewise.
    pub(crate) fn write_message_copy(
        &self,
        message: MessageId,
        units: Range<u64>,
        w: &mut Writer<'_>,
    ) -> Option<(u64, Option<SentContent>)> {
        let Some(messages) = self.messages.as_deref().filter(|all| all.needs_copy(message, &units)) else {
            return Some((units.end, None));
        };
        let (reached, content) = messages.write_copy(message, units, w)?;
        Some((reached, Some(content)))
    }

    /// Whether a piece of a message has not arrived, and is still wanted.
    pub(crate) fn needs_message_copy(&self, message: MessageId, units: &Range<u64>) -> bool {
        self.messages.as_deref().is_some_and(|messages| messages.needs_copy(message, units))
    }

    /// Whether some of these bytes have not arrived, and are still wanted.
    pub(crate) fn needs_copy(&self, range: &Range<u64>) -> bool {
        self.sends_bytes() && self.buffer.arrived(range) < range.end - range.start
    }

    /// How many bytes of `range` have arrived.
    pub(crate) fn arrived(&self, range: &Range<u64>) -> u64 {
        if self.sends_bytes() { self.buffer.arrived(range) } else { 0 }
    }

    /// How many bytes have arrived without a gap.
    pub(crate) fn arrived_in_order(&self) -> u64 {
        self.buffer.base()
    }

    /// Whether these bytes block the head of line, and no retransmission of them is pending.
    pub(crate) fn is_held_up_by(&self, range: &Range<u64>) -> bool {
        let base = self.buffer.base();
        self.sends_bytes()
            && range.start <= base
            && (base < range.end || range.is_empty())
            && self.buffer.lost().is_none_or(|lost| lost.start > base)
    }

    fn sends_bytes(&self) -> bool {
        self.messages.is_none() && matches!(self.state, SendState::Open | SendState::Finishing)
    }
}
