//! Where the datagrams of a flow without an address go: to one address, or to one of several name servers.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use bytes::Bytes;

/// The usual destination of a flow, or none.
#[derive(Debug)]
pub(super) struct Usual {
    addresses: Vec<SocketAddr>,
    /// Which of them is asked now.
    turn: usize,
    /// Datagrams to it since an answer.
    unanswered: usize,
    /// The last questions to name servers without an answer.
    questions: VecDeque<Question>,
}

#[derive(Debug)]
struct Question {
    payload: Bytes,
    /// The name server that got it first, and the one that has it now.
    first: usize,
    turn: usize,
}

/// What follows from an error about the usual destination.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The client gets an error.
    Final,
    /// This name server gets these questions, possibly none; the client gets no error.
    Again(SocketAddr, Vec<Bytes>),
}

// egress 8.8
impl Usual {
    /// One address, or those of name servers; of equal ones the first counts.
    pub(super) fn new(mut addresses: Vec<SocketAddr>) -> Self {
        let mut seen = BTreeSet::new();
        addresses.retain(|address| seen.insert(*address));
        Self { addresses, turn: 0, unanswered: 0, questions: VecDeque::new() }
    }

    pub(super) fn contains(&self, address: SocketAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// Where the next datagram goes. A program that gets no answer asks again, and then the next name server is asked. Two
    /// questions belong together: those for the addresses of both families.
    pub(super) fn ask(&mut self, payload: &Bytes) -> Option<SocketAddr> {
        if self.unanswered >= TOGETHER {
            (self.turn, self.unanswered) = (self.after(self.turn), 0);
        }
        let address = self.addresses.get(self.turn).copied()?;
        self.unanswered += 1;
        if self.addresses.len() > 1 && payload.len() <= MOST_BYTES {
            if self.questions.len() >= TOGETHER {
                self.questions.pop_front();
            }
            self.questions.push_back(Question {
                payload: payload.clone(),
                first: self.turn,
                turn: self.turn,
            });
        }
        Some(address)
    }

    /// An answer came. The name server whose turn it is keeps it.
    pub(super) fn on_answer(&mut self, payload: &[u8]) {
        self.unanswered = 0;
        self.questions.retain(|question| question.payload.get(..ID) != payload.get(..ID));
    }

    /// A datagram to an address did not arrive. What a name server was asked goes to the next one, once to each.
    pub(super) fn on_error(&mut self, address: SocketAddr) -> Failure {
        let failed = self.addresses.iter().position(|it| *it == address);
        let Some(failed) = failed.filter(|_| self.addresses.len() > 1) else { return Failure::Final };
        let next = self.after(failed);
        let (mut again, mut is_final) = (Vec::new(), false);
        self.questions.retain_mut(|question| {
            if question.turn != failed {
                return true;
            }
            question.turn = next;
            let is_left = question.first != next;
            if is_left {
                again.push(question.payload.clone());
            } else {
                is_final = true;
            }
            is_left
        });
        if self.turn == failed {
            (self.turn, self.unanswered) = (next, again.len());
        }
        match self.addresses.get(next) {
            Some(next) if !again.is_empty() || !is_final => Failure::Again(*next, again),
            _ => Failure::Final,
        }
    }

    fn after(&self, turn: usize) -> usize {
        (turn + 1).checked_rem(self.addresses.len()).unwrap_or(0)
    }
}

/// Questions that belong together.
const TOGETHER: usize = 2;
/// Bytes of a question that is kept: most that UDP carries (RFC 1035, section 4.2.1).
const MOST_BYTES: usize = 512;
/// Bytes that a question and its answer both begin with (RFC 1035, section 4.1.1).
const ID: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(count: u8) -> Vec<SocketAddr> {
        (1..=count).map(|last| SocketAddr::new([192, 0, 2, last].into(), 53)).collect()
    }

    fn a() -> Bytes {
        Bytes::from_static(b"\x00\x01A")
    }

    fn aaaa() -> Bytes {
        Bytes::from_static(b"\x00\x02AAAA")
    }

    // egress 8.8
    #[test]
    fn every_name_server_gets_a_question_once_before_the_client_gets_an_error() {
        let servers = servers(3);
        let mut usual = Usual::new([&servers[..1], &servers[..]].concat());
        assert_eq!([usual.ask(&a()), usual.ask(&aaaa())], [Some(servers[0]); 2]);
        assert_eq!(usual.on_error(servers[0]), Failure::Again(servers[1], vec![a(), aaaa()]));
        // The error about the other question.
        assert_eq!(usual.on_error(servers[0]), Failure::Again(servers[1], vec![]));
        assert_eq!(usual.on_error(servers[1]), Failure::Again(servers[2], vec![a(), aaaa()]));
        assert_eq!(usual.on_error(servers[2]), Failure::Final);
        // The next question begins with the next name server.
        assert_eq!(usual.ask(&a()), Some(servers[0]));
    }

    // egress 8.8
    #[test]
    fn a_name_server_that_answers_is_asked_on_and_what_it_answered_is_not_asked_again() {
        let servers = servers(2);
        let mut usual = Usual::new(servers.clone());
        usual.ask(&a());
        usual.ask(&aaaa());
        usual.on_error(servers[0]);
        usual.on_answer(b"\x00\x01answer");
        assert_eq!([usual.ask(&a()), usual.ask(&a())], [Some(servers[1]); 2]);
        usual.on_answer(b"\x00\x01answer");
        usual.ask(&aaaa());
        assert_eq!(usual.on_error(servers[1]), Failure::Again(servers[0], vec![aaaa()]));
    }

    // egress 8.8
    #[test]
    fn after_two_datagrams_without_an_answer_the_next_name_server_is_asked() {
        let servers = servers(2);
        let mut usual = Usual::new(servers.clone());
        let asked: Vec<_> = (0..6).filter_map(|_| usual.ask(&a())).collect();
        let [first, second] = servers[..] else { unreachable!() };
        assert_eq!(asked, [first, first, second, second, first, first]);
        assert_eq!(usual.questions.len(), TOGETHER, "only the last are kept");
        usual.ask(&vec![0; MOST_BYTES + 1].into());
        assert!(usual.questions.iter().all(|question| question.payload == a()));
    }

    // egress 8.13
    #[test]
    fn an_error_about_the_only_destination_reaches_the_client_each_time() {
        let servers = servers(1);
        let mut usual = Usual::new(servers.clone());
        assert_eq!(usual.ask(&a()), Some(servers[0]));
        assert_eq!([usual.on_error(servers[0]), usual.on_error(servers[0])], [const { Failure::Final }; 2]);
        assert_eq!(Usual::new(Vec::new()).ask(&a()), None);
    }
}
