//! What lives only until the set-up is confirmed: TLS, its two number spaces, and the race between addresses.

use std::collections::VecDeque;
use std::time::Duration;

use manyway_wire::ConnectionId;

use crate::handshake::Handshake;
use crate::path::Space;
use crate::{FourTuple, Instant};

/// How long the second address pair waits for the first (spec 7.20, RFC 8305).
const HEAD_START: Duration = Duration::from_millis(50);
/// Address pairs that a server answers in one set-up and tells apart; with more, none is proven by its answer.
const MOST_LEGS: usize = 4;

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
}

/// Address pairs that carry the same first flight until one of them answers.
#[derive(Debug)]
pub(crate) struct Race {
    legs: Vec<FourTuple>,
    /// Legs that should get the flight now, the front one being served.
    due: VecDeque<FourTuple>,
    second_at: Option<Instant>,
    settled: bool,
}

impl Race {
    /// Starts with the first leg at once and the second 50 ms later; the rest follow at the probe timeout.
    pub(crate) fn new(now: Instant, legs: Vec<FourTuple>) -> Self {
        let due = legs.first().copied().into_iter().collect();
        let second_at = (legs.len() > 1).then(|| now + HEAD_START);
        Self { legs, due, second_at, settled: false }
    }

    /// A server answers where it was asked.
    pub(crate) fn settled(leg: FourTuple) -> Self {
        Self { legs: vec![leg], due: VecDeque::new(), second_at: None, settled: true }
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
        self.second_at = None;
        self.due.clear();
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.second_at
    }

    /// The second leg's time has come; true if the flight has to be sent again.
    pub(crate) fn on_timeout(&mut self, now: Instant) -> bool {
        if self.second_at.is_none_or(|at| at > now) {
            return false;
        }
        self.second_at = None;
        self.due.extend(self.legs.get(1).copied());
        true
    }

    /// Nobody answered in time: all legs get the flight again.
    pub(crate) fn restart(&mut self) {
        self.second_at = None;
        self.due = self.legs.iter().copied().collect();
    }

    /// Replaces the legs, when addresses come and go during the set-up.
    pub(crate) fn set_legs(&mut self, legs: Vec<FourTuple>) {
        if !self.settled && legs != self.legs {
            self.legs = legs;
            self.restart();
        }
    }

    /// The leg after `tuple`, for a set-up that stalls on it.
    pub(crate) fn after(&self, tuple: &FourTuple) -> Option<FourTuple> {
        let at = self.legs.iter().position(|leg| leg == tuple)?;
        self.legs.iter().cycle().nth(at + 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{HEAD_START, Race};
    use crate::{FourTuple, Instant, LocalAddress};

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
    fn the_second_leg_starts_after_the_head_start_and_the_others_after_a_timeout() {
        let now = Instant::from_nanos(0);
        let mut race = Race::new(now, legs(1..4));
        assert_eq!(served(&mut race), [1]);
        assert!(!race.on_timeout(now));
        assert_eq!(race.deadline(), Some(now + HEAD_START));
        assert!(race.on_timeout(now + HEAD_START));
        assert_eq!(served(&mut race), [2]);
        assert_eq!((race.deadline(), race.on_timeout(now + HEAD_START)), (None, false));
        race.restart();
        assert_eq!(served(&mut race), [1, 2, 3]);
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
