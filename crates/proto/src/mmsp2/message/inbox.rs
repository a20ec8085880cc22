//! Messages of a receiving half: assembled, delivered in order or on arrival, and skipped if abandoned.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use manyway_wire::mmsp2::{MessageData, MessageId, MessagePlace};

use super::assembly::{Assembly, Piece};
use super::cost;
use crate::collections::range_set::RangeSet;
use crate::{Message, Order};

/// Most incomplete messages of one direction of a stream (spec 8.35).
pub(crate) const MOST_INCOMPLETE: usize = 1024;
/// Cost of a range of finished numbers above the lowest unfinished one, in bytes of memory (spec 8.35).
const RANGE_OVERHEAD: u64 = 64;

/// Received messages. Their cost (spec 8.32) and [`Self::overhead`] cover the memory.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    ordered: Lane,
    unordered: Lane,
    ready: VecDeque<Message>,
    /// Ordered messages below this number were delivered or skipped.
    next: u64,
    /// Complete ordered messages that wait for earlier ones.
    waiting: BTreeMap<u64, Message>,
    /// Cost of all that was reached.
    reached: u64,
    /// Cost of the messages that are complete or skipped.
    finished: u64,
    overhead: u64,
}

/// Messages of one kind.
#[derive(Debug, Default)]
struct Lane {
    /// Numbers that are complete or skipped.
    finished: RangeSet,
    incomplete: BTreeMap<u64, Assembly>,
}

/// Effect of a piece or a skip on the credit, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CreditCost {
    /// Bytes reached for the first time.
    pub(crate) new: u64,
    /// Bytes, of these and earlier ones, whose credit is returned because the application will not read them.
    pub(crate) given_back: u64,
}

/// Why a piece or a skip is refused.
pub(crate) type Refusal = &'static str;

impl Lane {
    fn overhead(&self) -> u64 {
        let from_zero = self.finished.first().is_some_and(|first| first.start == 0);
        let ranges = self.finished.iter().len() - usize::from(from_zero);
        ranges as u64 * RANGE_OVERHEAD
    }

    fn finish(&mut self, number: u64) {
        self.finished.insert(number..number.saturating_add(1));
    }
}

impl Inbox {
    /// The credit that a piece costs; changes nothing. `most` is the size of the largest message.
    pub(crate) fn check(&self, block: &MessageData<'_>, most: u64) -> Result<CreditCost, Refusal> {
        let (lane, number) = (self.lane(block.message), block.message.number);
        if lane.finished.contains(number) {
            return Ok(CreditCost::default());
        }
        let piece = piece(block);
        if u64::from(piece.reach()) > most {
            return Err("it is larger than agreed");
        }
        let Some(assembly) = lane.incomplete.get(&number) else {
            let incomplete = self.ordered.incomplete.len() + self.unordered.incomplete.len();
            if incomplete >= MOST_INCOMPLETE && !piece.is_whole() {
                return Err("too many messages before it are incomplete");
            }
            return Ok(CreditCost { new: cost(piece.reach()), given_back: 0 });
        };
        if let Some(contradiction) = assembly.contradiction(&piece) {
            return Err(contradiction);
        }
        Ok(CreditCost { new: u64::from(piece.reach().saturating_sub(assembly.reach())), given_back: 0 })
    }

    /// Takes a piece that passed [`Self::check`].
    pub(crate) fn on_piece(&mut self, block: &MessageData<'_>, credit_cost: CreditCost) {
        let (id, piece) = (block.message, piece(block));
        if self.lane(id).finished.contains(id.number) {
            return;
        }
        self.reached += credit_cost.new;
        let before = self.lane(id).overhead();
        let lane = self.lane_mut(id);
        let whole = if piece.is_whole() {
            let gaps = lane.incomplete.remove(&id.number).map_or(0, |begun| begun.overhead());
            Some((Bytes::copy_from_slice(piece.data), piece.protocol.unwrap_or_default(), gaps))
        } else {
            let assembly = lane.incomplete.entry(id.number).or_default();
            let gaps = assembly.overhead();
            assembly.insert(&piece);
            let (more, is_whole) = (assembly.overhead(), assembly.is_whole());
            self.overhead = (self.overhead + more).saturating_sub(gaps);
            let whole = if is_whole { self.lane_mut(id).incomplete.remove(&id.number) } else { None };
            whole.map(|assembly| {
                let (data, protocol) = assembly.into_parts();
                (data, protocol, more)
            })
        };
        let Some((data, protocol, gaps)) = whole else { return };
        self.overhead = self.overhead.saturating_sub(gaps);
        self.finished += cost(u32::try_from(data.len()).unwrap_or(u32::MAX));
        self.lane_mut(id).finish(id.number);
        self.recount(before, self.lane(id).overhead());
        self.arrange(id, Message { data, protocol, order: Order::from(id) });
    }

