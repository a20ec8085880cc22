//! Costs of paths, as this end sets them and reports them to the peer (spec 6.128).

use manyway_wire::PathId;

use super::Engine;
use super::notices::Notice;
use crate::LocalAddress;
use crate::path::{Path, PathReport, PathState};
use crate::scheduler::PathTerms;

/// Sets the cost and quota of an address's interface, and reports another cost of its paths to the peer.
pub(crate) fn set_terms(engine: &mut Engine, local: LocalAddress, terms: PathTerms) {
    if engine.manager.set_terms(local, terms) {
        for id in engine.paths.ids() {
            tell_cost(engine, id);
        }
    }
}

/// Reports the cost of a path to the peer, if that is news. The peer may not know a path that is not validated; its cost
/// goes with its first status.
pub(crate) fn tell_cost(engine: &mut Engine, id: PathId) {
    if let Some(path) = engine.paths.get(id).filter(|path| path.state() != PathState::Validating) {
        engine.notices.push(Notice::Cost(id, report_of(engine, path)));
    }
}

/// What this end reports of a path.
pub(crate) fn report_of(engine: &Engine, path: &Path) -> PathReport {
    let cost = engine.manager.terms_of(&path.tuple().local).cost;
    PathReport { availability: path.availability(), cost }
}
