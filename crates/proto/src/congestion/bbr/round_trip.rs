//! The round trip without a queue, and when to drain the queue to measure it.
//!
//! The draft drains the path when no smaller round trip was measured for 5 s. Here one near the smallest suffices:
//! the queue was then almost empty, and draining it on purpose would cost throughput for nothing. So a path without
//! other flows, one that is idle now and then, and one that is application-limited are hardly ever drained.
//!
//! A round trip here is the mean of a round. On links with jitter, such as radio links, the smallest of all packets
//! may be a third of the usual one without any queue, and a window of two such products would not fill the path.
//!
//! A long round trip is not always caused by the path's own queue. While the peer or other hosts send in the reverse
//! direction, acknowledgements wait behind that traffic. The arrival times of packets distinguish the two delays. The
//! window has space for the data that arrives while acknowledgements wait (spec 9.48): with the two round trips of
//! the draft, a path of 10 ms whose acknowledgements wait for 50 ms would get a third of its bandwidth. And draining
//! the path would not shorten that delay.

use std::num::NonZeroU32;
use std::time::Duration;

use super::AckSample;
use crate::Instant;
use crate::congestion::one_way::difference as one_way_difference;

/// `BBR.MinRTTFilterLen`: the smallest round trip of this time counts.
const MEMORY: Duration = Duration::from_secs(10);
/// `BBR.ProbeRTTInterval`
const INTERVAL: Duration = Duration::from_secs(5);
/// A round trip within this part, or within [`NEAR_MIN`], above the smallest one is near it.
const NEAR: u32 = 16;
const NEAR_MIN: Duration = Duration::from_millis(1);
/// Fewest samples of a mean.
const SAMPLES: u32 = 4;
/// A shorter queueing delay is caused by bursts of this end, or by chance.
const QUEUE_MIN: Duration = Duration::from_millis(2);
/// A full queue causes at least this part of the longest queueing delay of the last seconds.
const FULL: (u32, u32) = (3, 4);
/// No jitter raises the mean of the first round to this multiple of the first round trip: that round built a queue.
const WANDERING: u32 = 4;

/// The smallest round trip, and when to measure it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundTrip {
    /// `BBR.min_rtt`
    minimum: Option<Sample>,
    /// `BBR.probe_rtt_min_delay`: the smallest since the last drain.
    recent: Option<Sample>,
    /// Exists while the path should be drained.
    due: Option<Due>,
    round: Mean,
    /// Average delay of acknowledgements on the return path in the last round, in µs.
    wait_back: u32,
    /// The shortest such delay in this round.
    shortest_wait_back: u32,
    /// By how many µs the last round trip exceeded the smallest one.
    last_queue: u32,
    /// By how many the longest one did, in the present interval of 5 s and in the one before.
    longest_queues: [u32; 2],
    /// Start of the present interval.
    longest_since: Instant,
}

impl Default for RoundTrip {
    fn default() -> Self {
        Self {
            minimum: None,
            recent: None,
            due: None,
            round: Mean::default(),
            wait_back: 0,
            shortest_wait_back: 0,
            last_queue: 0,
            longest_queues: [0; 2],
            longest_since: Instant::from_nanos(0),
        }
    }
}

/// The samples of this round.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    count: u32,
    first_one_way: u32,
    /// In µs.
    rtt_sum: u64,
    /// In µs above the first.
    one_way_sum: i64,
}

impl Mean {
    fn add(&mut self, sample: &Sample) {
        if self.count == 0 {
            self.first_one_way = sample.one_way;
        }
        self.count += 1;
        self.rtt_sum += u64::from(sample.rtt.get());
        self.one_way_sum += i64::from(one_way_difference(sample.one_way, self.first_one_way));
    }

    fn sample(&self, at: Instant) -> Sample {
        let count = self.count.max(1);
        // The mean of 32-bit numbers has 32 bits.
        let rtt = u32::try_from(self.rtt_sum / u64::from(count)).unwrap_or(u32::MAX);
        let above = i32::try_from(self.one_way_sum / i64::from(count)).unwrap_or_default();
        let one_way = self.first_one_way.wrapping_add_signed(above);
        Sample { rtt: NonZeroU32::new(rtt).unwrap_or(NonZeroU32::MIN), one_way, at }
    }
}

/// A drain that is due, or in progress.
#[derive(Debug, Clone, Copy)]
struct Due {
    since: Instant,
    /// The round trip that has not been measured for long.
    missed: Sample,
}

/// A round trip, all in µs: three of these are kept for each path.
#[derive(Debug, Clone, Copy)]
struct Sample {
    rtt: NonZeroU32,
    /// See [`AckSample::latest_one_way`].
    one_way: u32,
    at: Instant,
}

impl Sample {
    fn of(sample: &AckSample) -> Option<Self> {
        let rtt = micros(sample.latest_rtt?);
        // If the peer does not report arrival times, the whole delay counts as delay on the way there.
        let one_way = sample.latest_one_way.unwrap_or(rtt);
        Some(Self { rtt: NonZeroU32::new(rtt).unwrap_or(NonZeroU32::MIN), one_way, at: sample.now })
    }

    fn above(&self, least: &Self) -> u32 {
        self.rtt.get().saturating_sub(least.rtt.get())
    }

    /// How much longer than `least` packets were delayed on their way to the peer.
    fn wait_ahead(&self, least: &Self) -> u32 {
        u32::try_from(one_way_difference(self.one_way, least.one_way)).unwrap_or(0)
    }

    /// How much longer than `least` acknowledgements were delayed on the return path; at most the whole excess of the
    /// round trip.
    fn wait_back(&self, least: &Self) -> u32 {
        self.above(least).saturating_sub(self.wait_ahead(least))
    }

