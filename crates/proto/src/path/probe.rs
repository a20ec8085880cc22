//! PROBE and PROBE-ACK: is there somebody at that address, and how far away?

use std::collections::VecDeque;
use std::time::Duration;

use crate::{FourTuple, Instant, Rng};

/// Most questions that wait for their answers at a time.
const MAX_OUTSTANDING: usize = 16;
/// Most address pairs that one path tries.
pub(crate) const MAX_TARGETS: usize = 8;
/// First wait for an answer from an address that was never heard.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// The longest wait, by how long the question has been open: most outages are short, and a question costs 40 bytes.
const LONGEST_WAIT: [(Duration, Duration); 3] = [
    (Duration::from_secs(10), Duration::from_millis(300)),
    (Duration::from_secs(60), Duration::from_secs(1)),
    (Duration::MAX, Duration::from_secs(5)),
];

/// One question on its way.
#[derive(Debug, Clone, Copy)]
struct Challenge {
    tuple: FourTuple,
    nonce: u64,
    sent_at: Instant,
}

/// An answer that fits a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProbeAnswer {
    pub(crate) tuple: FourTuple,
    pub(crate) rtt: Duration,
}

/// Asks one or more address pairs of a path, again and again with growing waits, until told to stop.
#[derive(Debug)]
pub(crate) struct Prober {
    outstanding: VecDeque<Challenge>,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Resting,
    Asking {
        targets: Vec<FourTuple>,
        since: Instant,
        next_at: Instant,
        wait: Duration,
        rounds: u32,
        due: Vec<FourTuple>,
    },
}

impl Prober {
    pub(crate) fn new() -> Self {
        Self { outstanding: VecDeque::new(), phase: Phase::Resting }
    }

    /// Starts asking `targets` at once, first with `first_wait` between rounds (`None` for an unknown distance).
    pub(crate) fn start(&mut self, now: Instant, mut targets: Vec<FourTuple>, first_wait: Option<Duration>) {
        targets.truncate(MAX_TARGETS);
        let wait =
            first_wait.unwrap_or(FIRST_WAIT).clamp(Duration::from_millis(10), longest_wait(Duration::ZERO));
        self.phase = Phase::Asking { targets, since: now, next_at: now, wait, rounds: 0, due: Vec::new() };
    }

    /// Changes whom to ask; if there is anybody new, all are asked at once.
    pub(crate) fn set_targets(&mut self, now: Instant, mut wanted: Vec<FourTuple>) {
        let Phase::Asking { targets, next_at, due, .. } = &mut self.phase else { return };
        wanted.truncate(MAX_TARGETS);
        if wanted.iter().any(|tuple| !targets.contains(tuple)) {
            *next_at = now;
        }
        due.retain(|tuple| wanted.contains(tuple));
        if !wanted.is_empty() {
            *targets = wanted;
        }
    }

    /// Gives back memory that is not used.
    pub(crate) fn shrink_to_fit(&mut self) {
        if matches!(self.phase, Phase::Resting) {
            // Answers that late prove nothing that is not known.
            self.outstanding.clear();
        }
        self.outstanding.shrink_to_fit();
    }

    pub(crate) fn stop(&mut self) {
        self.phase = Phase::Resting;
    }

    /// Asks again at once: something happened that makes an answer likely.
    pub(crate) fn hurry(&mut self, now: Instant) {
        if let Phase::Asking { next_at, .. } = &mut self.phase {
            *next_at = now;
        }
    }

    pub(crate) fn is_target(&self, tuple: &FourTuple) -> bool {
        match &self.phase {
            Phase::Resting => false,
            Phase::Asking { targets, .. } => targets.contains(tuple),
        }
    }

    /// Rounds without an answer since the start.
    pub(crate) fn rounds(&self) -> u32 {
        match &self.phase {
            Phase::Resting => 0,
            Phase::Asking { rounds, .. } => *rounds,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Resting => None,
            Phase::Asking { next_at, .. } => Some(*next_at),
        }
    }

