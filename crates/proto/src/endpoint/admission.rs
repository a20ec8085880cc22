//! Limits on set-ups that are not complete, and on answers to strangers.

use std::time::Duration;

use super::slots::ConnectionHandle;
use crate::Instant;

/// With so many incomplete set-ups, a server keeps nothing for a stranger who has not proven its address.
const UNDER_LOAD: usize = 64;
/// With so many, the oldest gives way.
const MOST_HALF_OPEN: usize = 1024;
/// Stateless answers a second: resets, version lists, and INFOs under load.
const ANSWERS_A_SECOND: u32 = 1000;

/// Counts what strangers cause.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    half_open: Vec<ConnectionHandle>,
    answers: u32,
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
    pub(crate) fn may_answer(&mut self, now: Instant) -> bool {
        if self.second.is_none_or(|second| now - second >= Duration::from_secs(1)) {
            self.second = Some(now);
            self.answers = 0;
        }
        let allowed = self.answers < ANSWERS_A_SECOND;
        self.answers += u32::from(allowed);
        allowed
    }
}
