//! Rate reports to a peer that chooses address pairs by them (spec 6.54).

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_wire::PathId;

use super::control::Control;
use crate::engine::{Engine, is_full, measured_rate};
use crate::{Instant, Rate};

/// Time between two reports about a path while it is full.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// The last report about each path.
#[derive(Debug, Default)]
pub(crate) struct RatesTold(BTreeMap<PathId, Told>);

#[derive(Debug)]
struct Told {
    at: Instant,
    /// Sequence number of that report.
    sequence: u64,
    rate: Rate,
}

impl RatesTold {
    /// The first report is due as soon as there is a rate, later ones while the path is full.
    pub(crate) fn is_due(&self, now: Instant, path: PathId, is_full: impl FnOnce() -> bool) -> bool {
        self.0.get(&path).is_none_or(|told| now - told.at >= TOLD_EVERY && is_full())
    }

    pub(crate) fn on_told(&mut self, now: Instant, path: PathId, sequence: u64, rate: Rate) {
        self.0.insert(path, Told { at: now, sequence, rate });
    }

    /// The rate in the statement with this number about a path, if it contains one.
    pub(crate) fn told_with(&self, path: PathId, sequence: u64) -> Option<Rate> {
        self.0.get(&path).filter(|told| told.sequence == sequence).map(|told| told.rate)
    }

    pub(crate) fn forget(&mut self, path: PathId) {
        self.0.remove(&path);
    }
}

impl Control {
    /// Reports the rate of a path, if the peer requests reports and one is due.
    pub(super) fn report_rate(&mut self, engine: &Engine, now: Instant, id: PathId) {
        let Some(path) = engine.paths.get(id) else { return };
        if !self.wants_rate(now, id, || is_full(path)) {
            return;
        }
        if let Some(rate) = measured_rate(path) {
            self.send_rate(now, id, path.availability(), rate);
        }
    }
}
