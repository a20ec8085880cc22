//! Connectivity checks: the RTT of address pairs without a path, measured by PROBEs over the id of a working path, up
//! to three in a round (spec 6.49).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use super::rate_memory::RateMemory;
use crate::{ByteCount, FourTuple, Instant, Rate, Rng};

/// Most pairs that are checked.
pub(crate) const MOST_PAIRS: usize = 32;
/// Waits between the checks of a round, and after the last one until it counts as unanswered.
const WAITS: [Duration; 3] = [Duration::from_millis(250), Duration::from_millis(500), Duration::from_secs(1)];
/// Time from the end of a round to the next, if the connection carries data.
const REST: Duration = Duration::from_secs(15);
/// A smaller difference is no sign of another route: the response time of a machine varies by this much.
const NOISE: Duration = Duration::from_millis(5);
/// Time between two checks.
const GAP: Duration = Duration::from_millis(5);
/// A pair that answers no check for this long no longer delays the comparison of the others.
const PATIENCE: Duration = Duration::from_secs(1);

/// A pair and its measurements.
#[derive(Debug, Clone, Copy)]
struct CheckedPair {
    tuple: FourTuple,
    since: Instant,
    /// Smallest RTT of the last finished round.
    before: Option<Duration>,
    /// Smallest RTT of this round.
    now: Option<Duration>,
    /// Smallest RTT of all finished rounds.
    nearest: Option<Duration>,
    /// Smallest RTT of the path that uses the pair, since the last round. The packets of a path are larger than
    /// checks and take longer over a slow link, so it is not compared with a round.
    of_path: Option<Duration>,
    /// Checks sent in this round.
    checks_sent: usize,
    next_at: Instant,
    /// Whether a round has finished.
    is_checked: bool,
    /// Whether the choice no longer waits for this pair.
    had_time: bool,
    /// The rate of a path between these addresses.
    rates: RateMemory,
}

impl CheckedPair {
    fn new(now: Instant, tuple: FourTuple) -> Self {
        Self {
            tuple,
            since: now,
            before: None,
            now: None,
            nearest: None,
            of_path: None,
            checks_sent: 0,
            next_at: now,
            is_checked: false,
            had_time: false,
            rates: RateMemory::new(now),
        }
    }

    fn rtt(&self) -> Option<Duration> {
        let answer = self.now.or(self.before);
        answer.into_iter().chain(self.of_path).min()
    }

    /// Whether the pair may be checked: a new round begins only if the connection carried data since the last one.
    fn is_open(&self, carried_at: Option<Instant>) -> bool {
        let is_done = self.checks_sent == 0 && self.is_checked;
        !is_done || carried_at.is_some_and(|at| at + REST >= self.next_at)
    }

    /// Handles the passing of time: a round ends with the wait for its last response.
    fn on_timeout(&mut self, now: Instant) {
        self.had_time |= self.since + PATIENCE <= now;
        if self.checks_sent == WAITS.len() && self.next_at <= now {
            if self.now.zip(self.nearest).is_some_and(|(now, nearest)| is_nearer(now, nearest)) {
                // The route has changed.
                self.rates.forget();
            }
            self.nearest = self.nearest.into_iter().chain(self.now).min();
            self.before = self.now.take();
            self.of_path = None;
            self.checks_sent = 0;
            self.is_checked = true;
            self.next_at = now + REST;
        }
    }
}

/// One outstanding check.
#[derive(Debug, Clone, Copy)]
struct Challenge {
    tuple: FourTuple,
    nonce: u64,
    sent_at: Instant,
}

/// The measurements of all pairs.
#[derive(Debug, Default)]
pub(crate) struct ConnectivityChecks {
    pairs: Vec<CheckedPair>,
    outstanding: VecDeque<Challenge>,
    /// No check before this time.
    held_until: Option<Instant>,
}

impl ConnectivityChecks {
    /// Sets the pairs to check, at most 32; pairs that stay keep their measurements.
    pub(crate) fn set_pairs(&mut self, now: Instant, tuples: impl Iterator<Item = FourTuple>) {
        let known = std::mem::take(&mut self.pairs);
        let find = |tuple: FourTuple| known.iter().find(|pair| pair.tuple == tuple).copied();
        let pairs = tuples.take(MOST_PAIRS);
        self.pairs = pairs.map(|tuple| find(tuple).unwrap_or_else(|| CheckedPair::new(now, tuple))).collect();
        self.outstanding.retain(|challenge| self.pairs.iter().any(|pair| pair.tuple == challenge.tuple));
    }

    /// Memory of the measurements.
    pub(crate) fn memory(&self) -> ByteCount {
        let pairs = self.pairs.capacity() * size_of::<CheckedPair>();
        ByteCount::of(pairs + self.outstanding.capacity() * size_of::<Challenge>())
    }

