//! What lives only until the set-up is confirmed: TLS, its two number spaces, and the race between addresses.

use std::collections::VecDeque;
use std::time::Duration;

use manyway_wire::ConnectionId;

use crate::handshake::Handshake;
use crate::path::manager::PathManager;
use crate::path::{Receiving, Role};
use crate::protection::Level;
use crate::recovery::PathRecovery;
use crate::{FourTuple, Instant};

/// How long each address pair waits for the one before (spec 7.20, RFC 8305).
const HEAD_START: Duration = Duration::from_millis(50);
/// Address pairs that a server answers in one set-up and tells apart; with more, none is proven by its answer.
const MOST_LEGS: usize = 4;

/// The packet numbers of one level of the set-up, in both directions.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) recovery: PathRecovery,
    pub(crate) receiving: Receiving,
}

impl Space {
    pub(crate) fn new(recovery: PathRecovery) -> Self {
        Self { recovery, receiving: Receiving::new() }
    }
}

/// The set-up of a connection.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The id of the client's first packet; the keys of open packets derive from it.
    pub(crate) first_destination: ConnectionId,
    /// The id that this end chose.
    pub(crate) local_id: ConnectionId,
    /// The id that the peer chose, once it is known.
    pub(crate) remote_id: Option<ConnectionId>,
    /// The peer has sent TLS bytes, so it remembers this set-up.
    pub(crate) peer_keeps_state: bool,
    pub(crate) handshake: Handshake,
    pub(crate) open: Space,
    pub(crate) set_up: Space,
    /// The server's INFO: made by the server, returned by the client.
    pub(crate) info: Vec<u8>,
    /// How many INFOs a client took.
    pub(crate) infos_taken: u8,
    /// The address that a server made its INFO for.
    pub(crate) info_for: std::net::SocketAddr,
    pub(crate) race: Race,
    /// Packets that go out although nothing is lost: the probe timer ran out at this level.
    pub(crate) open_probes: u8,
    pub(crate) set_up_probes: u8,
}

impl Setup {
    /// The destination of the set-up's packets. A server that keeps no state yet knows its client by the id that the
    /// client invented, from which the keys follow.
    pub(crate) fn destination(&self) -> ConnectionId {
        self.remote_id.filter(|_| self.peer_keeps_state).unwrap_or(self.first_destination)
    }

    /// Says everything of a level again that was not answered, over every leg while the race is open.
    pub(crate) fn say_again(&mut self, level: Level) {
        self.handshake.resend_all(level);
        if level == Level::Open {
            self.open_probes = 1;
        } else {
            self.set_up_probes = 1;
        }
        if !self.race.is_settled() {
            self.race.restart();
        }
    }
}

/// Address pairs that carry the same first flight until one of them answers.
#[derive(Debug)]
pub(crate) struct Race {
    legs: Vec<FourTuple>,
    /// Legs that should get the flight now, the front one being served.
    due: VecDeque<FourTuple>,
    /// Legs on which a host or router says that nobody is reached.
    unreachable: Vec<FourTuple>,
    /// How many legs had their first turn.
    started: usize,
    /// When the next leg has its first turn.
    next_at: Option<Instant>,
    settled: bool,
}

impl Race {
    /// Starts with the first leg at once and three more 50 ms after each other; the rest follow at the probe timeout.
    pub(crate) fn new(now: Instant, legs: Vec<FourTuple>) -> Self {
        let due = legs.first().copied().into_iter().collect();
        let next_at = (legs.len() > 1).then(|| now + HEAD_START);
        Self { legs, due, unreachable: Vec::new(), started: 1, next_at, settled: false }
    }

    /// A server answers where it was asked.
    pub(crate) fn settled(leg: FourTuple) -> Self {
        let (due, unreachable) = (VecDeque::new(), Vec::new());
        Self { legs: vec![leg], due, unreachable, started: 1, next_at: None, settled: true }
    }

    /// A server's answer goes to one more address pair.
    pub(crate) fn add_leg(&mut self, tuple: FourTuple) {
        if !self.legs.contains(&tuple) && self.legs.len() < MOST_LEGS {
            self.legs.push(tuple);
        }
    }

