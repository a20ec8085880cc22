//! State that lives until the handshake is confirmed: TLS, its two packet number spaces, and the connection attempts.

use std::collections::VecDeque;
use std::time::Duration;

use manyway_wire::ConnectionId;

use crate::EncryptionLevel;
use crate::mmsp2::tls::Handshake;
use crate::path::Receiving;
use crate::recovery::PathRecovery;
use crate::{FourTuple, Instant, Undelivered};

/// How long each candidate waits for the previous one (spec 7.20, RFC 8305).
const HEAD_START: Duration = Duration::from_millis(50);
/// Most candidates that a server answers and tells apart in one handshake; with more, no answer validates any.
const MOST_CANDIDATES: usize = 4;

/// The packet number space of one encryption level of the handshake, in both directions.
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

/// The handshake of a connection.
#[derive(Debug)]
pub(crate) struct HandshakeState {
    /// The destination id of the client's first packet; the Initial keys derive from it.
    pub(crate) original_destination: ConnectionId,
    /// The id that this end chose.
    pub(crate) local_id: ConnectionId,
    /// The id that the peer chose, once it is known.
    pub(crate) remote_id: Option<ConnectionId>,
    /// Whether the peer has sent TLS bytes, so it keeps state of this handshake.
    pub(crate) peer_keeps_state: bool,
    pub(crate) tls: Handshake,
    pub(crate) initial_space: Space,
    pub(crate) handshake_space: Space,
    /// The server's INFO: created by the server, returned by the client.
    pub(crate) info: Vec<u8>,
    /// How many INFOs the client accepted.
    pub(crate) infos_taken: u8,
    /// The address that the server's INFO is bound to.
    pub(crate) info_for: std::net::SocketAddr,
    pub(crate) attempts: Attempts,
    /// PTO probes at the Initial level, which go out although nothing is lost.
    pub(crate) initial_pto_probes: u8,
    pub(crate) handshake_pto_probes: u8,
}

impl HandshakeState {
    /// The destination id of handshake packets. A server that keeps no state yet addresses its client by the original
    /// destination, from which the keys derive.
    pub(crate) fn destination(&self) -> ConnectionId {
        self.remote_id.filter(|_| self.peer_keeps_state).unwrap_or(self.original_destination)
    }

    /// Whether anything of the server has arrived.
    pub(crate) fn is_heard(&self) -> bool {
        self.peer_keeps_state || self.infos_taken > 0 || self.attempts.is_settled()
    }

    /// Whether these are the first bytes of a packet to the ID that this client invented.
    // spec 4.3: the version and the length of the id follow the first byte.
    pub(crate) fn is_quoted(&self, quoted: &[u8]) -> bool {
        quoted.get(6..).is_some_and(|id| id.starts_with(self.original_destination.as_slice()))
    }

    /// Sends all unacknowledged content of a level again, over every candidate while the attempts last.
    pub(crate) fn say_again(&mut self, level: EncryptionLevel) {
        self.tls.resend_all(level);
        if level == EncryptionLevel::Initial {
            self.initial_pto_probes = 1;
        } else {
            self.handshake_pto_probes = 1;
        }
        if !self.attempts.is_settled() {
            self.attempts.restart();
        }
    }
}

/// Connection attempts: candidates that carry the same first flight until one of them answers.
#[derive(Debug)]
pub(crate) struct Attempts {
    candidates: Vec<FourTuple>,
    /// Candidates that should get the flight now; the front one is being served.
    due: VecDeque<FourTuple>,
    /// Candidates that are reported as unreachable, and how.
    unreachable: Vec<(FourTuple, Undelivered)>,
    /// How many candidates were started.
    started: usize,
    /// When the next candidate starts.
    next_at: Option<Instant>,
    settled: bool,
}

impl Attempts {
    /// Starts the first candidate at once, and three more 50 ms apart; the rest follow at the probe timeout.
    pub(crate) fn new(now: Instant, candidates: Vec<FourTuple>) -> Self {
        let due = candidates.first().copied().into_iter().collect();
        let next_at = (candidates.len() > 1).then(|| now + HEAD_START);
        Self { candidates, due, unreachable: Vec::new(), started: 1, next_at, settled: false }
    }

    /// A server answers to the source of the packet.
    pub(crate) fn settled(candidate: FourTuple) -> Self {
        let (due, unreachable) = (VecDeque::new(), Vec::new());
        Self { candidates: vec![candidate], due, unreachable, started: 1, next_at: None, settled: true }
    }

    /// Adds a candidate to which the server's answer goes too.
    pub(crate) fn add_candidate(&mut self, tuple: FourTuple) {
        if !self.candidates.contains(&tuple) && self.candidates.len() < MOST_CANDIDATES {
            self.candidates.push(tuple);
        }
    }