    /// The credit that a skip costs; changes nothing.
    pub(crate) fn check_skip(&self, id: MessageId, reach: u32) -> Result<CreditCost, Refusal> {
        let lane = self.lane(id);
        if lane.finished.contains(id.number) {
            return Ok(CreditCost::default());
        }
        let reached = lane.incomplete.get(&id.number).map(Assembly::reach);
        if reached.is_some_and(|reached| reached > reach) {
            return Err("it is skipped below bytes of it");
        }
        let new = cost(reach) - reached.map_or(0, cost);
        Ok(CreditCost { new, given_back: cost(reach) })
    }

    /// Skips a message that passed [`Self::check_skip`].
    pub(crate) fn on_skip(&mut self, id: MessageId, credit_cost: CreditCost) {
        if self.lane(id).finished.contains(id.number) {
            return;
        }
        self.reached += credit_cost.new;
        self.finished += credit_cost.given_back;
        let before = self.lane(id).overhead();
        let gaps = self.lane_mut(id).incomplete.remove(&id.number).map_or(0, |gone| gone.overhead());
        self.overhead = self.overhead.saturating_sub(gaps);
        self.lane_mut(id).finish(id.number);
        self.recount(before, self.lane(id).overhead());
        if !id.unordered {
            self.advance();
        }
    }

    fn arrange(&mut self, id: MessageId, message: Message) {
        if id.unordered {
            self.ready.push_back(message);
            return;
        }
        if id.number == self.next && self.waiting.is_empty() {
            // The usual case, without a detour.
            self.ready.push_back(message);
            self.next += 1;
        } else {
            self.waiting.insert(id.number, message);
        }
        self.advance();
    }

    /// Delivers the messages that no longer wait: all below the first number that is neither complete nor skipped.
    fn advance(&mut self) {
        let until =
            self.ordered.finished.first().filter(|first| first.start == 0).map_or(0, |first| first.end);
        while let Some(entry) = self.waiting.first_entry().filter(|entry| *entry.key() < until) {
            self.ready.push_back(entry.remove());
        }
        self.next = self.next.max(until);
    }

    fn recount(&mut self, before: u64, after: u64) {
        self.overhead = (self.overhead + after).saturating_sub(before);
    }

    /// Takes the next message.
    pub(crate) fn pop(&mut self) -> Option<Message> {
        self.ready.pop_front()
    }

    /// The size of the next message.
    pub(crate) fn next_size(&self) -> Option<usize> {
        self.ready.front().map(|message| message.data.len())
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Cost of all that was reached.
    pub(crate) fn reached(&self) -> u64 {
        self.reached
    }

    /// Cost of the messages that are complete or skipped.
    pub(crate) fn finished(&self) -> u64 {
        self.finished
    }

    /// Cost of gaps, in messages and between them, in bytes of memory (spec 8.19).
    pub(crate) fn overhead(&self) -> u64 {
        self.overhead
    }

    fn lane(&self, id: MessageId) -> &Lane {
        if id.unordered { &self.unordered } else { &self.ordered }
    }

    fn lane_mut(&mut self, id: MessageId) -> &mut Lane {
        if id.unordered { &mut self.unordered } else { &mut self.ordered }
    }
}

fn piece<'a>(block: &MessageData<'a>) -> Piece<'a> {
    let protocol = match block.place {
        MessagePlace::Begin { protocol } => Some(protocol),
        MessagePlace::At(_) => None,
    };
    Piece { offset: block.place.offset(), protocol, end: block.end, data: block.data }
}

#[cfg(test)]
#[path = "inbox/tests.rs"]
mod tests;