    /// Whether nothing was ever sent to another address pair than this.
    pub(crate) fn only_leg_is(&self, tuple: &FourTuple) -> bool {
        self.legs.first() == Some(tuple) && self.legs.len() == 1
    }

    /// A leg is refused: the others go on. False if there is none.
    pub(crate) fn drop_leg(&mut self, tuple: &FourTuple) -> bool {
        self.legs.retain(|leg| leg != tuple);
        self.settled = false;
        self.restart();
        !self.legs.is_empty()
    }

    /// The system refuses to send on a leg: if the next one waits for it, it waits no longer.
    pub(crate) fn on_refused(&mut self, now: Instant, tuple: &FourTuple) {
        if self.started.checked_sub(1).and_then(|last| self.legs.get(last)) == Some(tuple) {
            self.next_at = self.next_at.map(|_| now);
        }
    }

    /// A host or router says that nobody is reached over a leg: false if there is no such leg. One that waits for its turn
    /// waits no longer.
    pub(crate) fn on_unreachable(&mut self, now: Instant, tuple: &FourTuple) -> bool {
        if !self.legs.contains(tuple) {
            return false;
        }
        if !self.unreachable.contains(tuple) {
            self.unreachable.push(*tuple);
        }
        self.on_refused(now, tuple);
        let started: Vec<_> = self.legs.iter().take(self.started).collect();
        if self.next_at.is_none() && started.iter().all(|leg| self.unreachable.contains(leg)) {
            // The rest need not wait for the probe timer.
            self.due.extend(self.legs.iter().skip(self.started));
            self.started = self.legs.len();
        }
        true
    }

    /// Whether that is said of every leg.
    pub(crate) fn is_lost(&self) -> bool {
        self.legs.iter().all(|leg| self.unreachable.contains(leg))
    }

    pub(crate) fn contains(&self, tuple: &FourTuple) -> bool {
        self.legs.contains(tuple)
    }

    /// The leg that the flight goes to now.
    pub(crate) fn current(&self) -> Option<FourTuple> {
        self.due.front().copied()
    }

    /// The current leg has the whole flight; true if another one waits for it.
    pub(crate) fn advance(&mut self) -> bool {
        self.due.pop_front();
        !self.due.is_empty()
    }

    /// This leg answered first.
    pub(crate) fn settle(&mut self) {
        self.settled = true;
        self.next_at = None;
        self.due.clear();
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.next_at
    }

    /// The next leg's time has come; true if the flight has to be sent again.
    pub(crate) fn on_timeout(&mut self, now: Instant) -> bool {
        if self.next_at.is_none_or(|at| at > now) {
            return false;
        }
        self.due.extend(self.legs.get(self.started).copied());
        self.started += 1;
        self.next_at = (self.started < self.legs.len().min(MOST_LEGS)).then(|| now + HEAD_START);
        true
    }

    /// Nobody answered in time: all legs get the flight again.
    pub(crate) fn restart(&mut self) {
        self.next_at = None;
        self.due = self.legs.iter().copied().collect();
    }

    /// Replaces the legs, when addresses come and go during the set-up.
    pub(crate) fn set_legs(&mut self, legs: Vec<FourTuple>) {
        if !self.settled && legs != self.legs {
            self.legs = legs;
            self.unreachable.clear();
            self.restart();
        }
    }

    /// The leg after `tuple`, for a set-up that stalls on it.
    pub(crate) fn after(&self, tuple: &FourTuple) -> Option<FourTuple> {
        let at = self.legs.iter().position(|leg| leg == tuple)?;
        self.legs.iter().cycle().nth(at + 1).copied()
    }
}