    /// Whether this is the only candidate that was ever used.
    pub(crate) fn only_candidate_is(&self, tuple: &FourTuple) -> bool {
        self.candidates.first() == Some(tuple) && self.candidates.len() == 1
    }

    /// Removes a refused candidate; the others go on. False if there is none.
    pub(crate) fn drop_candidate(&mut self, tuple: &FourTuple) -> bool {
        self.candidates.retain(|candidate| candidate != tuple);
        self.settled = false;
        self.restart();
        !self.candidates.is_empty()
    }

    /// The system refuses to send on a candidate: if the next one waits for it, that one starts at once.
    pub(crate) fn on_refused(&mut self, now: Instant, tuple: &FourTuple) {
        if self.started.checked_sub(1).and_then(|last| self.candidates.get(last)) == Some(tuple) {
            self.next_at = self.next_at.map(|_| now);
        }
    }

    /// A candidate is reported as unreachable: false if there is no such candidate. If the next one waits
    /// for it, that one starts at once.
    pub(crate) fn on_unreachable(
        &mut self,
        now: Instant,
        tuple: &FourTuple,
        undelivered: Undelivered,
    ) -> bool {
        if !self.candidates.contains(tuple) {
            return false;
        }
        if !self.is_unreachable(tuple) {
            self.unreachable.push((*tuple, undelivered));
        }
        self.on_refused(now, tuple);
        let started: Vec<_> = self.candidates.iter().take(self.started).collect();
        if self.next_at.is_none() && started.iter().all(|candidate| self.is_unreachable(candidate)) {
            // The rest need not wait for the probe timer.
            self.due.extend(self.candidates.iter().skip(self.started));
            self.started = self.candidates.len();
        }
        true
    }

    /// If every candidate is reported as unreachable: the last report of a host that does answer, or else the last one.
    pub(crate) fn lost(&self) -> Option<(FourTuple, Undelivered)> {
        let is_lost = self.candidates.iter().all(|candidate| self.is_unreachable(candidate));
        let answered = |(_, undelivered): &&(_, Undelivered)| *undelivered != Undelivered::NoNeighbour;
        let last = self.unreachable.iter().rfind(answered).or_else(|| self.unreachable.last());
        last.filter(|_| is_lost).copied()
    }

    fn is_unreachable(&self, tuple: &FourTuple) -> bool {
        self.unreachable.iter().any(|(known, _)| known == tuple)
    }

    pub(crate) fn contains(&self, tuple: &FourTuple) -> bool {
        self.candidates.contains(tuple)
    }

    /// The candidate that the flight goes to now.
    pub(crate) fn current(&self) -> Option<FourTuple> {
        self.due.front().copied()
    }

    /// The current candidate has the whole flight; true if another one waits for it.
    pub(crate) fn advance(&mut self) -> bool {
        self.due.pop_front();
        !self.due.is_empty()
    }

    /// A candidate answered first: the attempts end.
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

    /// Starts the next candidate if it is due; true if the flight has to be sent again.
    pub(crate) fn on_timeout(&mut self, now: Instant) -> bool {
        if self.next_at.is_none_or(|at| at > now) {
            return false;
        }
        self.due.extend(self.candidates.get(self.started).copied());
        self.started += 1;
        self.next_at = (self.started < self.candidates.len().min(MOST_CANDIDATES)).then(|| now + HEAD_START);
        true
    }

    /// No candidate answered in time: all get the flight again.
    pub(crate) fn restart(&mut self) {
        self.next_at = None;
        self.due = self.candidates.iter().copied().collect();
    }

    /// Replaces the candidates when addresses come and go during the handshake.
    pub(crate) fn set_candidates(&mut self, candidates: Vec<FourTuple>) {
        // A handshake over a stream does not depend on the addresses for datagrams.
        let over_stream = self.candidates.iter().any(|candidate| !candidate.is_datagram());
        if !self.settled && !over_stream && candidates != self.candidates {
            self.candidates = candidates;
            self.unreachable.clear();
            self.restart();
        }
    }