    /// All pairs with RTT and rate, as far as they are known.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (FourTuple, Option<Duration>, Option<Rate>)> {
        self.pairs.iter().map(|pair| (pair.tuple, pair.rtt(), pair.rates.rate()))
    }

    /// Whether the rate of a path between these addresses is still unknown.
    pub(crate) fn lacks_rate(&self, tuple: &FourTuple) -> bool {
        self.pairs.iter().any(|pair| pair.tuple == *tuple && pair.rates.rate().is_none())
    }

    /// Whether a recent trial of the pair showed no rate.
    pub(crate) fn has_failed_trial(&self, tuple: &FourTuple) -> bool {
        self.pairs.iter().any(|pair| pair.tuple == *tuple && pair.rates.has_failed_trial())
    }

    /// The pair was tried without learning its rate: it is not tried again for some time.
    pub(crate) fn on_trial_failed(&mut self, now: Instant, tuple: &FourTuple) {
        let tried = self.pairs.iter_mut().filter(|pair| pair.tuple == *tuple);
        tried.for_each(|pair| pair.rates.on_trial_failed(now));
    }

    /// The measurements of pairs without a path become outdated after some time, which grows each time.
    pub(crate) fn age(&mut self, now: Instant) {
        self.pairs.iter_mut().for_each(|pair| pair.rates.age(now));
    }

    /// Adds the measurements of a path between these addresses.
    pub(crate) fn note(&mut self, now: Instant, tuple: &FourTuple, rtt: Duration, rate: Option<Rate>) {
        let Some(pair) = self.pairs.iter_mut().find(|pair| pair.tuple == *tuple) else { return };
        // The path falls into a round, which ends without a result.
        pair.nearest = pair.nearest.into_iter().chain(pair.now).min();
        pair.before = pair.now.take().or(pair.before);
        pair.checks_sent = 0;
        pair.of_path = Some(rtt);
        pair.is_checked = true;
        pair.rates.on_used(now, rate);
    }

    /// The peer reported the rate at which a path between these addresses delivers its data; false if the report does
    /// not count.
    pub(crate) fn on_told(&mut self, now: Instant, tuple: &FourTuple, rate: Rate) -> bool {
        let pair = self.pairs.iter_mut().find(|pair| pair.tuple == *tuple);
        pair.is_some_and(|pair| pair.rates.on_told(now, rate))
    }

    /// Whether the peer fills a path, by its recent reports.
    pub(crate) fn is_told(&self, now: Instant) -> bool {
        self.pairs.iter().any(|pair| pair.rates.is_told(now))
    }

    /// The path between these addresses does not work: its measurements are worthless.
    pub(crate) fn on_lost(&mut self, tuple: &FourTuple) {
        if let Some(pair) = self.pairs.iter_mut().find(|pair| pair.tuple == *tuple) {
            let mut rates = pair.rates;
            rates.reset(pair.since);
            *pair = CheckedPair { is_checked: true, rates, ..CheckedPair::new(pair.since, *tuple) };
        }
    }

    /// When the first round of checks ends at the latest; `None` if every pair has answered or timed out, except
    /// those that `is_used`.
    pub(crate) fn settles_at(&self, is_used: impl Fn(&FourTuple) -> bool) -> Option<Instant> {
        let open = self.pairs.iter().filter(|pair| {
            let is_new = pair.rtt().is_none() && !pair.is_checked && !pair.had_time && pair.checks_sent < 2;
            is_new && !is_used(&pair.tuple)
        });
        open.map(|pair| pair.since + PATIENCE).min()
    }

    /// When the next check is due, or a round ends. Pairs that `is_used` are not checked, and no new round begins
    /// unless the connection carried data since the last one.
    pub(crate) fn deadline(
        &self,
        carried_at: Option<Instant>,
        is_used: impl Fn(&FourTuple) -> bool,
    ) -> Option<Instant> {
        let pairs = self.pairs.iter().filter(|pair| pair.is_open(carried_at) && !is_used(&pair.tuple));
        let ends = |pair: &CheckedPair| pair.checks_sent == WAITS.len();
        let due = pairs.map(|pair| {
            let held = self.held_until.filter(|_| !ends(pair));
            held.map_or(pair.next_at, |held| held.max(pair.next_at))
        });
        due.min()
    }

    /// Ends the rounds that have timed out.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        self.pairs.iter_mut().for_each(|pair| pair.on_timeout(now));
    }

    /// The next check to send, if one is due: a pair and its nonce. `may_challenge` tells whether an address may be
    /// challenged now, or else when.
    pub(crate) fn next_challenge(
        &mut self,
        now: Instant,
        rng: &mut Rng,
        (carried_at, is_used): (Option<Instant>, impl Fn(&FourTuple) -> bool),
        mut may_challenge: impl FnMut(SocketAddr) -> Result<(), Instant>,
    ) -> Option<(FourTuple, u64)> {
        if self.held_until.is_some_and(|held| held > now) {
            return None;
        }
        self.held_until = None;
        let due = self.pairs.iter_mut().filter(|pair| {
            let open = pair.checks_sent < WAITS.len() && pair.is_open(carried_at);
            open && pair.next_at <= now && !is_used(&pair.tuple)
        });
        for pair in due {
            match may_challenge(pair.tuple.remote) {
                Ok(()) => {
                    pair.next_at = now + WAITS.get(pair.checks_sent).copied().unwrap_or(REST);
                    pair.checks_sent += 1;
                    self.held_until = Some(now + GAP);
                    let challenge = Challenge { tuple: pair.tuple, nonce: rng.next_u64(), sent_at: now };
                    if self.outstanding.len() >= WAITS.len() * MOST_PAIRS {
                        self.outstanding.pop_front();
                    }
                    self.outstanding.push_back(challenge);
                    return Some((challenge.tuple, challenge.nonce));
                }
                Err(later) => {
                    self.held_until = Some(self.held_until.map_or(later, |held| held.min(later)));
                }
            }
        }
        None
    }

    /// Whether a check of this pair is outstanding.
    pub(crate) fn is_challenged(&self, tuple: &FourTuple) -> bool {
        self.outstanding.iter().any(|challenge| challenge.tuple == *tuple)
    }

    /// Takes a response; false if it matches no check, or came over another pair than the check.
    pub(crate) fn on_answer(&mut self, now: Instant, tuple: &FourTuple, nonce: u64) -> bool {
        let fits = |challenge: &Challenge| challenge.nonce == nonce && challenge.tuple == *tuple;
        let Some(at) = self.outstanding.iter().position(fits) else { return false };
        let Some(challenge) = self.outstanding.remove(at) else { return false };
        let Some(pair) = self.pairs.iter_mut().find(|pair| pair.tuple == *tuple) else { return false };
        let rtt = now - challenge.sent_at;
        pair.now = Some(pair.now.map_or(rtt, |least| least.min(rtt)));
        true
    }
}

