//! Rate reports to a peer that chooses address pairs by them (spec 6.54).

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_wire::PathId;

use crate::{Instant, Rate};

/// Time between two reports about a path while it is full.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// The last report about each path.
#[derive(Debug, Default)]
pub(crate) struct RateReports(BTreeMap<PathId, Report>);

#[derive(Debug)]
struct Report {
    at: Instant,
    /// Sequence number of that report.
    sequence: u64,
    rate: Rate,
}

impl RateReports {
    /// The first report is due as soon as there is a rate, later ones while the path is full.
    pub(crate) fn is_due(&self, now: Instant, path: PathId, is_full: impl FnOnce() -> bool) -> bool {
        self.0.get(&path).is_none_or(|report| now - report.at >= REPORT_EVERY && is_full())
    }

    pub(crate) fn on_reported(&mut self, now: Instant, path: PathId, sequence: u64, rate: Rate) {
        self.0.insert(path, Report { at: now, sequence, rate });
    }

    /// The rate in the statement with this number about a path, if it contains one.
    pub(crate) fn reported_with(&self, path: PathId, sequence: u64) -> Option<Rate> {
        self.0.get(&path).filter(|report| report.sequence == sequence).map(|report| report.rate)
    }

    pub(crate) fn forget(&mut self, path: PathId) {
        self.0.remove(&path);
    }
}
