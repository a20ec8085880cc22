//! ICMP errors: reports of routers and hosts about packets that they did not deliver (spec 6.52, 7.44).
//!
//! Any host can send such a report, even an attacker off the path that guesses the addresses. So a report must quote
//! an id that only hosts on the path know, and on a path it raises no more than suspicion, and that rarely: the path
//! answers, and is active again. An attacker on the path can end a connection attempt in any case.

use std::time::Duration;

use manyway_wire::PathId;

use super::Engine;
use super::notices::Notice;
use crate::path::PathReason;
use crate::{Detection, Instant};

/// After such a suspicion a path ignores further reports for this long.
const REST: Duration = Duration::from_secs(5);

/// A report says that a packet of this path was not delivered. Returns true if the path became
/// suspect, or is challenged.
pub(crate) fn on_unreachable(engine: &mut Engine, now: Instant, id: PathId) -> bool {
    let Some(path) = engine.paths.get(id) else { return false };
    let is_ignored = path.last_unreachable().is_some_and(|last| now - last < REST);
    let in_flight = path.recovery.packets_in_flight() > 0;
    if is_ignored || !in_flight || !path.state().carries_data() || !engine.paths.another_works(now, id) {
        return false;
    }
    if let Some(path) = engine.paths.get_mut(id) {
        path.on_unreachable(now);
    }
    if engine.features.detection == Detection::Probes {
        engine.notices.push(Notice::Overdue(id));
        return true;
    }
    engine.suspect(now, id, PathReason::Unreachable);
    true
}