/// Whether an RTT is lower than another by more than a quarter, and by more than the response time of machines
/// varies. A higher RTT does not count: any queue causes it, even one of this connection's own data, and the choice
/// would never converge.
fn is_nearer(now: Duration, before: Duration) -> bool {
    now * 4 < before * 3 && before - now >= NOISE
}

/// Whether two RTTs differ by more than a quarter.
pub(crate) fn differ(before: Duration, now: Duration) -> bool {
    before.abs_diff(now) * 4 > before
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ConnectivityChecks, MOST_PAIRS};
    use crate::{FourTuple, Instant, LocalAddress, Rate, Rng};

    const MS: Duration = Duration::from_millis(1);
    const START: Instant = Instant::from_nanos(1_000_000_000);

    fn tuple(host: u8) -> FourTuple {
        let local = LocalAddress { interface: 1, address: "10.0.0.1:1".parse().unwrap() };
        FourTuple::udp(local, ([192, 0, 2, host], 4433).into())
    }

    /// Runs the checks for `time`; every target but `deaf` answers after `rtt`. Returns when each pair was checked.
    fn run(
        checks: &mut ConnectivityChecks,
        time: Duration,
        rtt: Duration,
        deaf: u8,
    ) -> Vec<(Duration, FourTuple)> {
        let mut rng = Rng::from_seed([1; 32]);
        let mut sent = Vec::new();
        let mut answers = Vec::new();
        let mut now = START;
        while now < START + time {
            checks.on_timeout(now);
            while let Some((tuple, nonce)) =
                checks.next_challenge(now, &mut rng, (None, |_: &FourTuple| false), |_| Ok(()))
            {
                sent.push((now - START, tuple));
                answers.push((now + rtt, tuple, nonce));
            }
            for (_, tuple, nonce) in answers.extract_if(.., |(at, ..)| *at <= now) {
                assert!(tuple == self::tuple(deaf) || checks.on_answer(now, &tuple, nonce));
            }
            now += MS;
        }
        sent
    }

    #[test]
    fn each_pair_is_checked_three_times_with_a_gap_between_all_checks_and_then_idles() {
        let mut checks = ConnectivityChecks::default();
        checks.set_pairs(START, (1..=3).map(tuple));
        let sent = run(&mut checks, Duration::from_secs(60), 30 * MS, 9);
        assert_eq!(sent.len(), 9);
        assert!(sent.windows(2).all(|two| two[1].0 - two[0].0 >= 5 * MS), "{sent:?}");
        assert!(checks.pairs().all(|(_, rtt, _)| rtt == Some(30 * MS)));
        let never = |_: &FourTuple| false;
        assert_eq!(checks.deadline(None, never), None, "nothing is carried");
        assert!(checks.deadline(Some(START + Duration::from_secs(60)), never).is_some());
    }

    #[test]
    fn a_pair_that_does_not_answer_delays_the_others_only_briefly() {
        let mut checks = ConnectivityChecks::default();
        checks.set_pairs(START, (1..=2).map(tuple));
        let never = |_: &FourTuple| false;
        run(&mut checks, 200 * MS, 30 * MS, 2);
        assert_eq!(checks.settles_at(never), Some(START + 1000 * MS));
        assert_eq!(checks.settles_at(|_| true), None);
        let mut checks = ConnectivityChecks::default();
        checks.set_pairs(START, (1..=2).map(tuple));
        run(&mut checks, 300 * MS, 30 * MS, 2);
        assert_eq!(checks.settles_at(never), None, "it was checked twice");
        let mut checks = ConnectivityChecks::default();
        checks.set_pairs(START, (1..=2).map(tuple));
        checks.on_timeout(START + 1000 * MS);
        assert_eq!(checks.settles_at(never), None, "no pair could be checked");
    }

    // spec 6.68
    #[test]
    fn a_rate_is_forgotten_when_the_pair_becomes_nearer_but_not_for_the_delay_of_a_path_or_queue() {
        let mut checks = ConnectivityChecks::default();
        checks.set_pairs(START, std::iter::once(tuple(1)));
        let mut now = START;
        // The rate known after a round with this RTT, perhaps with a path in between.
        let mut round = |rtt: u32, path: Option<u32>| {
            if let Some(path) = path {
                checks.note(now, &tuple(1), path * MS, Some(Rate::from_bits_per_second(1_000_000)));
            }
            let mut rng = Rng::from_seed([1; 32]);
            for _ in 0..3 {
                let usage = (Some(now), |_: &FourTuple| false);
                let (tuple, nonce) = checks.next_challenge(now, &mut rng, usage, |_| Ok(())).unwrap();
                assert!(checks.on_answer(now + rtt * MS, &tuple, nonce));
                now += Duration::from_secs(1);
                checks.on_timeout(now);
            }
            now += Duration::from_secs(20);
            checks.pairs().next().map(|(_, rtt, rate)| (rtt.unwrap(), rate.is_some())).unwrap()
        };
        assert_eq!(round(20, None), (20 * MS, false));
        assert_eq!(round(20, Some(33)), (20 * MS, true), "packets of 1200 bytes take longer");
        assert_eq!(round(120, None), (120 * MS, true), "there is a queue");
        assert_eq!(round(16, None), (16 * MS, true), "it was short, and has gone");
        assert_eq!(round(11, None), (11 * MS, false), "there was never so short a way");
        assert_eq!(round(11, Some(12)), (11 * MS, true));
        assert_eq!(round(7, None), (7 * MS, true), "as much as machines vary");
        assert_eq!(round(2, None), (2 * MS, false));
    }

    #[test]
    fn a_pair_keeps_its_measurements_when_a_path_opens_during_a_round() {
        let mut checks = ConnectivityChecks::default();
        checks.set_pairs(START, std::iter::once(tuple(1)));
        run(&mut checks, 800 * MS, 30 * MS, 9);
        checks.note(START, &tuple(1), 40 * MS, None);
        checks.on_timeout(START + 3000 * MS);
        assert_eq!(checks.pairs().next().unwrap().1, Some(30 * MS), "no round ends without an answer");
    }

    #[test]
    fn a_response_counts_once_and_only_over_the_checked_pair() {
        let mut checks = ConnectivityChecks::default();
        checks.set_pairs(START, (1..=2).map(tuple));
        let mut rng = Rng::from_seed([1; 32]);
        let usage = (None, |_: &FourTuple| false);
        let (first, nonce) = checks.next_challenge(START, &mut rng, usage, |_| Ok(())).unwrap();
        let now = START + 7 * MS;
        assert!(!checks.on_answer(now, &tuple(2), nonce) && !checks.on_answer(now, &first, nonce ^ 1));
        assert!(checks.is_challenged(&first) && checks.on_answer(now, &first, nonce));
        assert!(!checks.on_answer(now, &first, nonce) && !checks.is_challenged(&first));
    }

    #[test]
    fn at_most_32_pairs_are_checked() {
        let mut checks = ConnectivityChecks::default();
        checks.set_pairs(START, (0..=255).map(tuple));
        assert_eq!(checks.pairs().count(), MOST_PAIRS);
    }
}
