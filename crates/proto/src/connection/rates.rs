//! What paths deliver, which the peer hears if it chooses pairs of addresses by that (spec 6.54).

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_wire::PathId;
use manyway_wire::mmsp2::PathStatus;

use super::Connection;
use crate::path::Path;
use crate::{Instant, Rate};

/// The peer hears of a path so often, while it is full.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// What the peer was told last of each path.
#[derive(Debug, Default)]
pub(super) struct RatesTold(BTreeMap<PathId, Told>);

#[derive(Debug)]
struct Told {
    at: Instant,
    /// Of the statement that says so.
    sequence: u64,
    rate: Rate,
}

impl RatesTold {
    /// The first time as soon as there is a rate, then while the path is full.
    pub(super) fn is_due(&self, now: Instant, path: PathId, is_full: impl FnOnce() -> bool) -> bool {
        self.0.get(&path).is_none_or(|told| now - told.at >= TOLD_EVERY && is_full())
    }

    pub(super) fn on_told(&mut self, now: Instant, path: PathId, sequence: u64, rate: Rate) {
        self.0.insert(path, Told { at: now, sequence, rate });
    }

    /// What that statement about a path says of its rate, if it does.
    pub(super) fn told_with(&self, path: PathId, sequence: u64) -> Option<Rate> {
        self.0.get(&path).filter(|told| told.sequence == sequence).map(|told| told.rate)
    }

    pub(super) fn forget(&mut self, path: PathId) {
        self.0.remove(&path);
    }
}

impl Connection {
    /// Tells the peer what a path delivers, if it wants to know, and it is time.
    pub(super) fn tell_rate(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get(id) else { return };
        if !self.control.wants_rate(now, id, || is_full(path)) {
            return;
        }
        if let Some(rate) = measured_rate(path) {
            self.control.send_rate(now, id, path.availability(), rate);
        }
    }

    /// The peer told what a path delivers of what it sends. An end that chooses no pairs ignores it.
    pub(super) fn on_rate(&mut self, now: Instant, block: &PathStatus) {
        let Some(rate) = block.rate.map(Rate::from_bytes_per_second) else { return };
        let Some(path) = self.paths.get(block.path).filter(|path| path.is_live()) else { return };
        if let Some(selection) = &mut self.manager.selection {
            selection.is_due |= selection.survey.on_told(now, &path.tuple(), rate);
        }
    }
}

/// Whether a path carries about what it may.
pub(super) fn is_full(path: &Path) -> bool {
    let recovery = &path.space.recovery;
    path.is_live() && recovery.bytes_in_flight() * 2 >= recovery.window()
}

/// What a path delivers, if its controller has found its way: so it was full once.
pub(super) fn measured_rate(path: &Path) -> Option<Rate> {
    let recovery = &path.space.recovery;
    let rate = (!recovery.is_in_slow_start()).then(|| recovery.delivery_rate());
    rate.filter(|rate| rate.bytes_per_second() > 0)
}