/// The order in which address pairs join the race (spec 7.20): first one pair of each interface, then the other pairs,
/// the families of an interface in turn; but the second pair is of the other family at once. So neither a broken
/// interface nor a broken family costs more than the head start.
pub(crate) fn race_order(manager: &PathManager) -> Vec<FourTuple> {
    let mut rounds: Vec<_> = manager.missing(&[]);
    for open in &mut rounds {
        alternate_families(&mut open.targets);
    }
    rounds.sort_by_key(|open| match open.role {
        Role::Primary => 0,
        Role::Secondary => 1,
        Role::Backup | Role::Never => 2,
    });
    let deepest = rounds.iter().map(|open| open.targets.len()).max().unwrap_or(0);
    let mut legs: Vec<(FourTuple, Role)> = (0..deepest)
        .flat_map(|round| {
            rounds.iter().filter_map(move |open| Some((open.targets.get(round).copied()?, open.role)))
        })
        .collect();
    if let Some((first, role)) = legs.first().copied() {
        let other_family = |leg: &FourTuple| leg.remote.is_ipv4() != first.remote.is_ipv4();
        let elsewhere = |leg: &FourTuple| leg.local.interface != first.local.interface;
        let best = legs.iter().position(|(leg, its)| other_family(leg) && elsewhere(leg) && *its == role);
        if let Some(second) = best.or_else(|| legs.iter().position(|(leg, _)| other_family(leg))) {
            let leg = legs.remove(second);
            legs.insert(1, leg);
        }
    }
    legs.into_iter().map(|(leg, _)| leg).collect()
}

/// Puts pairs of the two families in turn, beginning with that of the first.
fn alternate_families(targets: &mut Vec<FourTuple>) {
    let Some(first) = targets.first().copied() else { return };
    let is_first = |target: &FourTuple| target.remote.is_ipv4() == first.remote.is_ipv4();
    let (ours, others): (Vec<_>, Vec<_>) = targets.drain(..).partition(is_first);
    let (mut ours, mut others) = (ours.into_iter(), others.into_iter());
    loop {
        let (one, other) = (ours.next(), others.next());
        if one.is_none() && other.is_none() {
            return;
        }
        targets.extend(one.into_iter().chain(other));
    }
}

#[cfg(test)]
mod tests {
    use super::{HEAD_START, Race, race_order};
    use crate::path::manager::PathManager;
    use crate::path::{LocalCandidate, Role};
    use crate::{FourTuple, Instant, LocalAddress};

    fn order(locals: &[(u32, &str, Role)]) -> Vec<(u32, bool)> {
        let candidate = |(interface, address, role): &(u32, &str, Role)| LocalCandidate {
            address: LocalAddress { interface: *interface, address: address.parse().unwrap() },
            role: *role,
        };
        let locals: Vec<_> = locals.iter().map(candidate).collect();
        let remotes =
            ["[2001:db8::1]:1", "192.0.2.1:1", "[2001:db8::2]:1", "192.0.2.2:1"].map(|a| a.parse().unwrap());
        let legs = race_order(&PathManager::new(&locals, &remotes));
        legs.iter().map(|leg| (leg.local.interface, leg.remote.is_ipv4())).collect()
    }

    #[test]
    fn the_second_leg_is_of_the_other_family_and_of_another_interface_where_there_is_one() {
        use Role::{Backup, Primary};
        let (v6, v4) = (false, true);
        let one = [(1, "[2001:db8::1:1]:1", Primary), (1, "10.0.0.1:1", Primary)];
        assert_eq!(order(&one), [(1, v6), (1, v4), (1, v6), (1, v4)]);
        let second = [(2, "[2001:db8::2:1]:1", Primary), (2, "10.0.1.1:1", Primary)];
        assert_eq!(order(&[one, second].concat())[..3], [(1, v6), (2, v4), (2, v6)]);
        // A backup is not drawn in for that.
        let backup = [(2, "[2001:db8::2:1]:1", Backup), (2, "10.0.1.1:1", Backup)];
        assert_eq!(order(&[one, backup].concat())[..3], [(1, v6), (1, v4), (2, v6)]);
        assert_eq!(order(&[(1, "10.0.0.1:1", Primary), (2, "10.0.1.1:1", Primary)])[..2], [(1, v4), (2, v4)]);
    }

    fn legs(ports: std::ops::Range<u16>) -> Vec<FourTuple> {
        let local = LocalAddress { interface: 1, address: "10.0.0.1:1".parse().unwrap() };
        ports.map(|port| FourTuple { local, remote: ([10, 0, 0, 2], port).into() }).collect()
    }

