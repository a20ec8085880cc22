//! Choice of address pairs for TCP connections, as AMS makes it (section 3.4): connects between all addresses at once, and
//! keeps those connections that use no address twice and have the least sum of times to connect.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{FourTuple, Instant, LocalAddress};

/// This long after the first connection the pending attempts are given up. TCP would repeat a lost SYN after a second.
const PATIENCE: Duration = Duration::from_secs(1);
/// Shortest and longest time until attempts are repeated.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_AT_MOST: Duration = Duration::from_secs(60);
/// Most addresses of each end that take part.
const MOST: usize = 8;

/// Connection attempts between all pairs of addresses.
#[derive(Debug)]
pub(super) struct PairAttempts {
    remotes: Vec<SocketAddr>,
    attempts: Vec<PairAttempt>,
    /// When the first attempt succeeded.
    first_at: Option<Instant>,
}

#[derive(Debug)]
struct PairAttempt {
    local: LocalAddress,
    remote: SocketAddr,
    result: Outcome,
}

#[derive(Debug, Clone, Copy)]
enum Outcome {
    Pending,
    Connected { tuple: FourTuple, took: Duration },
    Failed,
}

/// When attempts are repeated that gave fewer connections than there are addresses.
#[derive(Debug, Default)]
pub(super) struct Repetition(Option<(Instant, Duration)>);

impl Repetition {
    /// Ends it if it has no reason any more.
    pub(super) fn review(&mut self, is_over: bool) {
        self.0 = self.0.filter(|_| !is_over);
    }

    pub(super) fn at(&self) -> Option<Instant> {
        self.0.map(|(at, _)| at)
    }

    /// Attempts ended, and addresses are left over or not.
    pub(super) fn on_end(&mut self, now: Instant, are_left: bool) {
        let after = self.0.map_or(AGAIN, |(_, after)| (after * 2).min(AGAIN_AT_MOST));
        self.0 = are_left.then_some((now + after, after));
    }
}

/// The result of the attempts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) kept: Vec<FourTuple>,
    pub(super) dropped: Vec<FourTuple>,
}

impl PairAttempts {
    /// All pairs of one family; `None` without a choice, that is if there is only one.
    pub(super) fn new(locals: &[LocalAddress], remotes: &[SocketAddr]) -> Option<Self> {
        let remotes: Vec<_> = remotes.iter().copied().take(MOST).collect();
        let pairs = locals.iter().take(MOST).flat_map(|local| remotes.iter().map(|remote| (*local, *remote)));
        let attempts: Vec<_> = pairs
            .filter(|(local, remote)| local.address.is_ipv4() == remote.is_ipv4())
            .map(|(local, remote)| PairAttempt { local, remote, result: Outcome::Pending })
            .collect();
        (attempts.len() > 1).then_some(Self { remotes, attempts, first_at: None })
    }

