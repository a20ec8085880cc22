//! Losses without a queue: a fading link, or a policer.
//!
//! A policer drops excess packets without queueing any, so neither the queue nor the window reveals it. Its losses
//! last while too much is sent, affect every round trip, and stop once less is sent. The losses of a fading link
//! spare some round trips, and continue when less is sent. So lasting losses lower the bandwidth to the rate that
//! passes, and the result decides: if they stop, it is a policer, and its losses count as those of a queue.

use std::time::Duration;

use super::AckSample;
use crate::{ByteCount, Instant, Rate};

/// More than this part lost without a queue is much. If that lasts for this long and this many round trips, none of
/// them spared, the cause may be a policer.
const LASTING: u64 = 16;
const LASTING_TIME: Duration = Duration::from_millis(400);
const LASTING_ROUNDS: u64 = 4;
/// A round trip that lost no more than this part is spared.
const SPARED: u64 = 64;
/// More than this part lost in the round trip that ends Startup suffices.
const MUCH: u64 = 8;
/// First round trips of a trial, which still reflect packets sent before, ...
const TRIAL_BEFORE: u32 = 2;
/// the round trips that are judged, ...
const TRIAL: u32 = 4;
/// and how many of them have to be spared.
const TRIAL_SPARED: u32 = 3;

/// Detects whether losses without a queue are those of a policer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policer {
    round: LossShare,
    /// Whether the last round trip lost much.
    lost_much: bool,
    lasting: Option<Lasting>,
    verdict: Verdict,
}

#[derive(Debug, Clone, Copy, Default)]
enum Verdict {
    #[default]
    None,
    /// Less is sent.
    Trial(Trial),
    Policer,
}

/// Round trips in the phase cruise since less is sent.
#[derive(Debug, Clone, Copy, Default)]
struct Trial {
    rounds: u32,
    /// Judged round trips that were spared.
    spared: u32,
    /// Judged round trips that lost much.
    lossy: u32,
    /// The sum of the mean rates of judged round trips.
    rates: Rate,
    /// Whether the passing rate was still below the known one, so that this is the second attempt.
    is_second: bool,
}

/// Bytes lost without a queue, for their share in the bytes sent.
#[derive(Debug, Clone, Copy, Default)]
struct LossShare {
    lost: ByteCount,
    /// Bytes delivered at its start.
    delivered: ByteCount,
}

impl LossShare {
    fn beginning_at(delivered: ByteCount) -> Self {
        Self { lost: ByteCount::ZERO, delivered }
    }

    /// Whether more than the `part`-th of the bytes sent was lost.
    fn is_more_than(&self, part: u64, delivered: ByteCount) -> bool {
        self.lost * part > self.lost + (delivered - self.delivered)
    }
}

/// A finished round trip.
struct Round {
    mean: Rate,
    was_spared: bool,
    was_lossy: bool,
}

/// Consecutive round trips with such losses.
#[derive(Debug, Clone, Copy)]
struct Lasting {
    since: Instant,
    /// The sum of their mean rates, and their number.
    rates: Rate,
    rounds: u64,
    share: LossShare,
}

impl Policer {
    /// Starts with the bytes delivered at the start of the present round.
    pub(super) fn beginning_at(delivered: ByteCount) -> Self {
        Self {
            round: LossShare::beginning_at(delivered),
            lost_much: false,
            lasting: None,
            verdict: Verdict::None,
        }
    }

    /// A packet was lost without a queue before it.
    pub(super) fn on_lost(&mut self, bytes: ByteCount) {
        self.round.lost += bytes;
    }

    /// Whether so much of the last round trip was lost that the cause may be a policer.
    pub(super) fn lost_much(&self) -> bool {
        self.lost_much
    }

    /// Whether losses without a queue are congestion.
    pub(super) fn is_known(&self) -> bool {
        matches!(self.verdict, Verdict::Policer)
    }

    /// The bandwidth was lowered to the passing rate: losses have to stop now.
    pub(super) fn begin_trial(&mut self) {
        self.lasting = None;
        self.verdict = Verdict::Trial(Trial::default());
    }

    /// Ends a round with its mean rate, or without one if it was application-limited. Returns the passing rate once
    /// losses show that more is sent.
    pub(super) fn end_round(&mut self, sample: &AckSample, mean: Rate, is_cruise: bool) -> Option<Rate> {
        let share = std::mem::replace(&mut self.round, LossShare::beginning_at(sample.delivered));
        self.lost_much = share.is_more_than(MUCH, sample.delivered);
        if mean == Rate::ZERO {
            self.lasting = None;
            return None;
        }
        let round = Round {
            mean,
            was_spared: !share.is_more_than(SPARED, sample.delivered),
            was_lossy: share.is_more_than(LASTING, sample.delivered),
        };
        let passes = if is_cruise { self.judge(&round) } else { None };
        passes.or_else(|| self.watch(sample, &round, share.lost))
    }

    /// Judges a round trip in which no more was sent than the known bandwidth. Returns the passing rate if it lost
    /// packets nevertheless.
    fn judge(&mut self, round: &Round) -> Option<Rate> {
        match &mut self.verdict {
            Verdict::None => None,
            // The last probe mistook saved tokens for bandwidth, or there is no policer.
            Verdict::Policer if round.was_lossy => {
                self.begin_trial();
                Some(round.mean)
            }
            Verdict::Policer => None,
            Verdict::Trial(trial) => {
                trial.add(round);
                let (verdict, passes) = trial.verdict()?;
                self.verdict = verdict;
                passes
            }
        }
    }

    /// Returns the average passing rate of round trips that lost much for long, if none of them was spared.
    fn watch(&mut self, sample: &AckSample, round: &Round, lost: ByteCount) -> Option<Rate> {
        if round.was_spared {
            self.lasting = None;
            return None;
        }
        let Some(lasting) = &mut self.lasting else {
            // The rates of the first round may reflect the time before.
            let share = self.round;
            self.lasting = Some(Lasting { since: sample.now, rates: Rate::ZERO, rounds: 0, share });
            return None;
        };
        lasting.share.lost += lost;
        lasting.rates = lasting.rates + round.mean;
        lasting.rounds += 1;
        let Lasting { since, rates, rounds, share } = *lasting;
        if sample.now - since < LASTING_TIME || rounds < LASTING_ROUNDS {
            return None;
        }
        self.lasting = None;
        if !share.is_more_than(LASTING, sample.delivered) {
            return None;
        }
        self.begin_trial();
        Some(rates.scaled(1, rounds))
    }
}

impl Trial {
    fn add(&mut self, round: &Round) {
        self.rounds += 1;
        if self.rounds > TRIAL_BEFORE {
            self.spared += u32::from(round.was_spared);
            self.lossy += u32::from(round.was_lossy);
            self.rates = self.rates + round.mean;
        }
    }

    /// The verdict once the trial is over, and the passing rate if a second trial is needed: losses became few, but
    /// did not stop.
    fn verdict(&self) -> Option<(Verdict, Option<Rate>)> {
        let Self { rounds, spared, lossy, rates, is_second } = *self;
        if rounds < TRIAL_BEFORE + TRIAL {
            return None;
        }
        if spared >= TRIAL_SPARED {
            return Some((Verdict::Policer, None));
        }
        if spared == 0 && lossy <= TRIAL - TRIAL_SPARED && !is_second {
            let again = Verdict::Trial(Self { is_second: true, ..Self::default() });
            return Some((again, Some(rates.scaled(1, u64::from(TRIAL)))));
        }
        Some((Verdict::None, None))
    }
}
