//! Choice of address pairs for TCP connections, as AMS makes it (section 3.4): connects between all addresses at once, and
//! keeps those connections that use no address twice and were set up fastest together.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{FourTuple, Instant, LocalAddress};

/// Once a connection has been set up for so long, those that are not have lost. TCP would repeat a lost SYN after a second.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most addresses of each end that take part.
const MOST: usize = 8;

/// An attempt to connect between all pairs of addresses.
#[derive(Debug)]
pub(super) struct Race {
    remotes: Vec<SocketAddr>,
    runners: Vec<Runner>,
    /// When the first connection was set up.
    first_at: Option<Instant>,
}

#[derive(Debug)]
struct Runner {
    local: LocalAddress,
    remote: SocketAddr,
    result: Outcome,
}

#[derive(Debug, Clone, Copy)]
enum Outcome {
    Running,
    Connected { tuple: FourTuple, took: Duration },
    Failed,
}

/// The result of a race.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) kept: Vec<FourTuple>,
    pub(super) dropped: Vec<FourTuple>,
}

impl Race {
    /// All pairs of one family; `None` without a choice, that is if there is only one.
    pub(super) fn new(locals: &[LocalAddress], remotes: &[SocketAddr]) -> Option<Self> {
        let remotes: Vec<_> = remotes.iter().copied().take(MOST).collect();
        let pairs = locals.iter().take(MOST).flat_map(|local| remotes.iter().map(|remote| (*local, *remote)));
        let runners: Vec<_> = pairs
            .filter(|(local, remote)| local.address.is_ipv4() == remote.is_ipv4())
            .map(|(local, remote)| Runner { local, remote, result: Outcome::Running })
            .collect();
        (runners.len() > 1).then_some(Self { remotes, runners, first_at: None })
    }

    /// The pairs, in the order in which to connect.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (LocalAddress, SocketAddr)> {
        self.runners.iter().map(|runner| (runner.local, runner.remote))
    }

    /// A connection was set up in this time, or failed. False if its result is not needed.
    pub(super) fn on_result(
        &mut self,
        now: Instant,
        (local, remote): (&LocalAddress, SocketAddr),
        result: Option<(FourTuple, Duration)>,
    ) -> bool {
        let is_meant = |runner: &&mut Runner| {
            runner.local == *local && runner.remote == remote && matches!(runner.result, Outcome::Running)
        };
        let Some(runner) = self.runners.iter_mut().find(is_meant) else { return false };
        runner.result = match result {
            Some((tuple, took)) => {
                self.first_at.get_or_insert(now);
                Outcome::Connected { tuple, took }
            }
            None => Outcome::Failed,
        };
        true
    }

    /// A connection that was set up has ended.
    pub(super) fn on_ended(&mut self, ended: &FourTuple) {
        for runner in &mut self.runners {
            if matches!(runner.result, Outcome::Connected { tuple, .. } if tuple == *ended) {
                runner.result = Outcome::Failed;
            }
        }
    }

    /// When the rest has lost.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.first_at.map(|at| at + PATIENCE)
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        let runs = self.runners.iter().any(|runner| matches!(runner.result, Outcome::Running));
        !runs || self.deadline().is_some_and(|at| at <= now)
    }

    /// As many connections as there can be without an interface or an address of the peer in two of them; of these the
    /// ones whose set-up times are least together.
    pub(super) fn choose(self) -> Chosen {
        let mut interfaces: Vec<LocalAddress> = Vec::new();
        for runner in &self.runners {
            if !interfaces.iter().any(|local| is_of_one_interface(local, &runner.local)) {
                interfaces.push(runner.local);
            }
        }
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
        let connected = self.runners.iter().filter_map(Runner::connected);
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
            .runners
            .iter()
            .filter(|runner| is_of_one_interface(&runner.local, interface) && runner.remote == *remote);
        of_pair.filter_map(Runner::connected).min_by_key(|(_, took)| *took)
    }
}

