//! Path challenges and responses (PROBE, PROBE-ACK): whether a peer answers at an address, and its round trip.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use crate::{FourTuple, Instant, Rng};

/// Most address pairs that one path tries.
pub(crate) const MAX_TARGETS: usize = 8;
/// Most outstanding challenges: eight rounds to the largest number of pairs, so that responses from two seconds away
/// still match.
const MAX_OUTSTANDING: usize = 8 * MAX_TARGETS;
/// First wait for a response from an address that never answered.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// Gap between hurried challenges, doubled with each round. A challenge for each packet of a full queue would keep
/// the queue full, and challenges would displace each other before their responses arrive.
const LEAST_GAP: Duration = Duration::from_millis(10);
const MOST_DOUBLINGS: u32 = 6;
/// The longest wait, by the time since the start: most outages are short, and a challenge costs 40 bytes.
const LONGEST_WAIT: [(Duration, Duration); 3] = [
    (Duration::from_secs(10), Duration::from_millis(300)),
    (Duration::from_secs(60), Duration::from_secs(1)),
    (Duration::from_secs(600), Duration::from_secs(5)),
];
/// Rounds of challenges to a dead path that fill a datagram: about three seconds, and 12 kB.
const FULL_ROUNDS: u32 = 10;
/// The longest wait after all of these: a peer absent for this long may be gone for good, and every challenge wakes
/// the radio of a phone.
const AT_LAST: Duration = Duration::from_secs(15);

/// One outstanding challenge.
#[derive(Debug, Clone, Copy)]
struct Challenge {
    tuple: FourTuple,
    nonce: u64,
    sent_at: Instant,
    /// Whether it filled the datagram that every path must carry.
    is_full: bool,
}

/// A response that matches a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathResponse {
    pub(crate) tuple: FourTuple,
    pub(crate) rtt: Duration,
    /// Whether the challenge filled the datagram that every path must carry (spec 6.33).
    pub(crate) is_full: bool,
}

/// Challenges one or more address pairs of a path, repeatedly with growing waits, until it is stopped.
#[derive(Debug)]
pub(crate) struct Challenger {
    outstanding: VecDeque<Challenge>,
    run: Option<Box<ChallengeRun>>,
}

/// Challenges that repeat until they are stopped. Most paths are idle most of the time, and have none.
#[derive(Debug)]
struct ChallengeRun {
    targets: Vec<FourTuple>,
    since: Instant,
    next_at: Instant,
    wait: Duration,
    /// The shortest time between two challenges to one pair.
    least_wait: Duration,
    rounds: u32,
    due: Vec<FourTuple>,
    /// When the due challenges may go, if the budget holds them back.
    held_until: Option<Instant>,
    /// Whether a challenge of this round could not go out.
    missed: bool,
    /// When a late response discredited the responses before it.
    discredited_at: Option<Instant>,
    /// Send time of the first challenge in the current run of answered ones.
    answered_since: Option<Instant>,
    /// The pair that answered a small challenge and needs a full one.
    full_due: Option<FourTuple>,
    /// Small challenges that were answered since the start.
    small_answers: u32,
}

impl ChallengeRun {
    /// Whether a challenge is due.
    fn is_due(&self, now: Instant) -> bool {
        if self.due.is_empty() { self.next_at <= now } else { self.held_until.is_none_or(|at| at <= now) }
    }

    /// All targets are due.
    fn begin_round(&mut self, now: Instant) {
        self.due.extend(self.targets.iter().rev().copied());
        self.rounds = self.rounds.saturating_add(1);
        self.missed = false;
        self.next_at = now + self.wait;
        self.wait = (self.wait * 2).min(longest_wait(now - self.since)).max(self.least_wait);
    }
}

impl Challenger {
    pub(crate) fn new() -> Self {
        Self { outstanding: VecDeque::new(), run: None }
    }

