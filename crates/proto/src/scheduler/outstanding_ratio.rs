//! The path with the least outstanding data for its window (AMS 5.1), and small traffic on one path (AMS 4.3).

use std::cmp::Ordering;

use super::choice::{fill, has_room, is_preferred, preferred, will_have_room};
use super::{Decision, PathView, Purpose, Scheduler, Source, View};
use crate::ByteCount;

/// Keeps all windows equally full, measured by the share of each that is in flight.
///
/// Less than two datagrams go on the oldest path alone: small traffic gains nothing from more paths.
#[derive(Debug, Clone, Copy, Default)]
pub struct OutstandingRatio;

impl Scheduler for OutstandingRatio {
    fn name(&self) -> &'static str {
        "outstanding-ratio"
    }

    fn decide(&mut self, view: &View<'_>) -> Decision {
        if let Some(primary) = preferred(view).min_by_key(|path| path.id)
            && view.backlog + view.retransmissions < primary.datagram * 2
            && (has_room(primary) || will_have_room(primary))
        {
            return if has_room(primary) { fill(primary) } else { Decision::WAIT };
        }
        let order = |a: &&PathView, b: &&PathView| by_ratio(a, b).then(a.id.cmp(&b.id));
        let Some(path) = view.candidates().min_by(order) else { return Decision::WAIT };
        let next = view.candidates().filter(|other| other.id != path.id).min_by(order);
        let level = next.map_or(path.sendable, |next| until_level(path, next));
        Decision::send(path.id, level.max(path.datagram).min(path.sendable), Source::Next)
    }

    fn purpose(&self, path: &PathView, view: &View<'_>) -> Purpose {
        match preferred(view).map(|path| path.id).min() {
            Some(oldest) if oldest == path.id => Purpose::RoundRobin,
            _ if is_preferred(path, view) => Purpose::Bulk,
            _ => Purpose::Secondary,
        }
    }
}

/// Compares bytes in flight relative to the window, without division.
fn by_ratio(a: &PathView, b: &PathView) -> Ordering {
    let product = |part: ByteCount, whole: ByteCount| u128::from(part.get()) * u128::from(whole.get().max(1));
    product(a.in_flight, b.window).cmp(&product(b.in_flight, a.window))
}

/// Bytes after which `path` is as full as `next`: before that it would be chosen again and again.
fn until_level(path: &PathView, next: &PathView) -> ByteCount {
    let product = u128::from(next.in_flight.get()) * u128::from(path.window.get());
    let level = product / u128::from(next.window.get().max(1));
    ByteCount(u64::try_from(level).unwrap_or(u64::MAX)) - path.in_flight
}
