//! The search for the bandwidth at the start, how it ends, and the draining of the queue that it made.

use std::num::NonZeroU32;
use std::time::Duration;

use super::probe_rtt::micros;
use super::{AckSample, Bbr, State};
use crate::{ByteCount, Instant, Rate};

/// `BBR.StartupPacingGain` = 4·ln 2, in percent: the least with which the rate doubles in each round trip.
pub(super) const PACING_GAIN: u64 = 277;
/// In slow start a window leaves in half a round trip: two packets for each that is acknowledged.
pub(super) const WINDOWS_PER_ROUND_TRIP: u64 = 2;
/// Rounds without growth that say that the pipe is full.
const ROUNDS: u8 = 3;
/// Such a round counts for so many if a policer may have cut it: no queue grows that would tell.
const POLICED_ROUNDS: u8 = 2;
/// A quarter more is growth.
const GROWTH: (u64, u64) = (5, 4);
/// So much of the bandwidth-delay product in flight fills the pipe for certain.
const FULL: (u64, u64) = (3, 2);
/// So many of them in flight, twice what the window of Startup allows, are a queue for certain. It counts if what is in
/// flight needs so long: a shorter one is gone in no time, and where round trips are short, so much is in flight by chance.
const OVERFLOW: u64 = 4;
const OVERFLOW_TIME: Duration = Duration::from_millis(250);
/// A rise of the round trip by this part says that a queue grows, within these bounds (as in RFC 9406, section 4.3), and
/// where round trips vary anyway, one by so many mean deviations.
const RISE: u32 = 8;
const RISE_DEVIATIONS: u32 = 4;
const RISE_MIN: Duration = Duration::from_millis(4);
const RISE_MAX: Duration = Duration::from_millis(16);
/// Round trips after which Drain ends in any case.
const DRAIN_ROUNDS: u64 = 3;

/// Whether sending more still brings more: in Startup and when probing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FullPipe {
    /// `BBR.full_bw_reached`: whether the bandwidth was ever found.
    is_reached: bool,
    /// `BBR.full_bw_now`: whether the present search has found it.
    is_reached_now: bool,
    baseline: Rate,
    rounds: u8,
    /// The largest rate of this round: one sample alone says less, where acknowledgements come in clumps.
    best: Rate,
    /// Most that was in flight in this round.
    most_in_flight: ByteCount,
    /// The round trips of this round, without what acknowledgements waited for.
    delays: Option<Delays>,
    /// Beyond which round trips are no chance after the last round, and after the one before that.
    usual: [Option<NonZeroU32>; 2],
}

/// Whether a round ends with an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoundEnd {
    No,
    Usual,
    /// One that lost so much without a queue that a policer may have cut it.
    Policed,
}

/// The smallest and the largest round trip of a round, in µs.
#[derive(Debug, Clone, Copy)]
struct Delays {
    shortest: u32,
    longest: u32,
}

impl Delays {
    /// Longer ones are no chance, where round trips vary so much.
    fn usual(self, variation: Duration) -> Option<NonZeroU32> {
        let longest = Duration::from_micros(self.longest.into());
        NonZeroU32::new(micros(longest + rise(longest).max(variation * RISE_DEVIATIONS)))
    }
}

/// By how much a round trip must be longer than another to tell of a queue.
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

    /// A search begins at a rate (`ResetFullBW`).
    pub(super) fn restart(&mut self, baseline: Rate) {
        let Self { is_reached, delays, usual, .. } = *self;
        *self = Self { is_reached, baseline, delays, usual, ..Self::default() };
    }

    /// The bandwidth is known, or not.
    pub(super) fn set_reached(&mut self, is_reached: bool) {
        self.is_reached = is_reached;
    }

    /// `CheckFullBWReached`. A round without growth in which every round trip was longer than all of the round before the
    /// last, or in which several products were in flight, counts for three: what was sent more stands in a queue, and two
    /// more rounds of it would only make that longer.
    ///
    /// A sender that runs out of data, or is kept from sending by the peer's credit, learns nothing of the path, unless
    /// clearly more than `product`, the bandwidth-delay product so far, was in flight: then a larger rate would have shown.
    ///
    /// `delay` is the round trip without what acknowledgements waited for: a queue that they wait in is not made by this end.
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
    fn last(&self) -> Rate {
        self.best
    }

    fn has_queue(&self) -> bool {
        let (Some(now), [_, Some(calm)]) = (self.delays, self.usual) else { return false };
        now.shortest >= calm.get()
    }
}

impl Bbr {
    /// The pipe is far from full: so much is missing that doubling finds it sooner than a quarter more at a time.
    pub(super) fn begin_startup(&mut self) {
        self.full_pipe.restart(self.bandwidth.get());
        self.full_pipe.set_reached(false);
        self.usage.forget_least_rate();
        self.cycle.forget_probe();
        self.state = State::Startup;
    }

    /// `CheckStartupDone`
    pub(super) fn leave_startup(&mut self) {
        if self.state != State::Startup {
            return;
        }
        if self.signals.ended_in_great_excess() {
            self.full_pipe.set_reached(true);
            self.bounds.flight = self.product(100).max(self.signals.flight);
            self.undo.on_left_startup();
        }
        if self.full_pipe.is_reached() {
            // What came only once was a burst that a shaper had saved up.
            let was_policed = self.lost_much();
            let was_burst = was_policed || self.full_pipe.last() < self.bandwidth.get().scaled(1, 2);
            if self.full_pipe.is_reached_now() && was_burst {
                self.bandwidth.lower(self.full_pipe.last());
                if let Some(policer) = self.policer.as_mut().filter(|_| was_policed) {
                    policer.begin_trial();
                }
            }
            self.state = State::Drain { since_round: self.rounds.count() };
        }
    }

    /// `CheckDrainDone`
    pub(super) fn leave_drain(&mut self, now: Instant, in_flight: ByteCount) {
        let State::Drain { since_round } = self.state else { return };
        if in_flight <= self.flight_for(self.rate()) || self.rounds.count() > since_round + DRAIN_ROUNDS {
            self.begin_down(now);
        }
    }
}
