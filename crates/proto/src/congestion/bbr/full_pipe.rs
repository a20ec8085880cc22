//! Whether sending more still delivers more.

use std::num::NonZeroU32;
use std::time::Duration;

use super::AckSample;
use super::round_trip::micros;
use crate::{ByteCount, Rate};

/// Rounds without growth that show a full pipe.
const ROUNDS: u8 = 3;
/// Such a round counts for this many if a policer may have limited it: no growing queue would reveal that.
const POLICED_ROUNDS: u8 = 2;
/// A quarter more is growth.
const GROWTH: (u64, u64) = (5, 4);
/// This multiple of the bandwidth-delay product in flight certainly fills the pipe.
const FULL: (u64, u64) = (3, 2);
/// This multiple in flight, twice the window of Startup, certainly makes a queue. It counts only if the bytes in
/// flight take at least this time: a shorter queue drains at once, and on short round trips this much is in flight by
/// chance.
const OVERFLOW: u64 = 4;
const OVERFLOW_TIME: Duration = Duration::from_millis(250);
/// A rise of the round trip by this part shows a growing queue, within these bounds (as in RFC 9406, section 4.3),
/// and on paths with jitter a rise by this many mean deviations.
const RISE: u32 = 8;
const RISE_DEVIATIONS: u32 = 4;
const RISE_MIN: Duration = Duration::from_millis(4);
const RISE_MAX: Duration = Duration::from_millis(16);

/// Detects whether sending more still delivers more, in Startup and when probing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FullPipe {
    /// `BBR.full_bw_reached`: whether the bandwidth was ever found.
    is_reached: bool,
    /// `BBR.full_bw_now`: whether the present search has found it.
    is_reached_now: bool,
    baseline: Rate,
    rounds: u8,
    /// The largest rate of this round: where acknowledgements are bunched, a single sample says less.
    best: Rate,
    /// Most bytes in flight in this round.
    most_in_flight: ByteCount,
    /// The round trips of this round, without the delay of acknowledgements on the return path.
    delays: Option<Delays>,
    /// Upper bounds of normal round trips after the last round, and after the one before that.
    usual: [Option<NonZeroU32>; 2],
}

/// Whether a round ends with an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoundEnd {
    No,
    Usual,
    /// The round lost so much without a queue that a policer may have limited it.
    Policed,
}

/// The smallest and the largest round trip of a round, in µs.
#[derive(Debug, Clone, Copy)]
struct Delays {
    shortest: u32,
    longest: u32,
}

impl Delays {
    /// Upper bound of normal round trips at this variation.
    fn usual(self, variation: Duration) -> Option<NonZeroU32> {
        let longest = Duration::from_micros(self.longest.into());
        NonZeroU32::new(micros(longest + rise(longest).max(variation * RISE_DEVIATIONS)))
    }
}

/// By how much a round trip must exceed another to show a queue.
pub(super) fn rise(rtt: Duration) -> Duration {
    (rtt / RISE).clamp(RISE_MIN, RISE_MAX)
}

impl FullPipe {
    pub(super) fn is_reached(&self) -> bool {
        self.is_reached
    }

    pub(super) fn is_reached_now(&self) -> bool {
        self.is_reached_now
    }

    /// Starts a search at a rate (`ResetFullBW`).
    pub(super) fn restart(&mut self, baseline: Rate) {
        let Self { is_reached, delays, usual, .. } = *self;
        *self = Self { is_reached, baseline, delays, usual, ..Self::default() };
    }

    /// Sets whether the bandwidth is known.
    pub(super) fn set_reached(&mut self, is_reached: bool) {
        self.is_reached = is_reached;
    }

    /// `CheckFullBWReached`. A round without growth counts for three if every round trip in it was longer than all of
    /// the round before the last, or if several products were in flight: the additional bytes are in a queue, and two
    /// more rounds would only lengthen it.
    ///
    /// A sender that runs out of data or credit learns nothing about the path, unless clearly more than `product`,
    /// the bandwidth-delay product so far, was in flight: then a larger rate would have shown.
    ///
    /// `delay` is the round trip without the delay of acknowledgements on the return path, because this end does not
    /// cause the queue there.
    pub(super) fn on_ack(
        &mut self,
        sample: &AckSample,
        delay: Option<Duration>,
        product: ByteCount,
        end: RoundEnd,
    ) {
        self.most_in_flight = self.most_in_flight.max(sample.in_flight_at_sent);
        self.best = self.best.max(sample.delivery_rate.unwrap_or_default());
        if let Some(delay) = delay.map(micros) {
            let delays = self.delays.get_or_insert(Delays { shortest: delay, longest: delay });
            *delays = Delays { shortest: delays.shortest.min(delay), longest: delays.longest.max(delay) };
        }
        if end == RoundEnd::No {
            return;
        }
        let best = std::mem::take(&mut self.best);
        let in_flight = std::mem::take(&mut self.most_in_flight);
        let was_full = in_flight >= product * FULL.0 / FULL.1;
        let overflows = in_flight >= (product * OVERFLOW).max(best * OVERFLOW_TIME);
        let has_queue = self.has_queue();
        let [last, _] = self.usual;
        self.usual = [self.delays.take().and_then(|delays| delays.usual(sample.rtt_variation)), last];
        if self.is_reached_now || (sample.app_limited && !was_full) || best == Rate::ZERO {
            return;
        }
        if best >= self.baseline.scaled(GROWTH.0, GROWTH.1) {
            self.restart(best);
            return;
        }
        self.rounds += match end {
            _ if has_queue || overflows => ROUNDS,
            RoundEnd::Policed => POLICED_ROUNDS,
            RoundEnd::No | RoundEnd::Usual => 1,
        };
        if self.rounds >= ROUNDS {
            self.is_reached_now = true;
            self.is_reached = true;
            self.best = best;
        }
    }

    /// The largest rate of the round that ended the search.
    pub(super) fn last(&self) -> Rate {
        self.best
    }

    fn has_queue(&self) -> bool {
        let (Some(now), [_, Some(before)]) = (self.delays, self.usual) else { return false };
        now.shortest >= before.get()
    }
}
