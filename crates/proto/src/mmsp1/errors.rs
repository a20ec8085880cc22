//! Causes that wait to be reported by ERROR, and how many of each code may go (spec 3.70 to 3.74).

use std::collections::VecDeque;
use std::time::Duration;

use manyway_wire::Writer;
use manyway_wire::mmsp1::{Cause, ErrorCode, encode_error};
use smallvec::SmallVec;

use crate::Instant;

/// Span over which causes are counted.
const SPAN: Duration = Duration::from_secs(1);
/// Causes of one code in a span.
const EACH: usize = 10;
/// Causes about unknown blocks in a span.
const UNKNOWN_BLOCKS: usize = 1;
/// Causes that wait at most: no path can take more.
const WAITING: usize = 32;

/// A cause of RST or ERROR that does not borrow its information.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnedCause {
    pub(crate) code: ErrorCode,
    pub(crate) information: SmallVec<[u8; 8]>,
}

impl OwnedCause {
    pub(crate) fn new(code: ErrorCode, information: &[u8]) -> Self {
        Self { code, information: SmallVec::from_slice(information) }
    }

    pub(crate) fn as_cause(&self) -> Cause<'_> {
        Cause { code: self.code, information: &self.information }
    }
}

/// The causes that wait, and the times of those that were noted in the last second.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    waiting: VecDeque<OwnedCause>,
    /// For each code of the protocol, oldest first.
    noted: [VecDeque<Instant>; ErrorCode::ALL.len()],
}

impl Errors {
    /// Notes a cause for the next ERROR, unless enough of its code were noted in the last second.
    pub(crate) fn note(&mut self, now: Instant, code: ErrorCode, information: &[u8]) {
        if self.waiting.len() < WAITING && self.may_report(now, code) {
            self.waiting.push_back(OwnedCause::new(code, information));
        }
    }

    /// Whether a cause of this code may go now (spec 3.74); if so, counts it.
    pub(crate) fn may_report(&mut self, now: Instant, code: ErrorCode) -> bool {
        let most = if code == ErrorCode::UNRECOGNISED_BLOCK { UNKNOWN_BLOCKS } else { EACH };
        let at = ErrorCode::ALL.iter().position(|known| *known == code);
        let Some(noted) = at.and_then(|at| self.noted.get_mut(at)) else { return false };
        while noted.front().is_some_and(|at| now - *at >= SPAN) {
            noted.pop_front();
        }
        if noted.len() >= most {
            return false;
        }
        noted.push_back(now);
        true
    }

    /// Whether an ERROR should go.
    pub(crate) fn any_due(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Appends ERROR with as many of the causes as fit, and forgets those.
    pub(crate) fn write(&mut self, w: &mut Writer<'_>) {
        if self.any_due() {
            let written = encode_error(w, self.waiting.iter().map(OwnedCause::as_cause));
            self.waiting.drain(..written);
        }
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.waiting.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use manyway_wire::mmsp1::{Block, Blocks};

    use super::*;

    const START: Instant = Instant::from_nanos(1_000);

    fn written(errors: &mut Errors, room: usize) -> Vec<(ErrorCode, Vec<u8>)> {
        let mut packet = Vec::new();
        errors.write(&mut Writer::new(&mut packet, room));
        match Blocks::new(&packet).next() {
            None => Vec::new(),
            Some(Ok(Block::Error(report))) => {
                report.causes.iter().map(|cause| (cause.code, cause.information.to_vec())).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    /// How many causes go if one is noted and written each 10 ms for a second.
    fn count_in_a_second(errors: &mut Errors, from: Instant, code: ErrorCode) -> usize {
        (0..100)
            .map(|step| {
                errors.note(from + Duration::from_millis(10 * step), code, &[]);
                written(errors, 1200).len()
            })
            .sum()
    }

    #[test]
    fn each_error_code_is_sent_ten_times_a_second_at_most() {
        let mut errors = Errors::default();
        for second in 0..3 {
            let from = START + Duration::from_secs(second);
            for code in ErrorCode::ALL.into_iter().filter(|code| *code != ErrorCode::UNRECOGNISED_BLOCK) {
                assert_eq!(count_in_a_second(&mut errors, from, code), 10, "{code}");
            }
        }
        assert_eq!(
            count_in_a_second(&mut errors, START, ErrorCode(77)),
            0,
            "this endpoint sends no other code"
        );
    }

    #[test]
    fn unknown_blocks_are_reported_once_a_second() {
        let mut errors = Errors::default();
        assert_eq!(count_in_a_second(&mut errors, START, ErrorCode::UNRECOGNISED_BLOCK), 1);
        errors.note(START + Duration::from_millis(999), ErrorCode::UNRECOGNISED_BLOCK, &[99]);
        assert!(!errors.any_due());
        errors.note(START + Duration::from_secs(1), ErrorCode::UNRECOGNISED_BLOCK, &[99]);
        assert_eq!(written(&mut errors, 1200), [(ErrorCode::UNRECOGNISED_BLOCK, vec![99])]);
    }

    #[test]
    fn no_second_has_more_than_ten_of_a_code_however_they_come() {
        let mut errors = Errors::default();
        let late = START + Duration::from_millis(900);
        (0..10).for_each(|_| errors.note(late, ErrorCode::NO_USER_DATA, &[0; 4]));
        assert_eq!(written(&mut errors, 1200).len(), 10);
        errors.note(START + Duration::from_millis(1100), ErrorCode::NO_USER_DATA, &[0; 4]);
        assert!(!errors.any_due(), "seconds do not begin at whole seconds");
    }

    #[test]
    fn causes_that_do_not_fit_wait_and_their_number_is_limited() {
        let mut errors = Errors::default();
        for code in ErrorCode::ALL {
            (0..10).for_each(|_| errors.note(START, code, &[1, 2]));
        }
        assert!(written(&mut errors, 4).is_empty(), "no room");
        assert_eq!(written(&mut errors, 20).len(), 2);
        assert_eq!(written(&mut errors, 1200).len(), WAITING - 2);
        assert!(!errors.any_due());
    }
}