    /// Starts challenges to `targets` at once, first with `first_wait` between rounds (`None` for an unknown
    /// distance).
    pub(crate) fn start(&mut self, now: Instant, mut targets: Vec<FourTuple>, first_wait: Option<Duration>) {
        targets.truncate(MAX_TARGETS);
        let wait =
            first_wait.unwrap_or(FIRST_WAIT).clamp(Duration::from_millis(10), longest_wait(Duration::ZERO));
        self.run = Some(Box::new(ChallengeRun {
            targets,
            since: now,
            next_at: now,
            wait,
            least_wait: Duration::ZERO,
            rounds: 0,
            due: Vec::new(),
            held_until: None,
            missed: false,
            discredited_at: None,
            answered_since: None,
            full_due: None,
            small_answers: 0,
        }));
    }

    /// From now on at least this time passes between two challenges to one pair, until the next [`start`](Self::start).
    pub(crate) fn slow_down(&mut self, least_wait: Duration) {
        if let Some(run) = &mut self.run {
            run.least_wait = least_wait;
            run.wait = run.wait.max(least_wait);
        }
    }

    /// Changes the targets; a new target starts a round at once.
    pub(crate) fn set_targets(&mut self, now: Instant, mut wanted: Vec<FourTuple>) {
        let Some(run) = &mut self.run else { return };
        wanted.truncate(MAX_TARGETS);
        if wanted.iter().any(|tuple| !run.targets.contains(tuple)) {
            run.next_at = now;
        }
        run.due.retain(|tuple| wanted.contains(tuple));
        if !wanted.is_empty() {
            run.targets = wanted;
        }
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        if self.run.is_none() {
            // Responses this late prove nothing new.
            self.outstanding.clear();
        }
        self.outstanding.shrink_to_fit();
    }

    pub(crate) fn stop(&mut self) {
        self.run = None;
    }

    /// Sends the next challenge early, at once if the last one is not too recent (spec 6.132): an event makes a
    /// response likely, perhaps with every packet.
    pub(crate) fn expedite(&mut self, now: Instant) {
        let last_at = self.outstanding.back().map(|challenge| challenge.sent_at);
        let gap = self.gap();
        if let Some(run) = &mut self.run {
            let earliest = last_at.map_or(now, |last_at| now.max(last_at + gap));
            run.next_at = earliest.min(run.next_at);
        }
    }

    /// Starts the next round at this time at the latest.
    pub(crate) fn challenge_by(&mut self, at: Instant) {
        if let Some(run) = &mut self.run {
            run.next_at = run.next_at.min(at);
        }
    }

    /// Since when every challenge was answered, if any was since the start.
    pub(crate) fn answered_since(&self) -> Option<Instant> {
        self.run.as_ref()?.answered_since
    }

    /// The last challenge could not go out, because the amplification limit of its unvalidated address forbids
    /// it. The round counts nevertheless, so that a silent address is given up.
    pub(crate) fn on_held_back(&mut self) {
        self.outstanding.pop_back();
        if let Some(run) = &mut self.run {
            run.missed = true;
        }
    }

    /// The amplification limit permits a challenge: a missed one goes out at once, in place of its round.
    pub(crate) fn on_room(&mut self, now: Instant) {
        if let Some(run) = &mut self.run
            && std::mem::take(&mut run.missed)
        {
            run.rounds = run.rounds.saturating_sub(1);
            run.next_at = now.min(run.next_at);
        }
    }

    /// Whether a PROBE of the peer is worth a challenge in return: not if one left just now. A hundred delayed PROBEs
    /// that arrive at once are worth one challenge.
    pub(crate) fn is_challenge_back_due(&mut self, now: Instant, tuple: &FourTuple) -> bool {
        let gap = self.gap();
        let last = self.outstanding.iter().rev().find(|challenge| challenge.tuple == *tuple);
        let is_worth = last.is_none_or(|challenge| now >= challenge.sent_at + gap);
        if let Some(run) = self.run.as_mut().filter(|run| is_worth && !run.least_wait.is_zero()) {
            run.next_at = run.next_at.max(now + run.least_wait);
        }
        is_worth
    }

    /// Challenges an address pair that is no target once, unless it was challenged just now.
    pub(crate) fn challenge_back(&mut self, now: Instant, tuple: FourTuple) {
        let is_worth_it = self.is_challenge_back_due(now, &tuple);
        if let Some(run) = self.run.as_mut().filter(|run| is_worth_it && !run.due.contains(&tuple)) {
            if run.due.is_empty() && run.next_at <= now {
                run.begin_round(now);
            }
            run.due.push(tuple);
        }
    }