    /// The pairs, in the order in which to connect.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (LocalAddress, SocketAddr)> {
        self.attempts.iter().map(|attempt| (attempt.local, attempt.remote))
    }

    /// An attempt succeeded in this time, or failed. False if its result is not needed.
    pub(super) fn on_result(
        &mut self,
        now: Instant,
        (local, remote): (&LocalAddress, SocketAddr),
        result: Option<(FourTuple, Duration)>,
    ) -> bool {
        let is_meant = |attempt: &&mut PairAttempt| {
            attempt.local == *local && attempt.remote == remote && matches!(attempt.result, Outcome::Pending)
        };
        let Some(attempt) = self.attempts.iter_mut().find(is_meant) else { return false };
        attempt.result = match result {
            Some((tuple, took)) => {
                self.first_at.get_or_insert(now);
                Outcome::Connected { tuple, took }
            }
            None => Outcome::Failed,
        };
        true
    }

    /// A pair has a connection already, which stands for an attempt that took too long: through its full queue a new one
    /// may not be set up in time.
    pub(super) fn on_established(&mut self, tuple: &FourTuple) {
        let of_pair = self.attempts.iter_mut().find(|attempt| {
            is_of_one_interface(&attempt.local, &tuple.local)
                && attempt.remote == tuple.remote
                && matches!(attempt.result, Outcome::Pending)
        });
        if let Some(attempt) = of_pair {
            attempt.result = Outcome::Connected { tuple: *tuple, took: PATIENCE };
        }
    }

    /// A connection of an attempt has ended.
    pub(super) fn on_ended(&mut self, ended: &FourTuple) {
        for attempt in &mut self.attempts {
            if matches!(attempt.result, Outcome::Connected { tuple, .. } if tuple == *ended) {
                attempt.result = Outcome::Failed;
            }
        }
    }

    /// When the pending attempts are given up.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.first_at.map(|at| at + PATIENCE)
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        let is_pending = self.attempts.iter().any(|attempt| matches!(attempt.result, Outcome::Pending));
        !is_pending || self.deadline().is_some_and(|at| at <= now)
    }

    /// As many connections as there could be: one for each address of the end with fewer.
    pub(super) fn most(&self) -> usize {
        self.interfaces().len().min(self.remotes.len())
    }

    fn interfaces(&self) -> Vec<LocalAddress> {
        let mut interfaces: Vec<LocalAddress> = Vec::new();
        for attempt in &self.attempts {
            if !interfaces.iter().any(|local| is_of_one_interface(local, &attempt.local)) {
                interfaces.push(attempt.local);
            }
        }
        interfaces
    }

    /// As many connections as there can be without an interface or an address of the peer in two of them; of these the
    /// ones with the least sum of times to connect.
    pub(super) fn choose(self) -> Chosen {
        let interfaces = self.interfaces();
        // The best choice for each set of addresses of the peer that are taken, interface after interface.
        let mut best: Vec<Option<Choice>> = vec![None; 1 << self.remotes.len()];
        if let Some(nothing) = best.first_mut() {
            *nothing = Some(Choice::default());
        }
        for interface in &interfaces {
            for (taken, choice) in best.clone().into_iter().enumerate() {
                choice.into_iter().for_each(|choice| self.extend(interface, (taken, &choice), &mut best));
            }
        }
        let rank = |choice: &Choice| (choice.kept.len(), std::cmp::Reverse(choice.took));
        let kept = best.into_iter().flatten().max_by_key(rank).unwrap_or_default().kept;
        let connected = self.attempts.iter().filter_map(PairAttempt::connected);
        let dropped = connected.map(|(tuple, _)| tuple).filter(|tuple| !kept.contains(tuple)).collect();
        Chosen { kept, dropped }
    }

    /// Adds a connection of an interface to a choice that takes some addresses of the peer, in all ways.
    fn extend(
        &self,
        interface: &LocalAddress,
        (taken, choice): (usize, &Choice),
        best: &mut [Option<Choice>],
    ) {
        for (at, remote) in self.remotes.iter().enumerate().filter(|(at, _)| taken & (1 << at) == 0) {
            let Some((tuple, took)) = self.fastest(interface, remote) else { continue };
            let next = choice.with(tuple, took);
            let place = best.get_mut(taken | (1 << at));
            let is_better =
                |other: &Option<Choice>| other.as_ref().is_none_or(|other| next.took < other.took);
            if let Some(place) = place.filter(|place| is_better(place)) {
                *place = Some(next);
            }
        }
    }

    /// The fastest connection between an interface and an address of the peer.
    fn fastest(&self, interface: &LocalAddress, remote: &SocketAddr) -> Option<(FourTuple, Duration)> {
        let of_pair = self
            .attempts
            .iter()
            .filter(|attempt| is_of_one_interface(&attempt.local, interface) && attempt.remote == *remote);
        of_pair.filter_map(PairAttempt::connected).min_by_key(|(_, took)| *took)
    }
}

impl PairAttempt {
    fn connected(&self) -> Option<(FourTuple, Duration)> {
        match self.result {
            Outcome::Connected { tuple, took } => Some((tuple, took)),
            Outcome::Pending | Outcome::Failed => None,
        }
    }
}

/// Connections and the sum of their times to connect.
#[derive(Debug, Clone, Default)]
struct Choice {
    kept: Vec<FourTuple>,
    took: Duration,
}

impl Choice {
    fn with(&self, tuple: FourTuple, took: Duration) -> Self {
        let mut next = self.clone();
        next.kept.push(tuple);
        next.took += took;
        next
    }
}