    /// Tells whether a question should go out now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        match &self.phase {
            Phase::Resting => false,
            Phase::Asking { next_at, due, .. } => !due.is_empty() || *next_at <= now,
        }
    }

    /// The next question to send, if one is due: an address pair and the nonce for it.
    pub(crate) fn next_question(&mut self, now: Instant, rng: &mut Rng) -> Option<(FourTuple, u64)> {
        let Phase::Asking { targets, since, next_at, wait, rounds, due } = &mut self.phase else {
            return None;
        };
        if due.is_empty() && *next_at <= now {
            due.extend(targets.iter().rev().copied());
            *rounds = rounds.saturating_add(1);
            *next_at = now + *wait;
            *wait = (*wait * 2).min(longest_wait(now - *since));
        }
        let tuple = due.pop()?;
        Some((tuple, self.ask(now, tuple, rng)))
    }

    /// Makes a question for one address pair, outside the rounds.
    pub(crate) fn ask(&mut self, now: Instant, tuple: FourTuple, rng: &mut Rng) -> u64 {
        let nonce = rng.next_u64();
        if self.outstanding.len() >= MAX_OUTSTANDING {
            self.outstanding.pop_front();
        }
        self.outstanding.push_back(Challenge { tuple, nonce, sent_at: now });
        nonce
    }

    /// Asks one more address pair in the rounds that follow.
    pub(crate) fn add_target(&mut self, tuple: FourTuple) {
        if let Phase::Asking { targets, .. } = &mut self.phase
            && targets.len() < MAX_TARGETS
            && !targets.contains(&tuple)
        {
            targets.push(tuple);
        }
    }

    /// Takes an answer; `None` if it fits no question, or came to another address than it was asked from.
    pub(crate) fn on_answer(&mut self, now: Instant, tuple: &FourTuple, nonce: u64) -> Option<ProbeAnswer> {
        let index = self.outstanding.iter().position(|challenge| challenge.nonce == nonce)?;
        let challenge = *self.outstanding.get(index)?;
        if challenge.tuple != *tuple {
            return None;
        }
        self.outstanding.remove(index);
        Some(ProbeAnswer { tuple: challenge.tuple, rtt: now - challenge.sent_at })
    }
}

fn longest_wait(open_for: Duration) -> Duration {
    LONGEST_WAIT.iter().find(|(until, _)| open_for < *until).map_or(Duration::from_secs(5), |(_, wait)| *wait)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Prober;
    use crate::{FourTuple, Instant, LocalAddress, Rng};

    fn tuple(port: u16) -> FourTuple {
        FourTuple {
            local: LocalAddress { interface: 1, address: "10.0.0.1:1".parse().unwrap() },
            remote: format!("10.0.0.2:{port}").parse().unwrap(),
        }
    }

    #[test]
    fn a_lost_question_is_asked_again_with_growing_waits() {
        let mut rng = Rng::from_seed([1; 32]);
        let mut prober = Prober::new();
        let mut now = Instant::from_nanos(0);
        prober.start(now, vec![tuple(1)], None);
        let mut waits = Vec::new();
        for _ in 0..5 {
            assert!(prober.next_question(now, &mut rng).is_some());
            assert!(prober.next_question(now, &mut rng).is_none());
            let next = prober.deadline().unwrap();
            waits.push((next - now).as_millis());
            now = next;
        }
        assert_eq!(waits, [250, 300, 300, 300, 300]);
        // After a minute of silence nobody is in a hurry any more.
        while now < Instant::from_nanos(0) + Duration::from_secs(70) {
            assert!(prober.next_question(now, &mut rng).is_some());
            now = prober.deadline().unwrap();
        }
        assert!(prober.next_question(now, &mut rng).is_some());
        assert_eq!(prober.deadline().unwrap() - now, Duration::from_secs(5));
    }

    #[test]
    fn only_the_right_nonce_from_the_right_address_is_an_answer() {
        let mut rng = Rng::from_seed([1; 32]);
        let mut prober = Prober::new();
        let now = Instant::from_nanos(0);
        prober.start(now, vec![tuple(1), tuple(2)], None);
        let (first, nonce) = prober.next_question(now, &mut rng).unwrap();
        let (second, _) = prober.next_question(now, &mut rng).unwrap();
        assert_eq!((first, second), (tuple(1), tuple(2)));
        let later = now + Duration::from_millis(7);
        assert_eq!(prober.on_answer(later, &second, nonce), None);
        assert_eq!(prober.on_answer(later, &first, nonce ^ 1), None);
        assert_eq!(prober.on_answer(later, &first, nonce).unwrap().rtt, Duration::from_millis(7));
        assert_eq!(prober.on_answer(later, &first, nonce), None);
    }
}
