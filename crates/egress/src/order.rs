//! Puts the datagrams of a flow back into the order in which they were sent, within a bounded time; the packets of a lane,
//! too.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::quota::Quota;

/// What has a place in an order.
pub(crate) trait Numbered {
    /// Its number, modulo 2³².
    fn number(&self) -> u32;

    /// Its bytes, as they count while it waits.
    fn size(&self) -> usize;
}

/// A resequencing buffer. A datagram that arrives ahead of others waits for them, but only as long as they lately took:
/// the buffer learns by how much late ones are late, so it hardly delays a flow whose paths deliver in order. A late
/// datagram is delivered at once, out of order: whoever cannot use it drops it.
///
/// It delays a datagram by at most [`LONGEST`], or [`LONGEST_OF_FAST`] while more than [`FAST`] bytes wait. It holds at most
/// [`MOST_BYTES`], and no more than the quota has left.
// egress 8.6
#[derive(Debug)]
pub(crate) struct Resequencer<T> {
    /// The number after the last that was delivered in order.
    next: u64,
    /// Ahead of a gap, with their arrival.
    waiting: BTreeMap<u64, (Instant, T)>,
    waiting_bytes: usize,
    /// When the gap before `waiting` was noticed.
    gap_since: Option<Instant>,
    ready: VecDeque<T>,
    /// Gaps that were not waited for any longer: the number after each, its first number, and when it was noticed.
    given_up: BTreeMap<u64, (u64, Instant)>,
    lateness: Lateness,
    /// What waits is taken from it.
    quota: Quota,
}

impl<T: Numbered> Resequencer<T> {
    pub(crate) fn new(now: Instant, quota: &Quota) -> Self {
        Self {
            next: 0,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            gap_since: None,
            ready: VecDeque::new(),
            given_up: BTreeMap::new(),
            lateness: Lateness { now: FIRST, before: FIRST, since: now },
            quota: quota.clone(),
        }
    }

    /// Takes a datagram. Its number is taken for the nearest one to those before; a repeated number replaces what waits.
    pub(crate) fn push(&mut self, now: Instant, datagram: T) {
        let number = nearest(self.next, datagram.number());
        if number < self.next {
            let gap = self.given_up.range(number.saturating_add(1)..).next();
            if let Some((_, (_, since))) = gap.filter(|(_, (first, _))| *first <= number) {
                self.lateness.note(now, now.saturating_duration_since(*since));
            }
            self.ready.push_back(datagram);
            return;
        }
        let size = datagram.size();
        while !self.quota.take(size) {
            if self.waiting.is_empty() {
                // It cannot wait.
                self.next = number.saturating_add(1);
                self.ready.push_back(datagram);
                return;
            }
            self.give_up_gap();
        }
        self.waiting_bytes += size;
        if let Some((_, replaced)) = self.waiting.insert(number, (now, datagram)) {
            self.release(replaced.size());
        }
        if number == self.next {
            if let Some(since) = self.gap_since {
                self.lateness.note(now, now.saturating_duration_since(since));
            }
            self.advance();
        } else {
            self.gap_since.get_or_insert(now);
            while self.waiting_bytes > MOST_BYTES || self.waiting.len() > MOST {
                self.give_up_gap();
            }
        }
    }

    /// Takes the next datagram that has to wait no longer.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<T> {
        while self.ready.is_empty() && self.deadline().is_some_and(|deadline| deadline <= now) {
            self.give_up_gap();
        }
        self.ready.pop_front()
    }

    /// Takes the next datagram, whatever is missing before it.
    pub(crate) fn drain(&mut self) -> Option<T> {
        if self.ready.is_empty() {
            self.give_up_gap();
        }
        self.ready.pop_front()
    }

    /// When the next datagram is due at the latest.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let longest = if self.waiting_bytes > FAST { LONGEST_OF_FAST } else { LONGEST };
        self.gap_since.map(|since| since + self.lateness.patience().min(longest))
    }

    /// Goes on behind the first gap.
    fn give_up_gap(&mut self) {
        let (Some((&first, _)), Some(since)) = (self.waiting.first_key_value(), self.gap_since) else {
            return;
        };
        self.given_up.insert(first, (self.next, since));
        if self.given_up.len() > MOST_GAPS {
            self.given_up.pop_first();
        }
        self.next = first;
        self.advance();
    }

    /// Makes ready what follows without a gap.
    fn advance(&mut self) {
        while let Some(entry) = self.waiting.first_entry().filter(|entry| *entry.key() == self.next) {
            let (_, datagram) = entry.remove();
            self.release(datagram.size());
            self.ready.push_back(datagram);
            self.next = self.next.saturating_add(1);
        }
        self.gap_since = self.waiting.first_key_value().map(|(_, (arrival, _))| *arrival);
    }

    fn release(&mut self, bytes: usize) {
        self.waiting_bytes -= bytes;
        self.quota.give_back(bytes);
    }
}

