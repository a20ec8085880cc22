//! The path with the smallest RTT that can send, as in Linux MPTCP's first scheduler.

use super::choice::purpose_by_distance;
use super::{Decision, PathView, Purpose, Scheduler, Source, View};

/// Fills the nearest path first, then farther ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct MinRtt;

impl Scheduler for MinRtt {
    fn name(&self) -> &'static str {
        "min-rtt"
    }

    fn decide(&mut self, view: &View<'_>) -> Decision {
        match view.candidates().min_by_key(|path| (path.rtt.smoothed, path.id)) {
            Some(path) => Decision::send(path.id, path.sendable, Source::Next),
            None => Decision::WAIT,
        }
    }

    fn purpose(&self, path: &PathView, view: &View<'_>) -> Purpose {
        purpose_by_distance(path, view)
    }
}