    /// The shortest time between two challenges outside the rounds.
    fn gap(&self) -> Duration {
        let least = self.run.as_ref().map_or(Duration::ZERO, |run| run.least_wait);
        (LEAST_GAP * (1 << self.rounds().min(MOST_DOUBLINGS))).max(least)
    }

    pub(crate) fn is_target(&self, tuple: &FourTuple) -> bool {
        self.run.as_ref().is_some_and(|run| run.targets.contains(tuple))
    }

    /// A target other than `tuple`.
    pub(crate) fn target_besides(&self, tuple: &FourTuple) -> Option<FourTuple> {
        self.run.as_ref()?.targets.iter().find(|target| *target != tuple).copied()
    }

    /// Whether a challenge should fill a datagram at once: most outages are short, and the response then counts
    /// without a second challenge.
    pub(crate) fn fills_datagrams(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.rounds <= FULL_ROUNDS)
    }

    /// The last challenge fills a datagram.
    pub(crate) fn on_filled(&mut self) {
        if let Some(challenge) = self.outstanding.back_mut() {
            challenge.is_full = true;
        }
    }

    /// A small challenge to this pair was answered: a full one follows. Returns how many small ones were answered so
    /// far.
    pub(crate) fn on_small_response(&mut self, tuple: FourTuple) -> u32 {
        let Some(run) = &mut self.run else { return 0 };
        run.full_due = Some(tuple);
        run.small_answers = run.small_answers.saturating_add(1);
        run.small_answers
    }

    /// The pair that is due for a full challenge.
    pub(crate) fn take_full_due(&mut self) -> Option<FourTuple> {
        self.run.as_mut()?.full_due.take()
    }

    /// Rounds without a response since the start.
    pub(crate) fn rounds(&self) -> u32 {
        self.run.as_ref().map_or(0, |run| run.rounds)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let run = self.run.as_ref()?;
        Some(run.held_until.filter(|_| !run.due.is_empty()).unwrap_or(run.next_at))
    }

    /// The next challenge to send, if one is due: an address pair and its nonce. `may_challenge` tells whether an
    /// address may be challenged now, or else when; addresses that may go first.
    pub(crate) fn next_challenge(
        &mut self,
        now: Instant,
        rng: &mut Rng,
        mut may_challenge: impl FnMut(SocketAddr) -> Result<(), Instant>,
    ) -> Option<(FourTuple, u64)> {
        let run = self.run.as_mut().filter(|run| run.is_due(now))?;
        if run.due.is_empty() {
            run.begin_round(now);
        }
        let ChallengeRun { due, held_until, .. } = &mut **run;
        *held_until = None;
        let mut chosen = None;
        for (at, tuple) in due.iter().enumerate().rev() {
            match may_challenge(tuple.remote) {
                Ok(()) => {
                    chosen = Some(at);
                    break;
                }
                Err(later) => *held_until = Some(held_until.map_or(later, |earliest| earliest.min(later))),
            }
        }
        let tuple = due.remove(chosen?);
        *held_until = None;
        Some((tuple, self.challenge(now, tuple, rng)))
    }

    /// Creates a challenge for one address pair, outside the rounds.
    pub(crate) fn challenge(&mut self, now: Instant, tuple: FourTuple, rng: &mut Rng) -> u64 {
        let nonce = rng.next_u64();
        if self.outstanding.len() >= MAX_OUTSTANDING {
            self.outstanding.pop_front();
        }
        self.outstanding.push_back(Challenge { tuple, nonce, sent_at: now, is_full: false });
        nonce
    }

    /// Whether a response is so late that its challenge may have waited for a sleeping peer, so that it says nothing
    /// about the distance. If so, all targets are challenged again at once, and responses to older challenges do not
    /// count.
    pub(crate) fn is_stale_response(&mut self, now: Instant, answer: &PathResponse, usual: Duration) -> bool {
        if answer.rtt <= usual {
            return false;
        }
        let Some(run) = &mut self.run else { return false };
        match run.discredited_at {
            Some(discredited_at) => now - discredited_at < answer.rtt,
            None => {
                run.discredited_at = Some(now);
                self.expedite(now);
                true
            }
        }
    }

    /// Takes a response; `None` if it matches no challenge, or came over another pair than the challenge.
    pub(crate) fn on_response(
        &mut self,
        now: Instant,
        tuple: &FourTuple,
        nonce: u64,
    ) -> Option<PathResponse> {
        let index = self.outstanding.iter().position(|challenge| challenge.nonce == nonce)?;
        let challenge = *self.outstanding.get(index)?;
        if challenge.tuple != *tuple {
            return None;
        }
        if let Some(run) = &mut self.run {
            let since = run.answered_since;
            let is_missed = |earlier: &Challenge| {
                earlier.tuple == *tuple && since.is_some_and(|since| earlier.sent_at >= since)
            };
            if since.is_none() || self.outstanding.iter().take(index).any(is_missed) {
                run.answered_since = Some(challenge.sent_at);
            }
        }
        self.outstanding.remove(index);
        let Challenge { tuple, sent_at, is_full, .. } = challenge;
        Some(PathResponse { tuple, rtt: now - sent_at, is_full })
    }
}

