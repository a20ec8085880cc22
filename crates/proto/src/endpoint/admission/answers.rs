//! Rate limit of answers to unknown senders.

use std::hash::{DefaultHasher, Hasher};

use crate::Instant;
use crate::prefix::Prefix;

/// INFOs per second that every network gets, whatever the others do (spec 7.12).
const INFOS_FOR_EACH: u16 = 10;
/// Further INFOs per second, for all networks together.
const SHARED_INFOS: u32 = 1000;
/// Resets per second, and as many version lists.
const REFUSALS: u32 = 1000;
/// Number of cells into which networks are hashed; networks in one cell share its limit.
const CELLS: usize = 4096;

/// An answer that needs no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A SYN-ACK without state, for a server under load.
    Info(Prefix),
    /// A stateless reset.
    Reset,
    /// A version list.
    Versions,
}

/// Counts the answers of the present second. Its memory is fixed: 32 KiB from the first INFO on.
#[derive(Debug)]
pub(crate) struct Answers {
    /// Keeps attackers from choosing networks that share a cell.
    secret: [u8; 16],
    second: u64,
    shared_infos: u32,
    resets: u32,
    version_lists: u32,
    cells: Vec<Cell>,
}

/// INFOs of one cell in a second.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    second: u32,
    given: u16,
}

impl Answers {
    /// Starts without answers; `secret` must be unknown to attackers.
    pub(crate) fn new(secret: [u8; 16]) -> Self {
        Self { secret, second: 0, shared_infos: 0, resets: 0, version_lists: 0, cells: Vec::new() }
    }

    /// Whether an answer may be sent now; if so, counts it. Costs O(1).
    pub(crate) fn may_answer(&mut self, now: Instant, answer: Answer) -> bool {
        let second = now.as_nanos() / 1_000_000_000;
        if self.second != second {
            self.second = second;
            (self.shared_infos, self.resets, self.version_lists) = (0, 0, 0);
        }
        match answer {
            Answer::Info(prefix) => self.takes_own(prefix) || take(&mut self.shared_infos, SHARED_INFOS),
            Answer::Reset => take(&mut self.resets, REFUSALS),
            Answer::Versions => take(&mut self.version_lists, REFUSALS),
        }
    }

    /// Takes one of the INFOs reserved for this network.
    fn takes_own(&mut self, prefix: Prefix) -> bool {
        if self.cells.is_empty() {
            self.cells = vec![Cell::default(); CELLS];
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.secret);
        hasher.write_u64(prefix.bits());
        let at = usize::try_from(hasher.finish() % CELLS as u64).unwrap_or(0);
        let second = u32::try_from(self.second & u64::from(u32::MAX)).unwrap_or(0);
        let Some(cell) = self.cells.get_mut(at) else { return false };
        if cell.second != second {
            *cell = Cell { second, given: 0 };
        }
        let allowed = cell.given < INFOS_FOR_EACH;
        cell.given += u16::from(allowed);
        allowed
    }
}

fn take(given: &mut u32, most: u32) -> bool {
    let allowed = *given < most;
    *given += u32::from(allowed);
    allowed
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Answer, Answers, INFOS_FOR_EACH, Prefix, REFUSALS, SHARED_INFOS};
    use crate::Instant;

    fn network(number: u32) -> Prefix {
        Prefix::of(std::net::SocketAddr::from(((number << 8 | 7).to_be_bytes(), 1)))
    }

    #[test]
    fn unknown_senders_get_a_limited_number_of_answers_a_second() {
        let mut answers = Answers::new([1; 16]);
        let mut now = Instant::from_nanos(7);
        for _ in 0..3 {
            let mut count = |answer| (0..5 * REFUSALS).filter(|_| answers.may_answer(now, answer)).count();
            assert_eq!(count(Answer::Reset), REFUSALS as usize);
            assert_eq!(count(Answer::Versions), REFUSALS as usize, "noise of one kind uses up no other");
            let infos = count(Answer::Info(network(1)));
            assert_eq!(infos, SHARED_INFOS as usize + usize::from(INFOS_FOR_EACH));
            now += Duration::from_secs(1);
        }
    }

    #[test]
    fn a_network_that_requests_everything_leaves_the_others_their_share() {
        let mut answers = Answers::new([1; 16]);
        let now = Instant::from_nanos(7);
        while answers.may_answer(now, Answer::Info(network(1))) {}
        let of_others =
            (2..300).filter(|number| answers.may_answer(now, Answer::Info(network(*number)))).count();
        // At most by chance one of them shares the cell of the first.
        assert!(of_others >= 290, "{of_others}");
    }

    #[test]
    fn a_flood_from_everywhere_gets_no_more_than_the_table_allows() {
        let mut answers = Answers::new([1; 16]);
        let now = Instant::from_nanos(7);
        let given =
            (0..100_000).filter(|number| answers.may_answer(now, Answer::Info(network(*number)))).count();
        assert!(given <= 1000 + 10 * 4096, "{given}");
    }
}