    /// The legs that the flight goes to now.
    fn served(race: &mut Race) -> Vec<u16> {
        let mut served = Vec::new();
        while let Some(leg) = race.current() {
            served.push(leg.remote.port());
            assert_eq!(race.advance(), race.current().is_some());
        }
        served
    }

    #[test]
    fn four_legs_start_one_after_the_other_and_the_rest_after_a_timeout() {
        let now = Instant::from_nanos(0);
        let mut race = Race::new(now, legs(1..6));
        assert_eq!(served(&mut race), [1]);
        assert!(!race.on_timeout(now));
        for (turn, leg) in [(1, 2), (2, 3), (3, 4)] {
            assert_eq!(race.deadline(), Some(now + HEAD_START * turn));
            assert!(race.on_timeout(now + HEAD_START * turn));
            assert_eq!(served(&mut race), [leg]);
        }
        assert_eq!((race.deadline(), race.on_timeout(now + HEAD_START * 9)), (None, false));
        race.restart();
        assert_eq!(served(&mut race), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_leg_that_the_system_refuses_has_no_head_start() {
        let now = Instant::from_nanos(0);
        let mut race = Race::new(now, legs(1..3));
        assert_eq!(served(&mut race), [1]);
        race.on_refused(now, &legs(2..3)[0]);
        assert_eq!(race.deadline(), Some(now + HEAD_START));
        race.on_refused(now, &legs(1..2)[0]);
        assert_eq!(race.deadline(), Some(now));
        assert!(race.on_timeout(now));
        race.on_refused(now, &legs(2..3)[0]);
        assert_eq!((served(&mut race), race.deadline()), (vec![2], None));
    }

    // spec 7.44
    #[test]
    fn a_race_is_lost_when_every_leg_is_said_to_be_unreachable_and_not_before() {
        let now = Instant::from_nanos(0);
        let mut race = Race::new(now, legs(1..7));
        assert_eq!(served(&mut race), [1]);
        assert!(!race.on_unreachable(now, &legs(9..10)[0]));
        for started in 1..=4 {
            let leg = legs(started..started + 1)[0];
            assert!(race.on_unreachable(now, &leg) && race.on_unreachable(now, &leg));
            assert!(!race.is_lost());
            race.on_timeout(now);
            let next = if started < 4 { vec![started + 1] } else { vec![5, 6] };
            assert_eq!(served(&mut race), next);
        }
        assert!(race.on_unreachable(now, &legs(5..6)[0]) && !race.is_lost());
        assert!(race.on_unreachable(now, &legs(6..7)[0]) && race.is_lost());
        race.set_legs(legs(1..2));
        assert!(!race.is_lost());
    }

    #[test]
    fn a_settled_race_serves_nobody_any_more() {
        let mut race = Race::new(Instant::from_nanos(0), legs(1..4));
        race.settle();
        race.set_legs(legs(5..9));
        assert_eq!((race.current(), race.deadline(), race.is_settled()), (None, None, true));
        assert!(race.contains(&legs(3..4)[0]));
    }

    #[test]
    fn new_addresses_start_the_race_again() {
        let mut race = Race::new(Instant::from_nanos(0), legs(1..3));
        race.set_legs(legs(1..3));
        assert_eq!(served(&mut race), [1]);
        race.set_legs(legs(2..5));
        assert_eq!(served(&mut race), [2, 3, 4]);
        race.set_legs(Vec::new());
        assert_eq!(race.current(), None);
    }

    #[test]
    fn every_leg_gets_its_turn_when_the_set_up_stalls() {
        let legs = legs(1..4);
        let race = Race::new(Instant::from_nanos(0), legs.clone());
        let mut at = legs[0];
        let turns: Vec<_> = (0..3)
            .map(|_| {
                at = race.after(&at).unwrap();
                at
            })
            .collect();
        assert_eq!(turns, [legs[1], legs[2], legs[0]]);
        assert_eq!(Race::settled(legs[0]).after(&legs[1]), None);
    }
}
