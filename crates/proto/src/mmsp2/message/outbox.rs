//! Messages of a sending half: the next one, partially sent ones, and abandoned ones.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use bytes::Bytes;
use manyway_wire::frame::encode_padding;
use manyway_wire::mmsp2::{
    MessageData, MessageId, MessagePlace, Skipped, encode_message_header, encode_skip, message_overhead,
};
use manyway_wire::{StreamId, Writer};
use smallvec::SmallVec;

use super::cost;
use super::inbox::MOST_INCOMPLETE;
use super::outgoing::Outgoing;
use crate::message::OVERHEAD;
use crate::packet::content::{Contents, SentContent};
use crate::stream::priority::{Rank, Urgency};
use crate::{Instant, MessageOptions, MessageStatistics, MessageToken, Order};

/// Messages from the application's call to the peer's acknowledgement.
///
/// The whole cost of a partially sent message is reserved, so that it can always be completed; the unsent part of an
/// abandoned message is refunded.
#[derive(Debug)]
pub(crate) struct Outbox {
    stream: StreamId,
    /// Unsent messages, in the order of sending.
    ordered: BTreeMap<MessageToken, Waiting>,
    unordered: BTreeMap<Place, Waiting>,
    partially_sent: BTreeMap<MessageId, Outgoing>,
    /// Partially sent messages with data to send, the most urgent first.
    sending: BTreeSet<(Reverse<Urgency>, MessageId)>,
    /// Messages that the peer must skip and may not know of yet, with the highest offset that was sent.
    skips: BTreeMap<MessageId, u32>,
    /// The part of them to report, for the first time or again.
    due_skips: BTreeSet<MessageId>,
    /// When messages that wait, or have data to retransmit, expire.
    expiries: BTreeSet<(Instant, Entry)>,
    tokens: u64,
    numbers: Numbers,
    sums: Sums,
    refund: u64,
    abandoned: VecDeque<MessageToken>,
    statistics: MessageStatistics,
}

/// A message that was not sent yet.
#[derive(Debug)]
struct Waiting {
    data: Bytes,
    options: MessageOptions,
    urgency: Urgency,
    expires: Option<Instant>,
}

/// The order of waiting unordered messages: urgency, expiry, age.
type Place = (Reverse<Urgency>, EndOfUse, MessageToken);

/// An earlier expiry is less; never is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EndOfUse {
    At(Instant),
    Never,
}

/// A message with an expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    Ordered(MessageToken),
    Unordered(Place),
    Begun(MessageId),
}

/// The next number of each kind.
#[derive(Debug, Default)]
struct Numbers {
    ordered: u64,
    unordered: u64,
}

#[derive(Debug, Default)]
struct Sums {
    /// Cost of all messages here.
    held: u64,
    /// Bytes of waiting messages, at least one for each.
    waiting: u64,
    /// Units of partially sent messages that were never sent.
    unsent: u64,
    /// Units of partially sent messages to retransmit.
    retransmissions: u64,
    /// Partially sent messages that were cut into several pieces.
    cut: usize,
}

/// The length field of a block counts up to this.
const LARGEST_BLOCK: usize = 0xffff;
/// A message at the end of a packet is not cut to fewer bytes than this.
const SMALLEST_CUT: u64 = 32;
/// Messages in one SKIP: as many as the contents of a packet can record.
const MOST_SKIPPED: usize = 32;

impl Outbox {
    pub(crate) fn new(stream: StreamId) -> Self {
        Self {
            stream,
            ordered: BTreeMap::new(),
            unordered: BTreeMap::new(),
            partially_sent: BTreeMap::new(),
            sending: BTreeSet::new(),
            skips: BTreeMap::new(),
            due_skips: BTreeSet::new(),
            expiries: BTreeSet::new(),
            tokens: 0,
            numbers: Numbers::default(),
            sums: Sums::default(),
            refund: 0,
            abandoned: VecDeque::new(),
            statistics: MessageStatistics::default(),
        }
    }

