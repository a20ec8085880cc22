//! What paths deliver, which the peer hears if it chooses pairs of addresses by that (spec 6.54).

use manyway_wire::PathId;

use super::Engine;
use crate::path::Path;
use crate::{Instant, Rate};

impl Engine {
    /// The peer told what a path delivers of what it sends. An end that chooses no pairs ignores it.
    pub(crate) fn on_peer_rate(&mut self, now: Instant, id: PathId, rate: Rate) {
        let Some(path) = self.paths.get(id).filter(|path| path.is_live()) else { return };
        if let Some(selection) = &mut self.manager.selection {
            selection.is_due |= selection.survey.on_told(now, &path.tuple(), rate);
        }
    }
}

/// Whether a path carries about what it may.
pub(crate) fn is_full(path: &Path) -> bool {
    let recovery = &path.recovery;
    path.is_live() && recovery.bytes_in_flight() * 2 >= recovery.window()
}

/// What a path delivers, if its controller has found its way: so it was full once.
pub(crate) fn measured_rate(path: &Path) -> Option<Rate> {
    let recovery = &path.recovery;
    let rate = (!recovery.is_in_slow_start()).then(|| recovery.delivery_rate());
    rate.filter(|rate| rate.bytes_per_second() > 0)
}