    /// Whether both queues were almost empty, if they were for `smallest`.
    fn is_near(&self, smallest: &Self) -> bool {
        self.above(smallest) <= smallest.tolerance()
    }

    /// Whether the queue towards the peer was almost empty, whatever the delay of acknowledgements.
    fn is_near_ahead(&self, smallest: &Self) -> bool {
        self.is_near(smallest) || self.wait_ahead(smallest) <= smallest.tolerance()
    }

    fn tolerance(&self) -> u32 {
        (self.rtt.get() / NEAR).max(micros(NEAR_MIN))
    }

    /// A shorter one-way delay becomes the reference: its packet met no queue. It shows that the old reference
    /// included a queue, that a clock jumped, or that the route changed.
    fn hear_of(&mut self, other: &Self) {
        if one_way_difference(other.one_way, self.one_way) < 0 {
            self.one_way = other.one_way;
        }
    }
}

impl RoundTrip {
    /// The smallest round trip.
    pub(super) fn minimum(&self) -> Option<Duration> {
        self.minimum.map(|sample| Duration::from_micros(sample.rtt.get().into()))
    }

    /// Average delay of acknowledgements on the return path in the last round.
    pub(super) fn wait_back(&self) -> Duration {
        Duration::from_micros(self.wait_back.into())
    }

    /// The round trip without a queue towards the peer, with a possibly shortened delay of acknowledgements: while
    /// both ends drain the path, it is shorter.
    pub(super) fn drained(&self) -> Option<Duration> {
        let wait = Duration::from_micros(self.wait_back.min(self.shortest_wait_back).into());
        self.minimum().map(|minimum| minimum + wait)
    }

    /// The round trip of a sample, without the delay of its acknowledgement on the return path.
    pub(super) fn without_wait_back(&self, sample: &AckSample) -> Option<Duration> {
        let new = Sample::of(sample)?;
        let wait_back = self.minimum.map_or(0, |minimum| new.wait_back(&minimum));
        Some(Duration::from_micros(u64::from(new.rtt.get() - wait_back)))
    }

    /// By how much a round trip exceeds the smallest one; zero before the first sample. Ignores the arrival times
    /// that the peer reports: a peer that lies about them must not hide a lossy queue.
    pub(super) fn queue(&self, rtt: Option<Duration>) -> Duration {
        rtt.zip(self.minimum()).map_or(Duration::ZERO, |(rtt, minimum)| rtt.saturating_sub(minimum))
    }

    /// Shorter delays are no sign of a queue.
    pub(super) fn least_queue(&self) -> Duration {
        (self.minimum().unwrap_or_default() / NEAR).max(QUEUE_MIN)
    }

    /// Shorter delays are no sign of a full queue: a longer one caused no loss in the last seconds.
    pub(super) fn least_full_queue(&self) -> Duration {
        let [this, before] = self.longest_queues;
        let longest = Duration::from_micros(this.max(before).into());
        self.least_queue().max(longest * FULL.0 / FULL.1)
    }

    /// Adds a round trip.
    pub(super) fn on_ack(&mut self, sample: &AckSample, round_begins: bool) {
        let Some(new) = Sample::of(sample) else { return };
        self.round.add(&new);
        let minimum = self.minimum.get_or_insert(new);
        let wait_back = new.wait_back(minimum);
        if round_begins || wait_back < self.shortest_wait_back {
            self.shortest_wait_back = wait_back;
        }
        if round_begins && self.round.count >= SAMPLES {
            let round = std::mem::take(&mut self.round).sample(sample.now);
            // So far the minimum was only the first sample.
            if self.recent.is_none() {
                self.minimum.take_if(|first| round.rtt.get() / WANDERING < first.rtt.get());
            }
            self.on_round(round);
        }
        self.last_queue = micros(self.queue(sample.latest_rtt));
    }

    /// By how much the last round trip exceeded the smallest one.
    pub(super) fn last_queue(&self) -> Duration {
        Duration::from_micros(self.last_queue.into())
    }

    /// `UpdateMinRTT`
    fn on_round(&mut self, new: Sample) {
        let now = new.at;
        let recent = self.recent.get_or_insert(new);
        if new.is_near(recent) {
            // The clocks drift apart: the newest sample is right.
            *recent = Sample { rtt: new.rtt.min(recent.rtt), ..new };
        } else if new.is_near_ahead(recent) {
            recent.hear_of(&new);
            recent.at = now;
        } else if now > recent.at + INTERVAL {
            self.due.get_or_insert(Due { since: now, missed: *recent });
            *recent = new;
        }
        self.due.take_if(|due| new.is_near_ahead(&due.missed));
        let recent = *recent;
        let minimum = self.minimum.get_or_insert(recent);
        if recent.rtt < minimum.rtt || now > minimum.at + MEMORY {
            *minimum = recent;
        }
        minimum.hear_of(&new);
        self.wait_back = new.wait_back(minimum);
        let queue = new.above(minimum);
        let [longest, _] = &mut self.longest_queues;
        *longest = queue.max(*longest);
        if now - self.longest_since > INTERVAL {
            self.longest_since = now;
            self.longest_queues = [queue, *longest];
        }
    }

    /// Whether a round trip near the smallest one was measured since then.
    pub(super) fn was_near_since(&self, then: Instant) -> bool {
        self.recent.is_some_and(|recent| recent.at > then)
    }

    /// Since when a drain has been due.
    pub(super) fn due_since(&self) -> Option<Instant> {
        self.due.map(|due| due.since)
    }

    /// The path was drained.
    pub(super) fn on_drained(&mut self, now: Instant) {
        self.due = None;
        if let Some(recent) = &mut self.recent {
            recent.at = now;
        }
    }
}

/// At most 71 min.
pub(super) fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
