//! Delivery rates of paths, which are reported to a peer that chooses address pairs by them (spec 6.54).

use manyway_wire::PathId;

use super::Engine;
use crate::path::Path;
use crate::{Instant, Rate};

impl Engine {
    /// The peer reported the rate at which a path delivers its data. An end that chooses no pairs ignores it.
    pub(crate) fn on_peer_rate(&mut self, now: Instant, id: PathId, rate: Rate) {
        let Some(path) = self.paths.get(id).filter(|path| path.is_live()) else { return };
        if let Some(selection) = &mut self.manager.selection {
            selection.is_due |= selection.checks.on_told(now, &path.tuple(), rate);
        }
    }
}

/// Whether a path is about as full as its window permits.
pub(crate) fn is_full(path: &Path) -> bool {
    let recovery = &path.recovery;
    path.is_live() && recovery.bytes_in_flight() * 2 >= recovery.window()
}

/// The delivery rate of a path, once its controller has left slow start: so it was full once.
pub(crate) fn measured_rate(path: &Path) -> Option<Rate> {
    let recovery = &path.recovery;
    let rate = (!recovery.is_in_slow_start()).then(|| recovery.delivery_rate());
    rate.filter(|rate| rate.bytes_per_second() > 0)
}
