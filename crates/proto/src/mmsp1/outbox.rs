//! One sending half: bytes and messages that have no TSEQ yet, and the end (spec 3.8, 3.32, 3.90 to 3.94).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{Bytes, BytesMut};
use manyway_wire::Writer;
use manyway_wire::mmsp1::{BYTES, BYTES_END, Fragment, Sseq, StreamEnd};
use smallvec::SmallVec;

use super::tseq::{expand_sseq, sseq_of};
use crate::stream::priority::{Rank, Urgency};
use crate::{Carries, Instant, MessageToken, Order};

/// How far the SSEQ of an ordered message may lie behind the first one that is not acknowledged (spec 3.32): beyond,
/// the receiver could not tell which comes first.
const MOST_ORDERED: u64 = 32_767;

/// A message to send.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    /// At least one byte.
    pub(crate) data: Bytes,
    pub(crate) protocol: u32,
    pub(crate) order: Order,
    pub(crate) urgency: Urgency,
    /// It is given up unless its first fragment is sent before.
    pub(crate) deadline: Option<Instant>,
}

/// The content of one DATA block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) data: Bytes,
    pub(crate) fragment: Fragment,
    pub(crate) unordered: bool,
    pub(crate) sseq: Sseq,
    pub(crate) protocol: u32,
    /// The message that ends with it.
    pub(crate) token: Option<MessageToken>,
}

/// What one call of [`Outbox::cut`] cuts: consecutive TSEQs.
pub(crate) type Slices = SmallVec<[Slice; 4]>;

/// The end of the half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The application may write.
    Open,
    /// The end waits with this code of [`StreamEnd`], behind what else waits.
    Waits { code: u64 },
    /// The end has a TSEQ.
    Given,
    /// The end and all before it are acknowledged.
    Done,
}

/// The order of waiting unordered messages: urgency, expiry in nanoseconds, age.
type Place = (Reverse<Urgency>, u64, MessageToken);

/// Which message goes next.
#[derive(Debug, Clone, Copy)]
enum Next {
    Ordered(MessageToken),
    Unordered(Place),
}

/// One sending half.
#[derive(Debug)]
pub(crate) struct Outbox {
    carries: Carries,
    bytes: VecDeque<Bytes>,
    ordered: BTreeMap<MessageToken, Waiting>,
    unordered: BTreeMap<Place, Waiting>,
    deadlines: BTreeSet<(Instant, MessageToken)>,
    /// Bytes of all that waits.
    waiting: u64,
    tokens: u64,
    next_sseq: u64,
    /// Bytes or messages that have TSEQs: the total of the end.
    total: u64,
    ending: Ending,
    /// Bytes that have TSEQs and are not acknowledged.
    outstanding: u64,
    /// The same in blocks.
    outstanding_blocks: usize,
    /// Blocks of each ordered message that are not acknowledged, by SSEQ.
    unacked: BTreeMap<u64, u32>,
}

impl Outbox {
    /// Starts with the SSEQ of its first ordered message.
    pub(crate) fn new(next_sseq: u64) -> Self {
        Self {
            carries: Carries::Nothing,
            bytes: VecDeque::new(),
            ordered: BTreeMap::new(),
            unordered: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            waiting: 0,
            tokens: 0,
            next_sseq,
            total: 0,
            ending: Ending::Open,
            outstanding: 0,
            outstanding_blocks: 0,
            unacked: BTreeMap::new(),
        }
    }

    /// What the application has written so far.
    pub(crate) fn carries(&self) -> Carries {
        self.carries
    }

    /// Whether the application may write.
    pub(crate) fn is_open(&self) -> bool {
        self.ending == Ending::Open
    }

    /// Whether the end has a TSEQ.
    pub(crate) fn has_given_end(&self) -> bool {
        matches!(self.ending, Ending::Given | Ending::Done)
    }

