//! ACK queries: an end that sends only acknowledgements asks now and then whether they arrive (RFC 9000, section
//! 13.2.4).
//!
//! The peer does not acknowledge an ACK-only packet, so an end that only receives would report each gap for ever. An
//! ACK query is such a packet made ack-eliciting. It is not in flight and arms no timer: a missing reply says nothing
//! about the path, because the reply may wait behind all that the peer sends. The delay of a reply is an ordinary RTT
//! sample.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::Instant;
use crate::packet::content::Contents;

/// Most queries remembered; older ones count as lost.
const MOST: usize = 8;
/// Shortest time between two queries.
const LEAST_WAIT: Duration = Duration::from_millis(10);
/// Longest time between two queries, unless the round trip is longer.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// An ACK-only packet that elicits an acknowledgement.
#[derive(Debug, Clone)]
pub(crate) struct AckQuery {
    pub(crate) packet_number: u64,
    pub(crate) time_sent: Instant,
    pub(crate) contents: Contents,
}

/// The ACK queries of one path.
#[derive(Debug, Default)]
pub(crate) struct AckQueries {
    /// Unanswered queries, oldest first.
    waiting: VecDeque<AckQuery>,
    /// When the last query left.
    last_at: Option<Instant>,
    /// How many queries left since the last reply.
    unanswered: u32,
}

impl AckQueries {
    /// Whether the next query may go: one round trip after the last one, doubled with each unanswered query, because
    /// replies may take far longer than the round trip that an idle path once had.
    pub(crate) fn may_query(&self, now: Instant, smoothed_rtt: Duration) -> bool {
        let Some(last_at) = self.last_at else { return true };
        let once = smoothed_rtt.max(LEAST_WAIT);
        // 2^10 times 10 ms is above the longest wait.
        let wait = once.saturating_mul(1 << self.unanswered.saturating_sub(1).min(10));
        now - last_at >= wait.min(LONGEST_WAIT.max(once))
    }

    /// Records a query that left.
    pub(crate) fn on_query_sent(&mut self, query: AckQuery) {
        if self.waiting.len() >= MOST {
            self.waiting.pop_front();
        }
        self.last_at = Some(query.time_sent);
        self.waiting.push_back(query);
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// Removes the queries in a range, oldest first.
    pub(crate) fn on_acked(&mut self, range: &RangeInclusive<u64>, mut arrived: impl FnMut(AckQuery)) {
        let from = self.waiting.partition_point(|query| query.packet_number < *range.start());
        let end = self.waiting.partition_point(|query| query.packet_number <= *range.end());
        if from < end {
            self.unanswered = 0;
            self.waiting.drain(from..end).for_each(&mut arrived);
        }
    }

    /// Replies are of no use any more; frees the memory.
    pub(crate) fn forget(&mut self) {
        self.waiting = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use manyway_wire::PathId;

    use super::{AckQueries, AckQuery, MOST};
    use crate::Instant;
    use crate::packet::content::{Contents, SentContent};

    const MS: Duration = Duration::from_millis(1);

    fn query(time_sent: Instant, packet_number: u64) -> AckQuery {
        let contents = Contents::from_iter([SentContent::PathAck { path: PathId(1), largest: 7 }]);
        AckQuery { packet_number, time_sent, contents }
    }

    #[test]
    fn a_query_goes_once_in_a_round_trip_and_backs_off_without_replies() {
        let mut queries = AckQueries::default();
        let mut now = Instant::from_nanos(0);
        let mut waits = Vec::new();
        for number in 0..9 {
            let last_at = now;
            while !queries.may_query(now, 40 * MS) {
                now += 10 * MS;
            }
            waits.push((now - last_at).as_millis());
            queries.on_query_sent(query(now, number));
        }
        assert_eq!(waits, [0, 40, 80, 160, 320, 640, 1280, 2000, 2000]);
        queries.on_acked(&(8..=8), drop);
        assert!(!queries.may_query(now + 39 * MS, 40 * MS) && queries.may_query(now + 40 * MS, 40 * MS));
    }

    #[test]
    fn a_reply_reports_arrivals_and_memory_stays_bounded() {
        let mut queries = AckQueries::default();
        for number in 0..20 {
            queries.on_query_sent(query(Instant::from_nanos(0), number));
        }
        assert_eq!(queries.waiting.len(), MOST);
        let mut arrived = Vec::new();
        queries.on_acked(&(0..=13), |query| arrived.push(query.packet_number));
        queries.on_acked(&(0..=16), |query| arrived.push(query.packet_number));
        queries.on_acked(&(0..=16), |query| panic!("{query:?} was told before"));
        queries.on_acked(&(18..=19), |query| arrived.push(query.packet_number));
        assert_eq!((arrived, queries.waiting.len()), (vec![12, 13, 14, 15, 16, 18, 19], 1));
    }
}