impl Runner {
    fn connected(&self) -> Option<(FourTuple, Duration)> {
        match self.result {
            Outcome::Connected { tuple, took } => Some((tuple, took)),
            Outcome::Running | Outcome::Failed => None,
        }
    }
}

/// Connections and the sum of their set-up times.
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

    /// Runs a race between interfaces and hosts with these set-up times in ms; 0 fails.
    fn raced<const N: usize, const M: usize>(times: [[u64; M]; N]) -> Chosen {
        let locals: Vec<_> = (1..).take(N).map(local).collect();
        let remotes: Vec<_> = (1..).take(M).map(remote).collect();
        let mut race = Race::new(&locals, &remotes).unwrap();
        assert_eq!(race.pairs().count(), N * M);
        for (from, row) in locals.iter().zip(times) {
            for (to, time) in remotes.iter().zip(row) {
                assert!(!race.is_over(START));
                let result = (time > 0).then(|| (FourTuple::tcp(*from, *to), Duration::from_millis(time)));
                assert!(race.on_result(START, (from, *to), result));
                assert!(!race.on_result(START, (from, *to), result), "it is known");
            }
        }
        assert!(race.is_over(START));
        race.choose()
    }

    // AMS, figures 11 and 12: A–C and B–D are the slow pairs.
    #[test]
    fn the_combination_with_the_least_sum_is_chosen_and_no_address_is_used_twice() {
        let chosen = raced([[50, 10], [10, 50]]);
        assert_eq!(chosen.kept, [tuple(1, 2), tuple(2, 1)]);
        assert_eq!(chosen.dropped, [tuple(1, 1), tuple(2, 2)]);
        // The fastest pair alone would leave a bad one.
        assert_eq!(raced([[10, 20], [30, 90]]).kept, [tuple(1, 2), tuple(2, 1)]);
    }

    #[test]
    fn more_connections_are_better_than_faster_ones() {
        assert_eq!(raced([[1, 900], [1, 0]]).kept, [tuple(1, 2), tuple(2, 1)]);
    }

    #[test]
    fn as_many_connections_as_the_end_with_fewer_addresses_has() {
        let chosen = raced([[30], [20], [10]]);
        assert_eq!((chosen.kept, chosen.dropped.len()), (vec![tuple(3, 1)], 2));
        assert_eq!(raced([[30, 20, 10]]).kept, [tuple(1, 3)]);
        assert_eq!(raced([[0, 0], [0, 0]]), Chosen::default());
    }

    #[test]
    fn a_connection_that_ended_is_not_chosen_and_one_pair_is_no_race() {
        let mut race = Race::new(&[local(1)], &[remote(1), remote(2)]).unwrap();
        for host in [1, 2] {
            let took = Duration::from_millis(host.into());
            race.on_result(START, (&local(1), remote(host)), Some((tuple(1, host), took)));
        }
        race.on_ended(&tuple(1, 1));
        assert_eq!(race.choose().kept, [tuple(1, 2)]);
        assert!(Race::new(&[local(1)], &[remote(1)]).is_none());
        assert!(Race::new(&[local(1)], &["[2001:db8::1]:1".parse().unwrap()]).is_none());
    }

    #[test]
    fn eight_addresses_of_each_end_take_part() {
        let locals: Vec<_> = (1..=20).map(local).collect();
        let remotes: Vec<_> = (1..=20).map(remote).collect();
        assert_eq!(Race::new(&locals, &remotes).unwrap().pairs().count(), 64);
    }

    #[test]
    fn a_pair_without_an_answer_holds_up_the_others_for_a_second() {
        let mut race = Race::new(&[local(1), local(2)], &[remote(1)]).unwrap();
        assert_eq!(race.deadline(), None);
        race.on_result(START, (&local(1), remote(1)), Some((tuple(1, 1), Duration::from_millis(5))));
        assert!(!race.is_over(START + PATIENCE - Duration::from_millis(1)));
        assert!(race.is_over(START + PATIENCE));
        assert_eq!(race.choose().kept, [tuple(1, 1)]);
    }
}