    /// Whether the end and all before it are acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        self.ending == Ending::Done
    }

    /// The SSEQ of the next ordered message.
    pub(crate) fn next_sseq(&self) -> u64 {
        self.next_sseq
    }

    /// The peer takes nothing on this half.
    pub(crate) fn close(&mut self) {
        self.ending = Ending::Done;
    }

    /// Bytes that wait or are not acknowledged.
    pub(crate) fn held(&self) -> u64 {
        self.waiting + self.outstanding
    }

    /// Bytes that have TSEQs and are not acknowledged.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Bytes that have no TSEQ, with those of the end.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting + self.end_size().unwrap_or(0) as u64
    }

    /// Takes at most `room` bytes and returns how many.
    pub(crate) fn write(&mut self, mut data: Bytes, room: usize) -> usize {
        debug_assert!(self.is_open() && self.carries != Carries::Messages, "checked by the caller");
        data.truncate(room);
        let taken = data.len();
        if taken > 0 {
            self.carries = Carries::Bytes;
            self.waiting += taken as u64;
            self.bytes.push_back(data);
        }
        taken
    }

    /// Takes a message and names it.
    pub(crate) fn push(&mut self, message: Waiting) -> MessageToken {
        debug_assert!(self.is_open() && self.carries != Carries::Bytes, "checked by the caller");
        debug_assert!(!message.data.is_empty(), "DATA without data is never sent (spec 3.35)");
        let token = MessageToken(self.tokens);
        self.tokens += 1;
        self.carries = Carries::Messages;
        self.waiting += message.data.len() as u64;
        if let Some(deadline) = message.deadline {
            self.deadlines.insert((deadline, token));
        }
        match message.order {
            Order::Ordered => self.ordered.insert(token, message),
            Order::Unordered => self.unordered.insert(message.place(token), message),
        };
        token
    }

    /// The application has written everything.
    pub(crate) fn finish(&mut self) {
        if self.ending == Ending::Open {
            self.ending = Ending::Waits { code: 0 };
        }
    }

    /// The application abandons the half with a code of its own: what has no TSEQ yet is dropped. Changes nothing if
    /// the end has a TSEQ.
    pub(crate) fn reset(&mut self, code: u64) {
        if self.has_given_end() {
            return;
        }
        self.bytes.clear();
        self.ordered.clear();
        self.unordered.clear();
        self.deadlines.clear();
        self.waiting = 0;
        self.ending = Ending::Waits { code: code.saturating_add(1) };
    }

    /// User bytes of the next TSEQ, at most those of a fragment. `None` if nothing can be cut now.
    pub(crate) fn first_size(&self, fragment: usize) -> Option<usize> {
        if !self.bytes.is_empty() {
            return self.may_order().then(|| usize_of(self.waiting).min(fragment));
        }
        match self.next_message() {
            Some((_, message)) => Some(message.data.len().min(fragment)),
            None => self.end_size().filter(|_| self.may_order()),
        }
    }

    /// Whether bytes are cut next, of which a block may be smaller for want of room.
    pub(crate) fn cuts_bytes(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// How many TSEQs the next cut takes.
    pub(crate) fn pieces(&self, fragment: usize) -> usize {
        match self.next_message() {
            Some((_, message)) => message.data.len().div_ceil(fragment.max(1)),
            None => usize::from(self.first_size(fragment).is_some()),
        }
    }

    /// Urgency and deadline of what is cut next, if anything can be; bytes and the end have the urgency of the stream.
    pub(crate) fn rank(&self, of_stream: Urgency) -> Option<Rank> {
        if let Some((_, message)) = self.next_message() {
            return Some(Rank { urgency: message.urgency, deadline: message.deadline });
        }
        self.first_size(usize::MAX).map(|_| Rank { urgency: of_stream, deadline: None })
    }

    /// Bytes that wait in the next message; of a byte stream all of them.
    pub(crate) fn next_left(&self) -> u64 {
        self.next_message().map_or_else(|| self.waiting(), |(_, message)| message.data.len() as u64)
    }

    /// Cuts all fragments of the next message, or one block of at most `room` bytes of a byte stream, or the end.
    /// Nothing if a block of bytes would be smaller than half a fragment for want of room.
    pub(crate) fn cut(&mut self, fragment: usize, room: usize) -> Slices {
        let slices = if self.bytes.is_empty() {
            match self.next_message().map(|(next, _)| next) {
                Some(next) => self.cut_message(next, fragment),
                None => self.cut_end().into_iter().collect(),
            }
        } else {
            self.cut_bytes(fragment, room).into_iter().collect()
        };
        self.outstanding += slices.iter().map(|slice| slice.data.len() as u64).sum::<u64>();
        self.outstanding_blocks += slices.len();
        let ordered = slices.iter().filter(|slice| !slice.unordered).count();
        if let Ok(blocks) = u32::try_from(ordered)
            && blocks > 0
        {
            self.unacked.insert(self.next_sseq - 1, blocks);
        }
        slices
    }

    fn cut_bytes(&mut self, fragment: usize, room: usize) -> Option<Slice> {
        let most = fragment.min(room);
        let is_enough = most.saturating_mul(2) >= fragment || self.waiting <= most as u64;
        if most == 0 || !is_enough || !self.may_order() {
            return None;
        }
        let data = self.take_bytes(most);
        self.total += data.len() as u64;
        Some(Slice::whole(data, BYTES, self.take_sseq()))
    }

    fn cut_message(&mut self, next: Next, most: usize) -> Slices {
        let mut slices = Slices::new();
        let Some(message) = self.remove(next) else { return slices };
        self.total += 1;
        let unordered = message.order == Order::Unordered;
        let sseq = if unordered { Sseq(0) } else { self.take_sseq() };
        let mut rest = message.data;
        while !rest.is_empty() {
            let data = rest.split_to(rest.len().min(most.max(1)));
            let fragment = match (slices.is_empty(), rest.is_empty()) {
                (true, true) => Fragment::Whole,
                (true, false) => Fragment::First,
                (false, false) => Fragment::Middle,
                (false, true) => Fragment::Last,
            };
            let token = fragment.ends().then_some(next.token());
            slices.push(Slice { data, fragment, unordered, sseq, protocol: message.protocol, token });
        }
        slices
    }

    fn cut_end(&mut self) -> Option<Slice> {
        let Ending::Waits { code } = self.ending else { return None };
        if !self.may_order() {
            return None;
        }
        let mut data = Vec::with_capacity(StreamEnd::LEN);
        StreamEnd { code, total: self.total }.encode(&mut Writer::new(&mut data, StreamEnd::LEN));
        self.ending = Ending::Given;
        Some(Slice::whole(data.into(), BYTES_END, self.take_sseq()))
    }

    /// A block of the half was acknowledged: its bytes, and the SSEQ of an ordered one. True if now the whole half is
    /// acknowledged.
    pub(crate) fn on_acked(&mut self, bytes: usize, sseq: Option<Sseq>) -> bool {
        self.outstanding = self.outstanding.saturating_sub(bytes as u64);
        self.outstanding_blocks = self.outstanding_blocks.saturating_sub(1);
        if let Some(sseq) = sseq.and_then(|sseq| expand_sseq(sseq, self.next_sseq - 1))
            && let Some(left) = self.unacked.get_mut(&sseq)
        {
            *left -= 1;
            if *left == 0 {
                self.unacked.remove(&sseq);
            }
        }
        let is_last = self.ending == Ending::Given && self.outstanding_blocks == 0;
        if is_last {
            self.ending = Ending::Done;
        }
        is_last
    }

    /// Gives up the messages whose deadline is `arrival` or earlier and returns their names.
    pub(crate) fn expire(&mut self, arrival: Instant) -> SmallVec<[MessageToken; 2]> {
        let mut expired = SmallVec::new();
        while let Some((_, token)) =
            self.deadlines.first().copied().filter(|(deadline, _)| *deadline <= arrival)
        {
            self.deadlines.pop_first();
            let place = self.unordered.keys().find(|(_, _, other)| *other == token).copied();
            self.remove(place.map_or(Next::Ordered(token), Next::Unordered));
            expired.push(token);
        }
        expired
    }

    /// The earliest deadline of a message that waits.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    fn may_order(&self) -> bool {
        self.unacked.first_key_value().is_none_or(|(first, _)| self.next_sseq - first < MOST_ORDERED)
    }

    /// The bytes of the end, if it waits.
    fn end_size(&self) -> Option<usize> {
        matches!(self.ending, Ending::Waits { .. }).then_some(StreamEnd::LEN)
    }

    /// The next message: the more urgent of the first ordered one, if one may be sent, and the first unordered one.
    fn next_message(&self) -> Option<(Next, &Waiting)> {
        let ordered = self.ordered.first_key_value().filter(|_| self.may_order());
        let unordered = self.unordered.first_key_value();
        match (ordered, unordered) {
            (Some((token, message)), Some((place, _))) if message.place(*token) <= *place => {
                Some((Next::Ordered(*token), message))
            }
            (_, Some((place, message))) => Some((Next::Unordered(*place), message)),
            (Some((token, message)), None) => Some((Next::Ordered(*token), message)),
            (None, None) => None,
        }
    }

    fn remove(&mut self, next: Next) -> Option<Waiting> {
        let message = match next {
            Next::Ordered(token) => self.ordered.remove(&token),
            Next::Unordered(place) => self.unordered.remove(&place),
        };
        let message = message?;
        self.waiting -= message.data.len() as u64;
        if let Some(deadline) = message.deadline {
            self.deadlines.remove(&(deadline, next.token()));
        }
        Some(message)
    }

    fn take_sseq(&mut self) -> Sseq {
        let sseq = sseq_of(self.next_sseq);
        self.next_sseq += 1;
        sseq
    }

    /// Removes at most `most` bytes, without a copy if they were written together.
    fn take_bytes(&mut self, most: usize) -> Bytes {
        let most = most.min(usize_of(self.waiting));
        self.waiting -= most as u64;
        if let Some(first) = self.bytes.front_mut()
            && first.len() > most
        {
            return first.split_to(most);
        }
        let mut joined = BytesMut::new();
        while let Some(mut first) = self.bytes.pop_front() {
            let wanted = most - joined.len();
            if joined.is_empty() && first.len() == most {
                return first;
            }
            if first.len() > wanted {
                joined.extend_from_slice(&first.split_to(wanted));
                self.bytes.push_front(first);
                break;
            }
            joined.extend_from_slice(&first);
            if joined.len() == most {
                break;
            }
        }
        joined.freeze()
    }
}

impl Waiting {
    fn place(&self, token: MessageToken) -> Place {
        (Reverse(self.urgency), self.deadline.map_or(u64::MAX, Instant::as_nanos), token)
    }
}

impl Next {
    fn token(self) -> MessageToken {
        match self {
            Self::Ordered(token) | Self::Unordered((_, _, token)) => token,
        }
    }
}

impl Slice {
    fn whole(data: Bytes, protocol: u32, sseq: Sseq) -> Self {
        Self { data, fragment: Fragment::Whole, unordered: false, sseq, protocol, token: None }
    }
}

fn usize_of(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[path = "outbox/tests.rs"]
mod tests;