/// The number that is nearest to `next` among those which are `low` modulo 2³².
fn nearest(next: u64, low: u32) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2³²")]
    let ahead = low.wrapping_sub(next as u32);
    let behind = u64::from(ahead.wrapping_neg());
    if ahead >> 31 == 0 || behind > next { next.saturating_add(u64::from(ahead)) } else { next - behind }
}

impl<T> Drop for Resequencer<T> {
    fn drop(&mut self) {
        self.quota.give_back(self.waiting_bytes);
    }
}

/// How late datagrams were that others had overtaken: the most in this period and in the one before.
#[derive(Debug)]
struct Lateness {
    now: Duration,
    before: Duration,
    since: Instant,
}

impl Lateness {
    fn note(&mut self, now: Instant, late: Duration) {
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed >= PERIOD {
            self.before = if elapsed < 2 * PERIOD { self.now } else { Duration::ZERO };
            self.now = Duration::ZERO;
            self.since = now;
        }
        self.now = self.now.max(late);
    }

    /// How long a datagram waits for one before it.
    fn patience(&self) -> Duration {
        (self.now.max(self.before) * 5 / 4).max(SHORTEST)
    }
}

/// Waiting time before anything was measured.
const FIRST: Duration = Duration::from_millis(60);
/// Bounds of the waiting time.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(100);
/// The longest time while more than [`FAST`] bytes wait: those of a call are fewer, and a download takes disorder for loss.
/// Its sender keeps a datagram no longer (8.5).
const LONGEST_OF_FAST: Duration = Duration::from_millis(250);
const FAST: usize = 256 << 10;
/// A measured lateness counts for one to two of these.
const PERIOD: Duration = Duration::from_secs(5);
/// Most bytes and datagrams that wait, as far as the quota allows.
const MOST_BYTES: usize = 2 << 20;
const MOST: usize = 4096;
/// Gaps that are remembered.
const MOST_GAPS: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::datagram::Datagram;

    fn datagram(number: u64) -> Datagram {
        sized(number, 0)
    }

    fn sized(number: u64, size: usize) -> Datagram {
        Datagram {
            number: u32::try_from(number).unwrap(),
            address: None,
            error: None,
            payload: vec![0; size].into(),
        }
    }

    fn numbers(buffer: &mut Resequencer<Datagram>, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| buffer.pop(now)).map(|datagram| datagram.number.into()).collect()
    }

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn what_arrives_in_order_is_not_delayed() {
        let now = Instant::now();
        let mut buffer = Resequencer::<Datagram>::new(now, &Quota::unlimited());
        for number in 0..5 {
            buffer.push(now, datagram(number));
            assert_eq!(numbers(&mut buffer, now), [number]);
        }
        assert_eq!(buffer.deadline(), None);
    }

    #[test]
    fn an_overtaken_datagram_is_put_back_in_its_place() {
        let now = Instant::now();
        let mut buffer = Resequencer::<Datagram>::new(now, &Quota::unlimited());
        for number in [0, 2, 3] {
            buffer.push(now, datagram(number));
        }
        assert_eq!(numbers(&mut buffer, now), [0]);
        buffer.push(now + ms(10), datagram(1));
        assert_eq!(numbers(&mut buffer, now + ms(10)), [1, 2, 3]);
    }

    #[test]
    fn a_lost_datagram_delays_those_behind_it_by_the_measured_lateness_alone() {
        let mut now = Instant::now();
        let mut buffer = Resequencer::<Datagram>::new(now, &Quota::unlimited());
        // For 12 s nothing is late by more than 8 ms.
        for number in (0..1200).step_by(2) {
            buffer.push(now, datagram(number + 1));
            assert_eq!(numbers(&mut buffer, now), []);
            buffer.push(now + ms(8), datagram(number));
            assert_eq!(numbers(&mut buffer, now + ms(8)), [number, number + 1]);
            now += ms(20);
        }
        buffer.push(now, datagram(1201));
        assert_eq!(buffer.deadline(), Some(now + ms(10)));
        assert_eq!(numbers(&mut buffer, now + ms(9)), []);
        assert_eq!(numbers(&mut buffer, now + ms(10)), [1201]);
        // It was not lost: it is delivered, and the next gap is waited for longer.
        buffer.push(now + ms(40), datagram(1200));
        assert_eq!(numbers(&mut buffer, now + ms(40)), [1200]);
        buffer.push(now + ms(41), datagram(1203));
        assert_eq!(buffer.deadline(), Some(now + ms(91)));
    }

    #[test]
    fn nothing_waits_longer_than_the_limit_however_late_others_were() {
        let now = Instant::now();
        let mut buffer = Resequencer::<Datagram>::new(now, &Quota::unlimited());
        buffer.push(now, datagram(1));
        buffer.push(now + ms(3000), datagram(0));
        assert_eq!(numbers(&mut buffer, now + ms(3000)).len(), 2);
        buffer.push(now + ms(3000), datagram(3));
        assert_eq!(buffer.deadline(), Some(now + ms(3000) + LONGEST));
    }

    #[test]
    fn a_fast_flow_waits_longer_for_what_was_that_late_before() {
        let now = Instant::now();
        let mut buffer = Resequencer::<Datagram>::new(now, &Quota::unlimited());
        buffer.push(now, datagram(1));
        buffer.push(now + ms(160), datagram(0));
        assert_eq!(numbers(&mut buffer, now + ms(160)), [0, 1]);
        let now = now + ms(1000);
        for number in 3..10 {
            buffer.push(now, sized(number, 50_000));
        }
        assert_eq!(buffer.deadline(), Some(now + ms(200)));
        buffer.push(now + ms(160), datagram(2));
        assert_eq!(numbers(&mut buffer, now + ms(160)), Vec::from_iter(2..10));
        // However late others were.
        for number in 11..20 {
            buffer.push(now + ms(500), sized(number, 50_000));
        }
        assert_eq!(numbers(&mut buffer, now + ms(700)), Vec::from_iter(11..20));
        buffer.push(now + ms(3500), datagram(10));
        assert_eq!(numbers(&mut buffer, now + ms(3500)), [10]);
        for number in 21..30 {
            buffer.push(now + ms(3500), sized(number, 50_000));
        }
        assert_eq!(buffer.deadline(), Some(now + ms(3500) + LONGEST_OF_FAST));
    }

    #[test]
    fn the_bytes_that_wait_are_bounded() {
        let now = Instant::now();
        let mut buffer = Resequencer::<Datagram>::new(now, &Quota::unlimited());
        for number in 1..100 {
            buffer.push(now, sized(number, 60_000));
            assert!(buffer.waiting_bytes <= MOST_BYTES);
        }
        let mut buffer = Resequencer::<Datagram>::new(now, &Quota::unlimited());
        for number in 1..10_000 {
            buffer.push(now, datagram(2 * number));
            assert!(buffer.waiting.len() <= MOST && buffer.given_up.len() <= MOST_GAPS);
        }
    }

    #[test]
    fn what_waits_is_taken_from_the_quota_and_without_one_nothing_waits() {
        let now = Instant::now();
        let quota = Quota::new(1, 1, 1, 1000);
        let mut buffer = Resequencer::<Datagram>::new(now, &quota);
        buffer.push(now, sized(1, 600));
        assert_eq!((numbers(&mut buffer, now), quota.free_bytes()), (vec![], 400));
        buffer.push(now, sized(3, 600));
        assert_eq!((numbers(&mut buffer, now), quota.free_bytes()), (vec![1], 400));
        buffer.push(now, sized(9, 2000));
        assert_eq!((numbers(&mut buffer, now), quota.free_bytes()), (vec![3, 9], 1000));
        buffer.push(now, sized(11, 500));
        drop(buffer);
        assert_eq!(quota.free_bytes(), 1000);
    }

    #[test]
    fn numbers_go_on_after_the_largest_and_far_ones_are_taken_for_the_nearest() {
        let end = 1 << 32;
        assert_eq!([nearest(0, 5), nearest(5, 0), nearest(0, u32::MAX)], [5, 0, end - 1]);
        assert_eq!([nearest(end - 1, 2), nearest(end + 3, u32::MAX)], [end + 2, end - 1]);
        assert_eq!(nearest(u64::MAX, 1), u64::MAX);
    }

    proptest! {
        #[test]
        fn each_datagram_is_delivered_once_whatever_the_order(
            arrivals in Just((0..60_u64).collect::<Vec<_>>()).prop_shuffle(),
            steps in prop::collection::vec(0..40_u64, 60),
        ) {
            let mut now = Instant::now();
            let mut buffer = Resequencer::<Datagram>::new(now, &Quota::unlimited());
            let mut delivered = Vec::new();
            for (number, step) in arrivals.into_iter().zip(steps) {
                now += ms(step);
                buffer.push(now, datagram(number));
                delivered.append(&mut numbers(&mut buffer, now));
                prop_assert!(buffer.deadline().is_none_or(|deadline| deadline > now));
            }
            delivered.append(&mut numbers(&mut buffer, now + LONGEST_OF_FAST * 60));
            delivered.sort_unstable();
            prop_assert_eq!(delivered, (0..60).collect::<Vec<_>>());
        }
    }
}
