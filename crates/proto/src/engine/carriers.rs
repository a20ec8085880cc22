//! What the driver reports about carriers: streams that it opened or lost, their figures, and back-pressure.

use manyway_wire::PathId;

use super::{Engine, Side};
use crate::path::{Path, PathReason, PathState, Role};
use crate::recovery::CarrierFigures;
use crate::{FourTuple, Instant};

/// Opens a path of a client over a stream that the driver has connected; `None` if that is not possible now.
pub(crate) fn open_stream_path(engine: &mut Engine, now: Instant, tuple: FourTuple) -> Option<PathId> {
    let is_known = engine.paths.iter().any(|path| path.tuple() == tuple);
    if engine.side == Side::Server || !engine.phase.is_established() || tuple.is_datagram() || is_known {
        return None;
    }
    let id = engine.limits.next_path;
    let role = engine.manager.role_of_host(&tuple.local);
    engine.open_path(now, vec![tuple], role).then_some(id)
}

/// A path over a stream gets no new data, and closes when what is on its way there had time to arrive.
pub(crate) fn retire(engine: &mut Engine, now: Instant, id: PathId) {
    let Some(path) = engine.paths.get_mut(id) else { return };
    match path.state() {
        PathState::Active | PathState::Parked | PathState::Probation => {
            path.set_role(Role::Backup);
            engine.advance_path(now, id, PathState::Backup, PathReason::Replaced);
            engine.tell_status(id);
        }
        // The time to arrive counts from the moment at which it became backup.
        PathState::Backup => engine.change_reason(now, id, PathReason::Replaced),
        PathState::Validating | PathState::Suspect | PathState::Dead | PathState::Closed => {
            engine.close_own_path(now, id, PathReason::Replaced);
        }
    }
}

/// A stream has ended. Its path closes, because no other stream has the same address, and what was in flight on it
/// is sent again elsewhere.
pub(crate) fn on_carrier_closed(engine: &mut Engine, now: Instant, tuple: &FourTuple) {
    for id in engine.paths.ids() {
        let Some(path) = engine.paths.get_mut(id).filter(|path| path.tuple() == *tuple) else { continue };
        if path.is_datagram() {
            continue;
        }
        if path.state() == PathState::Validating
            && let Some(other) = path.challenger.target_besides(tuple)
        {
            // The stream that ended carried copies.
            path.addresses.set(other);
            path.challenger.set_targets(now, vec![other]);
            continue;
        }
        engine.close_own_path(now, id, PathReason::CarrierClosed);
    }
}

/// The system reports its figures of a stream.
pub(crate) fn on_carrier_figures(
    engine: &mut Engine,
    now: Instant,
    tuple: &FourTuple,
    figures: CarrierFigures,
) {
    for id in engine.paths.ids() {
        let Some(path) = engine.paths.get_mut(id).filter(|path| path.tuple() == *tuple) else { continue };
        path.recovery.on_figures(figures);
        path.mtu.set_stream_rate(figures.delivery_rate);
        engine.adopt_size(now, id);
    }
}

/// The driver can pass nothing on to a carrier now.
pub(crate) fn on_blocked(engine: &mut Engine, now: Instant, tuple: &FourTuple) {
    on_tuple(engine, tuple).for_each(|path| path.back_pressure.on_blocked(now, *tuple));
}

/// The driver can pass packets on to a carrier again.
pub(crate) fn on_writable(engine: &mut Engine, tuple: &FourTuple) {
    on_tuple(engine, tuple).for_each(|path| path.back_pressure.on_writable());
}

fn on_tuple<'a>(engine: &'a mut Engine, tuple: &'a FourTuple) -> impl Iterator<Item = &'a mut Path> {
    engine.paths.iter_mut().filter(|path| path.tuple() == *tuple)
}