    /// Takes a message below 2³² bytes; a missing class or priority is that of `urgency`.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        data: Bytes,
        options: MessageOptions,
        urgency: Urgency,
    ) -> MessageToken {
        let token = MessageToken(self.tokens);
        self.tokens += 1;
        let urgency = Urgency {
            priority: options.priority.unwrap_or(urgency.priority),
            class: options.class.unwrap_or(urgency.class),
        };
        let expires = options.lifetime.map(|lifetime| now + lifetime);
        let waiting = Waiting { data, options, urgency, expires };
        self.sums.held += waiting.cost();
        self.sums.waiting += waiting.weight();
        let entry = match options.order {
            Order::Ordered => {
                self.ordered.insert(token, waiting);
                Entry::Ordered(token)
            }
            Order::Unordered => {
                let place = (Reverse(urgency), expires.map_or(EndOfUse::Never, EndOfUse::At), token);
                self.unordered.insert(place, waiting);
                Entry::Unordered(place)
            }
        };
        if let Some(expires) = expires {
            self.expiries.insert((expires, entry));
        }
        token
    }

    /// The next message: the more urgent of the first ordered and the first unordered one.
    fn first(&self) -> Option<(Entry, &Waiting)> {
        let ordered = self.ordered.first_key_value();
        let unordered = self.unordered.first_key_value();
        let place_of = |token: MessageToken, waiting: &Waiting| {
            (Reverse(waiting.urgency), waiting.expires.map_or(EndOfUse::Never, EndOfUse::At), token)
        };
        match (ordered, unordered) {
            (Some((token, first)), Some((place, _))) if place_of(*token, first) <= *place => {
                Some((Entry::Ordered(*token), first))
            }
            (_, Some((place, first))) => Some((Entry::Unordered(*place), first)),
            (Some((token, first)), None) => Some((Entry::Ordered(*token), first)),
            (None, None) => None,
        }
    }

    /// The first message behind `skip` bytes of others. Ordered messages keep their place: there is none while one waits.
    fn after(&self, skip: u64) -> Option<(Entry, &Waiting)> {
        if skip == 0 {
            return self.first();
        }
        if !self.ordered.is_empty() || skip >= self.sums.waiting {
            return None;
        }
        // Bytes before a message.
        let mut before = 0;
        let found = if skip <= self.sums.waiting / 2 {
            self.unordered.iter().find(|(_, waiting)| {
                let is_behind = before >= skip;
                before += waiting.weight();
                is_behind
            })
        } else {
            // The same from the end, which is nearer.
            before = self.sums.waiting;
            let behind = self.unordered.iter().rev().take_while(|(_, waiting)| {
                before -= waiting.weight();
                before >= skip
            });
            behind.last()
        };
        // Only messages as urgent as the first may overtake it.
        let urgency = self.unordered.first_key_value().map(|(_, first)| first.urgency)?;
        let found = found.filter(|(_, waiting)| waiting.urgency == urgency);
        found.map(|(place, waiting)| (Entry::Unordered(*place), waiting))
    }

    /// Whether messages can be left out for now.
    pub(crate) fn can_be_left_out(&self) -> bool {
        self.ordered.is_empty()
    }

    /// The cost of the next message, if one waits.
    pub(crate) fn next_cost(&self) -> Option<u64> {
        self.first().map(|(_, first)| first.cost())
    }

    /// The rank of the next message.
    pub(crate) fn rank_of_new(&self) -> Option<Rank> {
        self.first().map(|(_, first)| Rank { urgency: first.urgency, deadline: first.expires })
    }

    /// The rank of the next piece of a partially sent message.
    pub(crate) fn rank_of_partially_sent(&self) -> Option<Rank> {
        let (Reverse(urgency), id) = self.sending.first()?;
        let deadline = self.partially_sent.get(id).and_then(|message| message.expires);
        Some(Rank { urgency: *urgency, deadline })
    }

    /// Unsent bytes of the next message.
    pub(crate) fn next_left(&self) -> u64 {
        self.first().map_or(0, |(_, first)| first.weight())
    }

    /// Bytes of waiting messages, at least one for each.
    pub(crate) fn waiting(&self) -> u64 {
        self.sums.waiting
    }

    /// Unsent bytes of partially sent messages; they have their credit.
    pub(crate) fn unsent(&self) -> u64 {
        self.sums.unsent
    }

    /// Bytes of partially sent messages to retransmit.
    pub(crate) fn retransmissions(&self) -> u64 {
        self.sums.retransmissions
    }

    /// Cost of all messages here.
    pub(crate) fn held(&self) -> u64 {
        self.sums.held
    }

    /// Whether all messages were sent once: the FIN may follow.
    pub(crate) fn is_sent(&self) -> bool {
        self.sums.waiting == 0 && self.sums.unsent == 0
    }

    /// Whether the peer has everything, or knows what it will not get.
    pub(crate) fn is_settled(&self) -> bool {
        self.sums.held == 0 && self.skips.is_empty()
    }

    /// Whether as many messages are cut as the peer permits: no other is started before one of them is complete.
    pub(crate) fn has_too_many_cut(&self) -> bool {
        self.sums.cut >= MOST_INCOMPLETE
    }

    /// The cost of the message that [`Self::write_next`] would start.
    pub(crate) fn cost_after(&self, skip: u64) -> Option<u64> {
        self.after(skip).map(|(_, waiting)| waiting.cost())
    }

    /// Starts the next message behind `skip` bytes of others, and writes its first piece; returns its cost. `None` if it
    /// does not fit.
    pub(crate) fn write_next(&mut self, skip: u64, w: &mut Writer<'_>) -> Option<(SentContent, u64)> {
        let (entry, first) = self.after(skip)?;
        let message = self.id_of(&entry);
        let (length, protocol) = (first.data.len() as u64, first.options.protocol);
        let room = self.room(w, message, MessagePlace::Begin { protocol })?;
        if room < length.min(SMALLEST_CUT) {
            return None;
        }
        let (token, waiting) = self.take_waiting(entry)?;
        let cost = waiting.cost();
        // The total does not change: the message only moves.
        self.sums.held += cost;
        let numbers = &mut self.numbers;
        let number = if message.unordered { &mut numbers.unordered } else { &mut numbers.ordered };
        *number += 1;
        self.statistics.sent += 1;
        let mut outgoing = Outgoing::new(waiting.data, protocol, token, waiting.urgency);
        outgoing.limit(waiting.expires, waiting.options.transmissions);
        self.count_in(message, &outgoing);
        self.partially_sent.insert(message, outgoing);
        let content = self.write_piece(message, w)?;
        Some((content, cost))
    }

    fn id_of(&self, entry: &Entry) -> MessageId {
        match entry {
            Entry::Ordered(_) => MessageId::ordered(self.numbers.ordered),
            Entry::Unordered(_) => MessageId::unordered(self.numbers.unordered),
            Entry::Begun(id) => *id,
        }
    }

    fn take_waiting(&mut self, entry: Entry) -> Option<(MessageToken, Waiting)> {
        let (token, waiting) = match entry {
            Entry::Ordered(token) => (token, self.ordered.remove(&token)?),
            Entry::Unordered(place) => (place.2, self.unordered.remove(&place)?),
            Entry::Begun(_) => return None,
        };
        if let Some(expires) = waiting.expires {
            self.expiries.remove(&(expires, entry));
        }
        self.sums.held -= waiting.cost();
        self.sums.waiting -= waiting.weight();
        Some((token, waiting))
    }

    /// Writes a piece of a partially sent message; `None` if none fits.
    pub(crate) fn write_partially_sent(&mut self, w: &mut Writer<'_>) -> Option<SentContent> {
        let full = self.has_too_many_cut();
        let (_, id) = self.sending.iter().find(|(_, id)| self.fits(w, *id, full)).copied()?;
        self.write_piece(id, w)
    }

    /// Whether a piece of a partially sent message may go into the rest of a packet. While too many messages are cut
    /// already, an uncut one must fit as a whole.
    fn fits(&self, w: &Writer<'_>, id: MessageId, full: bool) -> bool {
        let Some(message) = self.partially_sent.get(&id) else { return false };
        let units = message.next();
        let place = MessagePlace::new(u32::try_from(units.start).unwrap_or(u32::MAX), message.protocol);
        let Some(room) = self.room(w, id, place) else { return false };
        message.cut(units.clone(), room).is_some_and(|cut| {
            let may_be_cut = room >= SMALLEST_CUT && (message.is_cut || !full);
            cut == units || may_be_cut
        })
    }

    fn room(&self, w: &Writer<'_>, message: MessageId, place: MessagePlace) -> Option<u64> {
        let overhead = message_overhead(self.stream, message, place);
        w.remaining().min(LARGEST_BLOCK).checked_sub(overhead).map(|room| room as u64)
    }

    fn write_piece(&mut self, id: MessageId, w: &mut Writer<'_>) -> Option<SentContent> {
        let next = self.partially_sent.get(&id)?.next();
        let content = self.write_units(id, next, w)?;
        if let Some(units) = content.units() {
            self.change(id, |message| message.on_sent(units));
        }
        Some(content)
    }

    /// Writes units of a partially sent message, as many as fit.
    fn write_units(&self, id: MessageId, units: Range<u64>, w: &mut Writer<'_>) -> Option<SentContent> {
        let message = self.partially_sent.get(&id)?;
        let offset = u32::try_from(units.start).ok()?;
        let place = MessagePlace::new(offset, message.protocol);
        let room = self.room(w, id, place)?;
        let units = message.cut(units, room)?;
        let (data, end) = message.bytes(&units);
        let length = u16::try_from(data.len()).ok()?;
        let head = MessageData { stream: self.stream, message: id, place, end, data: &[] };
        encode_message_header(w, &head, data.len());
        w.bytes(data);
        encode_padding(w, message_overhead(self.stream, id, place) + data.len());
        Some(SentContent::Message { stream: self.stream, key: id.into(), offset, length, end })
    }

    /// Writes a piece of a message again; returns the unit reached. `None` if nothing fits.
    pub(crate) fn write_copy(
        &self,
        id: MessageId,
        units: Range<u64>,
        w: &mut Writer<'_>,
    ) -> Option<(u64, SentContent)> {
        let content = self.write_units(id, units, w)?;
        Some((content.units()?.end, content))
    }

    /// Whether a piece of a message has not arrived and may be sent again, without a limit of transmissions.
    pub(crate) fn needs_copy(&self, id: MessageId, units: &Range<u64>) -> bool {
        self.partially_sent.get(&id).is_some_and(|message| message.needs_copy(units))
    }

    /// Changes a partially sent message and updates the sums.
    fn change<T>(&mut self, id: MessageId, act: impl FnOnce(&mut Outgoing) -> T) -> Option<T> {
        let mut message = self.partially_sent.remove(&id)?;
        self.count_out(id, &message);
        let result = act(&mut message);
        self.count_in(id, &message);
        self.partially_sent.insert(id, message);
        Some(result)
    }

    fn count_in(&mut self, id: MessageId, message: &Outgoing) {
        self.sums.unsent += message.unsent();
        self.sums.retransmissions += message.retransmissions();
        self.sums.cut += usize::from(message.is_cut);
        if message.wants() {
            self.sending.insert((Reverse(message.urgency), id));
            // A completely sent message is not given up: it may arrive in time.
            if let Some(expires) = message.expires {
                self.expiries.insert((expires, Entry::Begun(id)));
            }
        }
    }

    fn count_out(&mut self, id: MessageId, message: &Outgoing) {
        self.sums.unsent -= message.unsent();
        self.sums.retransmissions -= message.retransmissions();
        self.sums.cut -= usize::from(message.is_cut);
        if message.wants() {
            self.sending.remove(&(Reverse(message.urgency), id));
            if let Some(expires) = message.expires {
                self.expiries.remove(&(expires, Entry::Begun(id)));
            }
        }
    }

    /// A piece arrived.
    pub(crate) fn on_delivered(&mut self, now: Instant, id: MessageId, units: Range<u64>) {
        if self.change(id, |message| message.on_delivered(units)) == Some(true)
            && let Some(message) = self.end(id)
        {
            self.statistics.delivered += 1;
            self.statistics.late += u64::from(message.expires.is_some_and(|expires| expires < now));
        }
    }

    /// A piece was lost, or its path is suspect.
    pub(crate) fn on_lost(&mut self, id: MessageId, units: Range<u64>) {
        if self.change(id, |message| message.on_lost(units)) == Some(false) {
            self.abandon(id);
        }
    }

    /// Removes a partially sent message.
    fn end(&mut self, id: MessageId) -> Option<Outgoing> {
        let message = self.partially_sent.remove(&id)?;
        self.count_out(id, &message);
        self.sums.held -= OVERHEAD + message.data.len() as u64;
        Some(message)
    }

    /// Gives up a partially sent message: the peer will be notified.
    fn abandon(&mut self, id: MessageId) {
        let Some(message) = self.end(id) else { return };
        let reach = message.reach();
        self.refund += message.data.len() as u64 - u64::from(reach);
        self.skips.insert(id, reach);
        self.due_skips.insert(id);
        self.statistics.abandoned += 1;
        self.abandoned.push_back(message.token);
    }

    /// Gives up expired messages: those that cannot arrive before `arrival`, if sent now.
    pub(crate) fn expire(&mut self, arrival: Instant) {
        while let Some((expires, entry)) = self.expiries.first().copied() {
            if expires > arrival {
                return;
            }
            self.expiries.pop_first();
            if let Entry::Begun(id) = entry {
                self.abandon(id);
            } else if let Some((token, _)) = self.take_waiting(entry) {
                self.statistics.abandoned += 1;
                self.statistics.dropped += 1;
                self.abandoned.push_back(token);
            }
        }
    }

    /// When the next message that waits, or is retransmitted, expires.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.expiries.first().map(|(expires, _)| *expires)
    }

    /// Whether the peer has to be notified of abandoned messages.
    pub(crate) fn wants_skip(&self) -> bool {
        !self.due_skips.is_empty()
    }

    /// Writes skips of abandoned messages as far as they fit; true if all fit.
    pub(crate) fn write_skips(&mut self, w: &mut Writer<'_>, contents: &mut Contents) -> bool {
        self.write_skips_of(false, w, contents) && self.write_skips_of(true, w, contents)
    }

    fn write_skips_of(&mut self, unordered: bool, w: &mut Writer<'_>, contents: &mut Contents) -> bool {
        loop {
            let kind = self.due_skips.iter().filter(|id| id.unordered == unordered);
            let skips = kind.filter_map(|id| Some((*id, *self.skips.get(id)?)));
            let due: SmallVec<[_; MOST_SKIPPED]> = skips.take(MOST_SKIPPED).collect();
            if due.is_empty() {
                return true;
            }
            let entries = due.iter().map(|(id, reach)| Skipped { number: id.number, reach: *reach });
            let written = encode_skip(w, self.stream, unordered, entries);
            if written == 0 {
                return false;
            }
            for (id, _) in due.iter().take(written) {
                contents.push(SentContent::Skip { stream: self.stream, key: (*id).into() });
                self.due_skips.remove(id);
            }
        }
    }

    /// The peer knows that a message was given up.
    pub(crate) fn on_skip_delivered(&mut self, id: MessageId) {
        self.skips.remove(&id);
        self.due_skips.remove(&id);
    }

    /// The peer may not know that a message was given up.
    pub(crate) fn on_skip_lost(&mut self, id: MessageId) {
        if self.skips.contains_key(&id) {
            self.due_skips.insert(id);
        }
    }

    /// Forgets everything: the stream is abandoned.
    pub(crate) fn clear(&mut self) {
        let unreached: u64 = self
            .partially_sent
            .values()
            .map(|message| message.data.len() as u64 - u64::from(message.reach()))
            .sum();
        let forgotten = self.partially_sent.len() + self.ordered.len() + self.unordered.len();
        self.refund += unreached;
        self.statistics.abandoned += forgotten as u64;
        self.statistics.dropped += (self.ordered.len() + self.unordered.len()) as u64;
        self.ordered.clear();
        self.unordered.clear();
        self.partially_sent.clear();
        self.sending.clear();
        self.skips.clear();
        self.due_skips.clear();
        self.expiries.clear();
        self.sums = Sums::default();
    }

    /// Credit that was reserved and not used; returns it once.
    pub(crate) fn take_refund(&mut self) -> u64 {
        std::mem::take(&mut self.refund)
    }

    /// The next abandoned message; returns it once.
    pub(crate) fn take_abandoned(&mut self) -> Option<MessageToken> {
        self.abandoned.pop_front()
    }

    /// Statistics since the last call.
    pub(crate) fn take_statistics(&mut self) -> MessageStatistics {
        std::mem::take(&mut self.statistics)
    }
}

impl Waiting {
    fn cost(&self) -> u64 {
        cost(u32::try_from(self.data.len()).unwrap_or(u32::MAX))
    }

    fn weight(&self) -> u64 {
        (self.data.len() as u64).max(1)
    }
}

#[cfg(test)]
#[path = "outbox/tests.rs"]
mod tests;
