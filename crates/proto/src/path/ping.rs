//! Pings: round-trip measurements that the application requests on one path.
//!
//! A ping is a PROBE that is sent once (spec 6.37, 6.112). It goes out in any state of the path, and its response validates
//! the path as that to any other PROBE does.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use super::PathResponse;
use crate::{FourTuple, Instant, Rng};

/// Most pings of a path that wait to be sent or answered.
pub(crate) const MAX_PINGS: usize = 256;

/// The number of a ping, which identifies its response. Each path counts from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PingToken(pub u64);

impl fmt::Display for PingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    token: PingToken,
    nonce: u64,
    tuple: FourTuple,
    at: Instant,
    /// Whether [`Pings::take_missed`] has reported it.
    missed: bool,
}

/// The pings of one path.
#[derive(Debug, Default)]
pub(crate) struct Pings {
    next: u64,
    waiting: VecDeque<PingToken>,
    sent: VecDeque<Sent>,
}

impl Pings {
    /// Queues a ping; if there are too many, drops the oldest.
    pub(crate) fn request(&mut self) -> PingToken {
        let token = PingToken(self.next);
        self.next += 1;
        if self.waiting.len() + self.sent.len() >= MAX_PINGS && self.sent.pop_front().is_none() {
            self.waiting.pop_front();
        }
        self.waiting.push_back(token);
        token
    }

    pub(crate) fn is_due(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The nonce of the next ping, which goes between these addresses now.
    pub(crate) fn next_challenge(&mut self, now: Instant, tuple: FourTuple, rng: &mut Rng) -> Option<u64> {
        let token = self.waiting.pop_front()?;
        let nonce = rng.next_u64();
        self.sent.push_back(Sent { token, nonce, tuple, at: now, missed: false });
        Some(nonce)
    }

    /// When the next unanswered ping has waited for `wait`.
    pub(crate) fn deadline(&self, wait: Duration) -> Option<Instant> {
        self.sent.iter().find(|sent| !sent.missed).map(|sent| sent.at + wait)
    }

    /// The send time of the latest ping that has waited for `wait` without a response; reports each ping once.
    pub(crate) fn take_missed(&mut self, now: Instant, wait: Duration) -> Option<Instant> {
        let due = self.sent.iter_mut().filter(|sent| !sent.missed && sent.at + wait <= now);
        due.fold(None, |_, sent| {
            sent.missed = true;
            Some(sent.at)
        })
    }

    /// Takes a response; `None` if it matches no ping, or came over another pair than the ping.
    pub(crate) fn on_answer(
        &mut self,
        now: Instant,
        tuple: &FourTuple,
        nonce: u64,
    ) -> Option<(PingToken, PathResponse)> {
        let index = self.sent.iter().position(|sent| sent.nonce == nonce && sent.tuple == *tuple)?;
        let sent = self.sent.remove(index)?;
        Some((sent.token, PathResponse { tuple: sent.tuple, rtt: now - sent.at, is_full: false }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::testing::tuple;

    #[test]
    fn a_response_counts_once_and_only_from_the_challenged_address() {
        let (mut pings, mut rng, now) = (Pings::default(), Rng::from_seed([1; 32]), Instant::from_nanos(0));
        let token = pings.request();
        let nonce = pings.next_challenge(now, tuple(1), &mut rng).unwrap();
        assert!(!pings.is_due());
        let later = now + Duration::from_millis(9);
        assert_eq!(pings.on_answer(later, &tuple(2), nonce), None);
        assert_eq!(pings.on_answer(later, &tuple(1), nonce ^ 1), None);
        let (answered, answer) = pings.on_answer(later, &tuple(1), nonce).unwrap();
        assert_eq!((answered, answer.rtt), (token, Duration::from_millis(9)));
        assert_eq!(pings.on_answer(later, &tuple(1), nonce), None);
    }

    #[test]
    fn the_oldest_ping_is_forgotten_when_there_are_too_many() {
        let (mut pings, mut rng, now) = (Pings::default(), Rng::from_seed([1; 32]), Instant::from_nanos(0));
        pings.request();
        let first = pings.next_challenge(now, tuple(1), &mut rng).unwrap();
        for _ in 0..3 * MAX_PINGS {
            pings.request();
        }
        assert_eq!(pings.waiting.len() + pings.sent.len(), MAX_PINGS);
        assert_eq!(pings.on_answer(now, &tuple(1), first), None);
        assert_eq!(pings.waiting.back(), Some(&PingToken(3 * MAX_PINGS as u64)));
    }
}