/// Whether two addresses belong to one interface; an address without one stands for itself.
fn is_of_one_interface(one: &LocalAddress, other: &LocalAddress) -> bool {
    one.interface == other.interface && (one.interface != 0 || one.address.ip() == other.address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(0);

    fn local(interface: u32) -> LocalAddress {
        LocalAddress { interface, address: ([10, 0, 0, 1], 0).into() }
    }

    fn remote(host: u8) -> SocketAddr {
        ([10, 9, 9, host], 4455).into()
    }

    fn tuple(interface: u32, host: u8) -> FourTuple {
        FourTuple::tcp(local(interface), remote(host))
    }

    /// Makes attempts between interfaces and hosts that connect after these times in ms; 0 fails.
    fn chosen_with<const N: usize, const M: usize>(times: [[u64; M]; N]) -> Chosen {
        let locals: Vec<_> = (1..).take(N).map(local).collect();
        let remotes: Vec<_> = (1..).take(M).map(remote).collect();
        let mut attempts = PairAttempts::new(&locals, &remotes).unwrap();
        assert_eq!(attempts.pairs().count(), N * M);
        for (from, row) in locals.iter().zip(times) {
            for (to, time) in remotes.iter().zip(row) {
                assert!(!attempts.is_over(START));
                let result = (time > 0).then(|| (FourTuple::tcp(*from, *to), Duration::from_millis(time)));
                assert!(attempts.on_result(START, (from, *to), result));
                assert!(!attempts.on_result(START, (from, *to), result), "it is known");
            }
        }
        assert!(attempts.is_over(START));
        attempts.choose()
    }

    // AMS, figures 11 and 12: A–C and B–D are the slow pairs.
    #[test]
    fn the_combination_with_the_least_sum_is_chosen_and_no_address_is_used_twice() {
        let chosen = chosen_with([[50, 10], [10, 50]]);
        assert_eq!(chosen.kept, [tuple(1, 2), tuple(2, 1)]);
        assert_eq!(chosen.dropped, [tuple(1, 1), tuple(2, 2)]);
        // The fastest pair alone would leave a bad one.
        assert_eq!(chosen_with([[10, 20], [30, 90]]).kept, [tuple(1, 2), tuple(2, 1)]);
    }

    #[test]
    fn more_connections_are_better_than_faster_ones() {
        assert_eq!(chosen_with([[1, 900], [1, 0]]).kept, [tuple(1, 2), tuple(2, 1)]);
    }

    #[test]
    fn as_many_connections_as_the_end_with_fewer_addresses_has() {
        let chosen = chosen_with([[30], [20], [10]]);
        assert_eq!((chosen.kept, chosen.dropped.len()), (vec![tuple(3, 1)], 2));
        assert_eq!(chosen_with([[30, 20, 10]]).kept, [tuple(1, 3)]);
        assert_eq!(chosen_with([[0, 0], [0, 0]]), Chosen::default());
    }

    #[test]
    fn a_connection_that_ended_is_not_chosen_and_one_pair_is_no_choice() {
        let mut attempts = PairAttempts::new(&[local(1)], &[remote(1), remote(2)]).unwrap();
        for host in [1, 2] {
            let took = Duration::from_millis(host.into());
            attempts.on_result(START, (&local(1), remote(host)), Some((tuple(1, host), took)));
        }
        attempts.on_ended(&tuple(1, 1));
        assert_eq!(attempts.choose().kept, [tuple(1, 2)]);
        assert!(PairAttempts::new(&[local(1)], &[remote(1)]).is_none());
        assert!(PairAttempts::new(&[local(1)], &["[2001:db8::1]:1".parse().unwrap()]).is_none());
    }

    #[test]
    fn eight_addresses_of_each_end_take_part() {
        let locals: Vec<_> = (1..=20).map(local).collect();
        let remotes: Vec<_> = (1..=20).map(remote).collect();
        assert_eq!(PairAttempts::new(&locals, &remotes).unwrap().pairs().count(), 64);
    }

    #[test]
    fn a_pair_without_an_answer_holds_up_the_others_for_a_second() {
        let mut attempts = PairAttempts::new(&[local(1), local(2)], &[remote(1)]).unwrap();
        assert_eq!(attempts.deadline(), None);
        attempts.on_result(START, (&local(1), remote(1)), Some((tuple(1, 1), Duration::from_millis(5))));
        assert!(!attempts.is_over(START + PATIENCE - Duration::from_millis(1)));
        assert!(attempts.is_over(START + PATIENCE));
        assert_eq!(attempts.choose().kept, [tuple(1, 1)]);
    }
}