fn longest_wait(open_for: Duration) -> Duration {
    LONGEST_WAIT.iter().find(|(until, _)| open_for < *until).map_or(AT_LAST, |(_, wait)| *wait)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Challenger, PathResponse};
    use crate::path::testing::tuple;
    use crate::{Instant, Rng};

    fn is_due(challenger: &Challenger, now: Instant) -> bool {
        challenger.run.as_ref().is_some_and(|run| run.is_due(now))
    }

    #[test]
    fn a_lost_challenge_is_repeated_with_growing_waits() {
        let mut rng = Rng::from_seed([1; 32]);
        let mut challenger = Challenger::new();
        let mut now = Instant::from_nanos(0);
        challenger.start(now, vec![tuple(1)], None);
        let mut waits = Vec::new();
        for _ in 0..5 {
            assert!(challenger.next_challenge(now, &mut rng, |_| Ok(())).is_some());
            assert!(challenger.next_challenge(now, &mut rng, |_| Ok(())).is_none());
            let next = challenger.deadline().unwrap();
            waits.push((next - now).as_millis());
            now = next;
        }
        assert_eq!(waits, [250, 300, 300, 300, 300]);
        // After a minute of silence challenges slow down, after ten minutes even more.
        for (silence, wait) in [(70, 5), (590, 5), (620, 15), (3600, 15)] {
            while now < Instant::from_nanos(0) + Duration::from_secs(silence) {
                assert!(challenger.next_challenge(now, &mut rng, |_| Ok(())).is_some());
                now = challenger.deadline().unwrap();
            }
            assert!(challenger.next_challenge(now, &mut rng, |_| Ok(())).is_some());
            assert_eq!(challenger.deadline().unwrap() - now, Duration::from_secs(wait), "after {silence} s");
            now = challenger.deadline().unwrap();
        }
    }

    #[test]
    fn a_challenge_without_allowance_goes_as_soon_as_there_is_some_and_counts_as_one_round() {
        let mut rng = Rng::from_seed([1; 32]);
        let mut challenger = Challenger::new();
        let now = Instant::from_nanos(0);
        challenger.start(now, vec![tuple(1)], None);
        assert!(challenger.next_challenge(now, &mut rng, |_| Ok(())).is_some());
        challenger.on_held_back();
        assert!(challenger.outstanding.is_empty() && !is_due(&challenger, now));
        let now = now + Duration::from_millis(20);
        challenger.on_room(now);
        assert_eq!((is_due(&challenger, now), challenger.rounds()), (true, 0));
        assert!(challenger.next_challenge(now, &mut rng, |_| Ok(())).is_some());
        challenger.on_room(now);
        assert_eq!(
            (is_due(&challenger, now), challenger.rounds(), challenger.outstanding.len()),
            (false, 1, 1)
        );
    }

    #[test]
    fn many_packets_of_the_peer_cause_one_challenge() {
        let mut rng = Rng::from_seed([1; 32]);
        let mut challenger = Challenger::new();
        let start = Instant::from_nanos(0);
        challenger.start(start, vec![tuple(1)], Some(Duration::from_millis(10)));
        let mut challenges = 0;
        for tick in 0..1000 {
            let now = start + Duration::from_millis(tick);
            challenger.expedite(now);
            while challenger.next_challenge(now, &mut rng, |_| Ok(())).is_some() {
                challenges += 1;
            }
        }
        // In a second: the challenges of the rounds, and no more for the packets.
        assert!((8..=20).contains(&challenges), "{challenges}");
    }

    #[test]
    fn a_late_response_counts_only_if_the_next_one_is_as_late() {
        let second = Duration::from_secs(1);
        let usual = Duration::from_millis(100);
        let answer = |rtt| PathResponse { tuple: tuple(1), rtt, is_full: false };
        let mut challenger = Challenger::new();
        let start = Instant::from_nanos(0) + 10 * second;
        challenger.start(start, vec![tuple(1)], None);
        assert!(!challenger.is_stale_response(start, &answer(usual), usual));
        // Three challenges waited; the challenge after the first response is as late.
        let now = start + 5 * second;
        assert!(challenger.is_stale_response(now, &answer(3 * second), usual));
        assert!(is_due(&challenger, now));
        assert!(challenger.is_stale_response(now, &answer(2 * second), usual));
        assert!(challenger.is_stale_response(now + second, &answer(2 * second), usual));
        assert!(!challenger.is_stale_response(now + 3 * second, &answer(3 * second), usual));
        // Here the next response is prompt.
        challenger.start(start, vec![tuple(1)], None);
        assert!(challenger.is_stale_response(now, &answer(3 * second), usual));
        assert!(!challenger.is_stale_response(now + usual, &answer(usual), usual));
    }

    #[test]
    fn only_the_right_nonce_from_the_right_address_is_a_response() {
        let mut rng = Rng::from_seed([1; 32]);
        let mut challenger = Challenger::new();
        let now = Instant::from_nanos(0);
        challenger.start(now, vec![tuple(1), tuple(2)], None);
        let (first, nonce) = challenger.next_challenge(now, &mut rng, |_| Ok(())).unwrap();
        let (second, _) = challenger.next_challenge(now, &mut rng, |_| Ok(())).unwrap();
        assert_eq!((first, second), (tuple(1), tuple(2)));
        let later = now + Duration::from_millis(7);
        assert_eq!(challenger.on_response(later, &second, nonce), None);
        assert_eq!(challenger.on_response(later, &first, nonce ^ 1), None);
        assert_eq!(challenger.on_response(later, &first, nonce).unwrap().rtt, Duration::from_millis(7));
        assert_eq!(challenger.on_response(later, &first, nonce), None);
    }

    #[test]
    fn an_unanswered_challenge_ends_the_run_of_answered_ones() {
        let ms = Duration::from_millis;
        let mut rng = Rng::from_seed([1; 32]);
        let mut challenger = Challenger::new();
        let start = Instant::from_nanos(0);
        challenger.start(start, vec![tuple(1)], None);
        let mut challenge_at = |challenger: &mut Challenger, now: Instant| {
            challenger.challenge_by(now);
            challenger.next_challenge(now, &mut rng, |_| Ok(())).unwrap().1
        };
        assert_eq!(challenger.answered_since(), None);
        let _lost = challenge_at(&mut challenger, start);
        let second = challenge_at(&mut challenger, start + ms(10));
        let third = challenge_at(&mut challenger, start + ms(20));
        assert!(challenger.on_response(start + ms(30), &tuple(1), second).is_some());
        assert!(challenger.on_response(start + ms(40), &tuple(1), third).is_some());
        assert_eq!(challenger.answered_since(), Some(start + ms(10)));
        let _lost = challenge_at(&mut challenger, start + ms(50));
        let fifth = challenge_at(&mut challenger, start + ms(60));
        assert!(challenger.on_response(start + ms(70), &tuple(1), fifth).is_some());
        assert_eq!(challenger.answered_since(), Some(start + ms(60)));
        challenger.start(start + ms(80), vec![tuple(1)], None);
        assert_eq!(challenger.answered_since(), None);
    }

    #[test]
    fn hurried_challenges_leave_each_other_time_for_responses() {
        let mut rng = Rng::from_seed([1; 32]);
        let mut challenger = Challenger::new();
        let start = Instant::from_nanos(0);
        challenger.start(start, vec![tuple(1)], None);
        let mut challenges = Vec::new();
        // A packet arrives every millisecond.
        for millis in 0..10_000 {
            let now = start + Duration::from_millis(millis);
            challenger.expedite(now);
            let challenge = challenger.next_challenge(now, &mut rng, |_| Ok(()));
            challenges.extend(challenge.map(|(_, nonce)| (millis, nonce)));
        }
        let moments: Vec<_> = challenges.iter().take(6).map(|(millis, _)| *millis).collect();
        assert_eq!(moments, [0, 20, 60, 140, 300, 600]);
        // After a second a response to any challenge is still accepted.
        let now = start + Duration::from_secs(10);
        for (millis, nonce) in challenges.iter().filter(|(millis, _)| *millis > 6_000) {
            let answer = challenger.on_response(now, &tuple(1), *nonce);
            assert!(answer.is_some(), "sent at {millis} ms");
        }
        // An address whose last challenge is long ago is challenged at once.
        challenger.expedite(now + Duration::from_secs(1));
        assert!(is_due(&challenger, now + Duration::from_secs(1)));
    }

    #[test]
    fn of_many_pairs_even_a_distant_one_answers_in_time() {
        let mut rng = Rng::from_seed([1; 32]);
        let mut challenger = Challenger::new();
        let start = Instant::from_nanos(0);
        challenger.start(start, (1..=8).map(tuple).collect(), None);
        let mut challenges = Vec::new();
        for millis in 0..5_000 {
            let now = start + Duration::from_millis(millis);
            while let Some((tuple, nonce)) = challenger.next_challenge(now, &mut rng, |_| Ok(())) {
                challenges.push((now, tuple, nonce));
            }
            let far = Duration::from_millis(1_500);
            for (_, tuple, nonce) in challenges.iter().filter(|(at, ..)| *at + far == now) {
                assert!(challenger.on_response(now, tuple, *nonce).is_some(), "{millis}");
            }
        }
        assert!(challenges.len() > 100);
    }

    #[test]
    fn a_peer_that_sends_many_probes_is_challenged_now_and_then() {
        let mut rng = Rng::from_seed([1; 32]);
        let mut challenger = Challenger::new();
        let start = Instant::from_nanos(0);
        let late = start + Duration::from_secs(40);
        challenger.start(start, vec![tuple(1)], None);
        let mut now = start;
        while now < late {
            challenger.next_challenge(now, &mut rng, |_| Ok(()));
            now = challenger.deadline().unwrap();
        }
        // All delayed PROBEs arrive at once.
        let mut challenges = 0;
        for millis in 0..1000 {
            let now = late + Duration::from_millis(millis);
            for port in [1, 2] {
                if challenger.is_challenge_back_due(now, &tuple(port)) {
                    challenges += 1;
                    challenger.challenge(now, tuple(port), &mut rng);
                }
            }
        }
        assert_eq!(challenges, 4, "each of two twice");
    }

    #[test]
    fn an_address_held_back_by_the_budget_delays_no_other() {
        let mut rng = Rng::from_seed([1; 32]);
        let mut challenger = Challenger::new();
        let start = Instant::from_nanos(0);
        challenger.start(start, vec![tuple(1), tuple(2), tuple(3)], None);
        let later = start + Duration::from_millis(70);
        let mut challenge_at = |now: Instant| {
            let may_challenge = |address: std::net::SocketAddr| {
                if address.port() == 1 && now < later { Err(later) } else { Ok(()) }
            };
            let challenge = challenger.next_challenge(now, &mut rng, may_challenge);
            (challenge.map(|(tuple, _)| tuple.remote.port()), challenger.deadline().unwrap())
        };
        assert_eq!(challenge_at(start).0, Some(2));
        assert_eq!(challenge_at(start).0, Some(3));
        assert_eq!(challenge_at(start), (None, later));
        assert_eq!(challenge_at(later).0, Some(1));
        assert_eq!(challenge_at(later), (None, start + Duration::from_millis(250)));
    }
}
