//! Queries on a view that several schedulers share.

use super::{Decision, PathView, Purpose, Source, View};
use crate::{ByteCount, Rate};

/// Datagrams of a turn, where paths take turns: enough for a batch, and few enough that small backlogs spread.
pub(super) const TURN: u64 = 4;

/// The paths in use of the best tier that has any, with or without available window.
pub(super) fn preferred<'a>(view: &View<'a>) -> impl Iterator<Item = &'a PathView> + Clone + use<'a> {
    let best = view.in_use().filter_map(PathView::tier).min();
    view.in_use().filter(move |path| path.tier() == best)
}

/// The nearest of the preferred paths, and the nearest of those that can send now.
pub(super) fn nearest<'a>(view: &View<'a>) -> Option<(&'a PathView, &'a PathView)> {
    let near = |path: &&PathView| (path.rtt.smoothed, path.id);
    Some((preferred(view).min_by_key(near)?, view.candidates().min_by_key(near)?))
}

/// Whether a path in use belongs to the best tier that has any.
pub(super) fn is_preferred(path: &PathView, view: &View<'_>) -> bool {
    preferred(view).any(|preferred| preferred.id == path.id)
}

/// The purpose of a path where all preferred paths take part alike.
pub(super) fn purpose_alike(path: &PathView, view: &View<'_>) -> Purpose {
    if is_preferred(path, view) { Purpose::RoundRobin } else { Purpose::Secondary }
}

/// The purpose of a path where the nearest preferred path is filled first.
pub(super) fn purpose_by_distance(path: &PathView, view: &View<'_>) -> Purpose {
    let nearest = preferred(view).min_by_key(|path| (path.rtt.smoothed, path.id));
    match nearest {
        Some(nearest) if nearest.id == path.id => Purpose::LowestRtt,
        _ if is_preferred(path, view) => Purpose::HigherRtt,
        _ => Purpose::Secondary,
    }
}

/// Whether the path can send now.
pub(super) fn has_room(path: &PathView) -> bool {
    path.sendable > ByteCount::ZERO
}

/// Whether a path that cannot send now will be able to by itself: otherwise no data may wait for it.
pub(super) fn will_have_room(path: &PathView) -> bool {
    path.in_flight > ByteCount::ZERO || path.next_departure.is_some()
}

/// The capacity of a path: its delivery rate, or a window in a round trip if that is more. A path with little data
/// has a low delivery rate.
pub(super) fn capacity(path: &PathView) -> Rate {
    path.expected_rate().max(path.window.per(path.rtt.smoothed))
}

/// As much of the next data as the path takes.
pub(super) fn fill(path: &PathView) -> Decision {
    Decision::send(path.id, path.sendable, Source::Next)
}

/// Bytes of a turn on a path.
pub(super) fn turn(path: &PathView) -> ByteCount {
    path.datagram * TURN
}