    /// The candidate after `tuple`, for a handshake that stalls on it.
    pub(crate) fn after(&self, tuple: &FourTuple) -> Option<FourTuple> {
        let at = self.candidates.iter().position(|candidate| candidate == tuple)?;
        self.candidates.iter().cycle().nth(at + 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{Attempts, HEAD_START};
    use crate::{FourTuple, Instant, LocalAddress, Undelivered};

    fn candidates(ports: std::ops::Range<u16>) -> Vec<FourTuple> {
        let local = LocalAddress { interface: 1, address: "10.0.0.1:1".parse().unwrap() };
        ports.map(|port| FourTuple::udp(local, ([10, 0, 0, 2], port).into())).collect()
    }

    /// The candidates that the flight goes to now.
    fn served(attempts: &mut Attempts) -> Vec<u16> {
        let mut served = Vec::new();
        while let Some(candidate) = attempts.current() {
            served.push(candidate.remote.port());
            assert_eq!(attempts.advance(), attempts.current().is_some());
        }
        served
    }

    #[test]
    fn four_candidates_start_one_after_the_other_and_the_rest_after_a_timeout() {
        let now = Instant::from_nanos(0);
        let mut attempts = Attempts::new(now, candidates(1..6));
        assert_eq!(served(&mut attempts), [1]);
        assert!(!attempts.on_timeout(now));
        for (turn, candidate) in [(1, 2), (2, 3), (3, 4)] {
            assert_eq!(attempts.deadline(), Some(now + HEAD_START * turn));
            assert!(attempts.on_timeout(now + HEAD_START * turn));
            assert_eq!(served(&mut attempts), [candidate]);
        }
        assert_eq!((attempts.deadline(), attempts.on_timeout(now + HEAD_START * 9)), (None, false));
        attempts.restart();
        assert_eq!(served(&mut attempts), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_candidate_that_the_system_refuses_has_no_head_start() {
        let now = Instant::from_nanos(0);
        let mut attempts = Attempts::new(now, candidates(1..3));
        assert_eq!(served(&mut attempts), [1]);
        attempts.on_refused(now, &candidates(2..3)[0]);
        assert_eq!(attempts.deadline(), Some(now + HEAD_START));
        attempts.on_refused(now, &candidates(1..2)[0]);
        assert_eq!(attempts.deadline(), Some(now));
        assert!(attempts.on_timeout(now));
        attempts.on_refused(now, &candidates(2..3)[0]);
        assert_eq!((served(&mut attempts), attempts.deadline()), (vec![2], None));
    }

    // spec 7.44
    #[test]
    fn the_attempts_fail_only_when_every_candidate_is_reported_as_unreachable() {
        let now = Instant::from_nanos(0);
        let mut attempts = Attempts::new(now, candidates(1..7));
        assert_eq!(served(&mut attempts), [1]);
        let report = |attempts: &mut Attempts, port: u16, undelivered| {
            attempts.on_unreachable(now, &candidates(port..port + 1)[0], undelivered)
        };
        assert!(!report(&mut attempts, 9, Undelivered::Unreachable));
        for started in 1..=4 {
            assert!(report(&mut attempts, started, Undelivered::NoNeighbour));
            assert!(report(&mut attempts, started, Undelivered::NoNeighbour));
            assert_eq!(attempts.lost(), None);
            attempts.on_timeout(now);
            let next = if started < 4 { vec![started + 1] } else { vec![5, 6] };
            assert_eq!(served(&mut attempts), next);
        }
        assert!(report(&mut attempts, 5, Undelivered::PortClosed));
        assert_eq!(attempts.lost(), None);
        assert!(report(&mut attempts, 6, Undelivered::NoNeighbour));
        let answered = (candidates(5..6)[0], Undelivered::PortClosed);
        assert_eq!(attempts.lost(), Some(answered), "it says more than that others do not answer");
        attempts.set_candidates(candidates(1..2));
        assert_eq!(attempts.lost(), None);
        assert!(report(&mut attempts, 1, Undelivered::NoNeighbour));
        assert_eq!(attempts.lost(), Some((candidates(1..2)[0], Undelivered::NoNeighbour)));
    }

    #[test]
    fn settled_attempts_serve_no_candidate() {
        let mut attempts = Attempts::new(Instant::from_nanos(0), candidates(1..4));
        attempts.settle();
        attempts.set_candidates(candidates(5..9));
        assert_eq!((attempts.current(), attempts.deadline(), attempts.is_settled()), (None, None, true));
        assert!(attempts.contains(&candidates(3..4)[0]));
    }

    #[test]
    fn new_addresses_restart_the_attempts() {
        let mut attempts = Attempts::new(Instant::from_nanos(0), candidates(1..3));
        attempts.set_candidates(candidates(1..3));
        assert_eq!(served(&mut attempts), [1]);
        attempts.set_candidates(candidates(2..5));
        assert_eq!(served(&mut attempts), [2, 3, 4]);
        attempts.set_candidates(Vec::new());
        assert_eq!(attempts.current(), None);
    }

    #[test]
    fn every_candidate_gets_its_turn_when_the_handshake_stalls() {
        let candidates = candidates(1..4);
        let attempts = Attempts::new(Instant::from_nanos(0), candidates.clone());
        let mut at = candidates[0];
        let turns: Vec<_> = (0..3)
            .map(|_| {
                at = attempts.after(&at).unwrap();
                at
            })
            .collect();
        assert_eq!(turns, [candidates[1], candidates[2], candidates[0]]);
        assert_eq!(Attempts::settled(candidates[0]).after(&candidates[1]), None);
    }
}
