//! Limits on set-ups that are not complete, and on answers to strangers.

use std::time::Duration;

use super::slots::ConnectionHandle;
use crate::Instant;

/// With so many incomplete set-ups, a server keeps nothing for a stranger who has not proven its address.
const UNDER_LOAD: usize = 64;
/// With so many, the oldest gives way.
const MOST_HALF_OPEN: usize = 1024;
/// Resets and version lists a second.
const ANSWERS_A_SECOND: u32 = 1000;
/// INFOs a second under load: a budget of its own, or noise would lock new clients out.
const INFOS_A_SECOND: u32 = 10_000;

/// An answer that needs no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// To an honest client under load.
    Info,
    /// A reset or a version list.
    Refusal,
}

/// Counts what strangers cause.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    half_open: Vec<ConnectionHandle>,
    infos: u32,
    refusals: u32,
    second: Option<Instant>,
}

impl Admission {
    /// Forgets set-ups that are complete or gone.
    pub(crate) fn prune(&mut self, mut still_open: impl FnMut(ConnectionHandle) -> bool) {
        self.half_open.retain(|handle| still_open(*handle));
    }

    pub(crate) fn is_under_load(&self) -> bool {
        self.half_open.len() >= UNDER_LOAD
    }

    /// Counts a new set-up; returns the one that has to give way for it, if there are too many.
    pub(crate) fn admit(&mut self, handle: ConnectionHandle) -> Option<ConnectionHandle> {
        self.half_open.push(handle);
        (self.half_open.len() > MOST_HALF_OPEN).then(|| self.half_open.remove(0))
    }

    /// Whether a stranger may be answered now.
    pub(crate) fn may_answer(&mut self, now: Instant, answer: Answer) -> bool {
        if self.second.is_none_or(|second| now - second >= Duration::from_secs(1)) {
            self.second = Some(now);
            self.infos = 0;
            self.refusals = 0;
        }
        let (given, most) = match answer {
            Answer::Info => (&mut self.infos, INFOS_A_SECOND),
            Answer::Refusal => (&mut self.refusals, ANSWERS_A_SECOND),
        };
        let allowed = *given < most;
        *given += u32::from(allowed);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ANSWERS_A_SECOND, Admission, Answer, ConnectionHandle, MOST_HALF_OPEN, UNDER_LOAD};
    use crate::Instant;

    #[test]
    fn the_oldest_half_open_set_up_gives_way_to_one_too_many() {
        let mut admission = Admission::default();
        let handles: Vec<_> = (0..=MOST_HALF_OPEN).map(ConnectionHandle::numbered).collect();
        for (count, handle) in handles.iter().enumerate() {
            assert_eq!(admission.is_under_load(), count >= UNDER_LOAD);
            let gives_way = admission.admit(*handle);
            assert_eq!(gives_way, (count == MOST_HALF_OPEN).then(|| handles[0]));
        }
    }

    #[test]
    fn complete_set_ups_do_not_count() {
        let mut admission = Admission::default();
        for index in 0..2 * UNDER_LOAD {
            admission.admit(ConnectionHandle::numbered(index));
        }
        assert!(admission.is_under_load());
        admission.prune(|handle| handle == ConnectionHandle::numbered(3));
        assert!(!admission.is_under_load());
        assert_eq!(admission.half_open, [ConnectionHandle::numbered(3)]);
    }

    #[test]
    fn strangers_get_a_limited_number_of_answers_a_second() {
        let mut admission = Admission::default();
        let mut now = Instant::from_nanos(7);
        for _ in 0..3 {
            let answered =
                (0..5 * ANSWERS_A_SECOND).filter(|_| admission.may_answer(now, Answer::Refusal)).count();
            assert!(admission.may_answer(now, Answer::Info), "noise uses up no INFO");
            assert_eq!(answered, ANSWERS_A_SECOND as usize);
            now += Duration::from_secs(1);
        }
    }
}
